//! What is asked of a job by both servers: see [`Rule`].

use super::{MAX_TEST_DURATION, MAX_TEST_UPDATES, MIN_TEST_UPDATE_INTERVAL};
use crate::{
    duration::GoDuration,
    job::{JobAction, JobSpec},
    job_options::TestOptions,
    paths::{self, branch_cel, path_cel},
    rules::{Check, Rule},
};

/// Every table, in the order in which refusals are listed.
pub(crate) const RULES: &[&[Rule<JobSpec>]] =
    &[MISSING, FOREIGN, MESSAGES, BRANCHES, &DELETE, &MOVE, PATHS, TEST];

/// Whether options are there and not null.
macro_rules! given {
    ($action:literal) => {
        concat!("(has(self.", $action, ") && self.", $action, " != null)")
    };
}

/// An action needs its options.
macro_rules! missing {
    ($name:literal $action:literal $variant:ident $member:ident) => {
        Rule::required(
            ($name, "spec", $action),
            concat!("the action ", $action, " needs its options, for example {\"", $action, "\": {}}"),
            concat!("self.action != '", $action, "' || ", given!($action)),
            Check::Object(|spec| spec.action == JobAction::$variant && spec.$member.is_none()),
        )
    };
}

const MISSING: &[Rule<JobSpec>] = &[
    missing!("pr-missing" "pr" PullRequest pr),
    missing!("push-missing" "push" Push push),
    missing!("pull-missing" "pull" Pull pull),
    missing!("migrate-missing" "migrate" Migrate migrate),
    missing!("delete-missing" "delete" Delete delete),
    missing!("move-missing" "move" Move move_),
    missing!("test-missing" "test" Test test),
];

/// Options go with their action.
macro_rules! foreign {
    ($name:literal $action:literal $variant:ident $member:ident) => {
        Rule::forbidden(
            ($name, "spec", $action),
            concat!(
                "these options belong to the action ",
                $action,
                ": set spec.action to it, or leave them out"
            ),
            concat!("self.action == '", $action, "' || !", given!($action)),
            Check::Object(|spec| spec.action != JobAction::$variant && spec.$member.is_some()),
        )
    };
}

const FOREIGN: &[Rule<JobSpec>] = &[
    foreign!("pr-foreign" "pr" PullRequest pr),
    foreign!("push-foreign" "push" Push push),
    foreign!("pull-foreign" "pull" Pull pull),
    foreign!("migrate-foreign" "migrate" Migrate migrate),
    foreign!("delete-foreign" "delete" Delete delete),
    foreign!("move-foreign" "move" Move move_),
    foreign!("fix-foreign" "fixFolderMetadata" FixFolderMetadata fix_folder_metadata),
    foreign!("test-foreign" "test" Test test),
];

/// A commit's message: any text without control characters but line breaks and tabs.
macro_rules! message {
    ($name:literal $at:literal |$spec:ident| $message:expr) => {
        Rule::invalid(
            ($name, $at, "message"),
            "a commit's message has no control characters but line breaks and tabs",
            "!has(self.message) || !self.message.matches(r'[\\x00-\\x08\\x0b-\\x1f\\x7f]')",
            Check::Object(|$spec| $message.is_some_and(|text| text.chars().any(is_refused_in_messages))),
        )
    };
}

const MESSAGES: &[Rule<JobSpec>] = &[
    message!("message" "spec" |spec| Some(&spec.message)),
    message!("push-message" "spec.push" |spec| spec.push.as_ref().map(|push| &push.message)),
    message!("migrate-message" "spec.migrate" |spec| spec.migrate.as_ref().map(|migrate| &migrate.message)),
];

fn is_refused_in_messages(c: char) -> bool {
    c.is_ascii_control() && !matches!(c, '\n' | '\t')
}

/// A branch that may be left out.
macro_rules! branch {
    ($name:literal $at:literal $field:literal $member:ident $value:ident) => {
        Rule::invalid(
            ($name, $at, $field),
            paths::BRANCH_MESSAGE,
            concat!(
                "!has(self.", $field, ") || self.", $field, " == '' || ", branch_cel!("self." $field)
            ),
            Check::Object(|spec| {
                spec.$member.as_ref().is_some_and(|options| {
                    !options.$value.is_empty() && paths::branch_name(&options.$value).is_err()
                })
            }),
        )
    };
}

const BRANCHES: &[Rule<JobSpec>] = &[
    branch!("push-branch" "spec.push" "branch" push branch),
    branch!("migrate-branch" "spec.migrate" "branch" migrate branch),
    branch!("delete-branch" "spec.delete" "ref" delete reference),
    branch!("move-branch" "spec.move" "ref" move_ reference),
    branch!("fix-branch" "spec.fixFolderMetadata" "ref" fix_folder_metadata reference),
];

/// What delete and move work on: at least one path or resource, and no path that leads out.
macro_rules! selection {
    ($table:ident $at:literal $items:literal $member:ident $none:literal $empty:literal $unsafe:literal) => {
        const $table: [Rule<JobSpec>; 3] = [
            Rule::required(
                ($none, $at, "paths"),
                "at least one path or resource is needed",
                "(has(self.paths) && size(self.paths) > 0) || (has(self.resources) && size(self.resources) > 0)",
                Check::Object(|spec| {
                    spec.$member
                        .as_ref()
                        .is_some_and(|options| options.paths.is_empty() && options.resources.is_empty())
                }),
            ),
            Rule::required(
                ($empty, $items, ""),
                "the root cannot be meant",
                "self != ''",
                Check::Each(|spec| spec.$member.as_ref().map_or(&[], |options| &options.paths), str::is_empty),
            ),
            Rule::invalid(
                ($unsafe, $items, ""),
                paths::SAFE_PATH_MESSAGE,
                path_cel!("self"),
                Check::Each(
                    |spec| spec.$member.as_ref().map_or(&[], |options| &options.paths),
                    |path| paths::safe_path(path).is_err(),
                ),
            ),
        ];
    };
}

selection!(DELETE "spec.delete" "spec.delete.paths[]" delete "delete-nothing" "delete-root" "delete-unsafe");
selection!(MOVE "spec.move" "spec.move.paths[]" move_ "move-nothing" "move-root" "move-unsafe");

const PATHS: &[Rule<JobSpec>] = &[
    Rule::invalid(
        ("push-path", "spec.push", "path"),
        paths::SAFE_PATH_MESSAGE,
        concat!("!has(self.path) || ", path_cel!("self.path")),
        Check::Object(|spec| spec.push.as_ref().is_some_and(|push| paths::safe_path(&push.path).is_err())),
    ),
    Rule::required(
        ("move-nowhere", "spec.move", "targetPath"),
        "say where the files go",
        "has(self.targetPath) && self.targetPath != ''",
        Check::Object(|spec| spec.move_.as_ref().is_some_and(|options| options.target_path.is_empty())),
    ),
    Rule::invalid(
        ("move-target", "spec.move", "targetPath"),
        paths::SAFE_PATH_MESSAGE,
        concat!("!has(self.targetPath) || ", path_cel!("self.targetPath")),
        Check::Object(|spec| {
            spec.move_.as_ref().is_some_and(|options| paths::safe_path(&options.target_path).is_err())
        }),
    ),
    Rule::invalid(
        ("move-target-folder", "spec.move", "targetPath"),
        "expected a folder: its path ends with a slash",
        "!has(self.targetPath) || self.targetPath == '' || self.targetPath.endsWith('/')",
        Check::Object(|spec| {
            spec.move_
                .as_ref()
                .is_some_and(|options| !options.target_path.is_empty() && !options.target_path.ends_with('/'))
        }),
    ),
];

/// A duration that Go reads, in CEL. What is none is refused by the schema, and not once more by the rules.
macro_rules! is_duration {
    () => {
        "self.duration.matches('^[-+]?(0|(([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$')"
    };
}

const TEST: &[Rule<JobSpec>] = &[
    Rule::invalid(
        ("test-duration", "spec.test", "duration"),
        "must be above 0s and at most 15m0s",
        concat!(
            "has(self.duration) && (!",
            is_duration!(),
            " || (duration(self.duration) > duration('0s') && \
             duration(self.duration) <= duration('15m')))"
        ),
        Check::Object(|spec| spec.test.as_ref().is_some_and(|test| !lasts(test))),
    ),
    Rule::invalid(
        ("test-updates", "spec.test", "progressUpdates"),
        "updates must be at least 500ms apart: fewer, or a longer duration",
        concat!(
            "!has(self.progressUpdates) || self.progressUpdates <= 0 || self.progressUpdates > 1000 || \
             !has(self.duration) || !",
            is_duration!(),
            " || duration(self.duration) <= duration('0s') || \
             duration(self.duration) > duration('15m') || \
             duration(self.duration).getMilliseconds() >= 500 * self.progressUpdates"
        ),
        Check::Object(|spec| {
            spec.test.as_ref().is_some_and(|test| {
                let updates = test.progress_updates;
                (1..=MAX_TEST_UPDATES).contains(&updates)
                    && lasts(test)
                    && test.duration.as_nanos() / updates < MIN_TEST_UPDATE_INTERVAL.as_nanos()
            })
        }),
    ),
];

fn lasts(test: &TestOptions) -> bool {
    test.duration > GoDuration::ZERO && test.duration <= MAX_TEST_DURATION
}
