//! Admission of jobs: their action, their name, and whether they can be done.

use crate::{
    consts::DASHBOARD_GROUP,
    duration::GoDuration,
    field_error::FieldError,
    job::{JobAction, JobSpec, JobState},
    job_options::{ResourceRef, TestOptions},
    paths,
};

/// Most resources that one job may name.
pub const MAX_RESOURCES: usize = 100;
/// Longest test job.
pub const MAX_TEST_DURATION: GoDuration = GoDuration::from_secs(15 * 60);
/// Most progress reports of a test job.
pub const MAX_TEST_UPDATES: i64 = 1000;
/// Shortest time between two progress reports of a test job.
pub const MIN_TEST_UPDATE_INTERVAL: GoDuration = GoDuration::from_millis(500);
/// How often a test job reports progress when it is not said.
pub const DEFAULT_TEST_UPDATES: i64 = 10;

/// What a server lets jobs do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRules {
    /// Kinds that jobs may name, as (group, kind).
    pub kinds: Vec<(String, String)>,
}

impl Default for JobRules {
    /// Dashboards only.
    fn default() -> Self {
        Self { kinds: vec![(DASHBOARD_GROUP.to_owned(), "Dashboard".to_owned())] }
    }
}

/// Whether a job in that state has ended.
pub fn finished(state: JobState) -> bool {
    state.is_finished()
}

/// Fills in a missing action from the options: of `migrate`, `pull`, `push` and `pr`, the one that is there
/// decides. More than one is an error.
///
/// An action that is named stays, so that [`validate`] can point at options which do not belong to it. (Grafana
/// lets the options override the name, `persistentstore.go`; then a mistake in either runs the other.)
pub fn normalise(spec: &mut JobSpec) -> Result<(), FieldError> {
    if !spec.action.is_empty() {
        return Ok(());
    }
    let mut present = [
        (JobAction::Migrate, spec.migrate.is_some()),
        (JobAction::Pull, spec.pull.is_some()),
        (JobAction::Push, spec.push.is_some()),
        (JobAction::PullRequest, spec.pr.is_some()),
    ]
    .into_iter()
    .filter_map(|(action, present)| present.then_some(action));
    let Some(action) = present.next() else { return Ok(()) };
    if let Some(second) = present.next() {
        let message = format!("multiple job types found ({action}, {second}): name the one that is meant");
        return Err(FieldError::required("spec.action", message));
    }
    spec.action = action;
    Ok(())
}

/// Name of the job, which is also what keeps a second one from being queued.
///
/// `test` jobs do not exclude each other: their name ends in a dash, and the caller appends something unique.
/// Names are valid for any API server (RFC 1123): lower case, where Grafana's have capitals.
pub fn job_name(repository: &str, spec: &JobSpec) -> String {
    match &spec.action {
        JobAction::Pull | JobAction::Migrate => format!("{repository}-sync"),
        JobAction::PullRequest => format!("{repository}-pr-{}", spec.pr.as_ref().map_or(0, |pr| pr.pr)),
        JobAction::Test => format!("{repository}-test-"),
        other => format!("{repository}-{}", other.as_str().to_ascii_lowercase()),
    }
}

/// Whether the name of the job ends in something unique, so that such jobs do not exclude each other.
pub fn has_unique_name(action: &JobAction) -> bool {
    matches!(action, JobAction::Test)
}

/// Everything that is wrong with a job.
pub fn validate(spec: &JobSpec, rules: &JobRules) -> Vec<FieldError> {
    if spec.action.is_empty() {
        return vec![FieldError::required("spec.action", "a job needs an action")];
    }
    if let JobAction::Other(name) = &spec.action {
        let known = JobAction::ALL;
        let known: Vec<&str> = known.iter().map(JobAction::as_str).collect();
        return vec![FieldError::not_supported("spec.action", name.as_str(), &known)];
    }
    let mut errors = Vec::new();
    if spec.repository.is_empty() {
        errors.push(FieldError::required("spec.repository", "a job needs the name of its repository"));
    }
    own_options(spec, &mut errors);
    foreign_options(spec, &mut errors);
    match &spec.action {
        JobAction::Push => {
            if let Some(push) = &spec.push {
                optional_branch("spec.push.branch", &push.branch, &mut errors);
                safe("spec.push.path", &push.path, &mut errors);
                resources("spec.push.resources", &push.resources, rules, &mut errors);
            }
        }
        JobAction::Migrate => {
            if let Some(migrate) = &spec.migrate {
                optional_branch("spec.migrate.branch", &migrate.branch, &mut errors);
                resources("spec.migrate.resources", &migrate.resources, rules, &mut errors);
            }
        }
        JobAction::Delete => {
            if let Some(delete) = &spec.delete {
                optional_branch("spec.delete.ref", &delete.reference, &mut errors);
                selection("spec.delete", &delete.paths, &delete.resources, &mut errors);
            }
        }
        JobAction::Move => {
            if let Some(options) = &spec.move_ {
                optional_branch("spec.move.ref", &options.reference, &mut errors);
                selection("spec.move", &options.paths, &options.resources, &mut errors);
                if options.target_path.is_empty() {
                    errors.push(FieldError::required("spec.move.targetPath", "say where the files go"));
                }
                safe("spec.move.targetPath", &options.target_path, &mut errors);
            }
        }
        JobAction::FixFolderMetadata => {
            if let Some(options) = &spec.fix_folder_metadata {
                optional_branch("spec.fixFolderMetadata.ref", &options.reference, &mut errors);
            }
        }
        JobAction::Test => {
            if let Some(options) = &spec.test {
                check_test_options(options, &mut errors);
            }
        }
        _ => {}
    }
    errors
}

/// The little that is asked of a historic job.
pub fn validate_historic(spec: &JobSpec) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if spec.action.is_empty() {
        errors.push(FieldError::required("spec.action", "a job needs an action"));
    }
    if spec.repository.is_empty() {
        errors.push(FieldError::required("spec.repository", "a job needs the name of its repository"));
    }
    errors
}

/// Each options member, the action that it belongs to, and whether it is there.
fn options(spec: &JobSpec) -> [(&'static str, JobAction, bool); 8] {
    [
        ("pr", JobAction::PullRequest, spec.pr.is_some()),
        ("push", JobAction::Push, spec.push.is_some()),
        ("pull", JobAction::Pull, spec.pull.is_some()),
        ("migrate", JobAction::Migrate, spec.migrate.is_some()),
        ("delete", JobAction::Delete, spec.delete.is_some()),
        ("move", JobAction::Move, spec.move_.is_some()),
        ("fixFolderMetadata", JobAction::FixFolderMetadata, spec.fix_folder_metadata.is_some()),
        ("test", JobAction::Test, spec.test.is_some()),
    ]
}

fn own_options(spec: &JobSpec, errors: &mut Vec<FieldError>) {
    for (name, action, present) in options(spec) {
        let optional = action == JobAction::FixFolderMetadata;
        if action == spec.action && !present && !optional {
            errors.push(FieldError::required(
                &format!("spec.{name}"),
                format!("the action {name} needs its options, for example {{\"{name}\": {{}}}}"),
            ));
        }
    }
}

fn foreign_options(spec: &JobSpec, errors: &mut Vec<FieldError>) {
    for (name, action, present) in options(spec) {
        if present && action != spec.action {
            errors.push(FieldError::forbidden(
                &format!("spec.{name}"),
                format!("these options belong to the action {name}, and the action is {}", spec.action),
            ));
        }
    }
}

fn optional_branch(field: &str, branch: &str, errors: &mut Vec<FieldError>) {
    if branch.is_empty() {
        return;
    }
    if let Err(why) = paths::branch_name(branch) {
        errors.push(FieldError::invalid(field, branch, why));
    }
}

fn safe(field: &str, path: &str, errors: &mut Vec<FieldError>) {
    if let Err(why) = paths::safe_path(path) {
        errors.push(FieldError::invalid(field, path, why));
    }
}

/// Resources of push and migrate: not too many, named, and of a kind that can be managed.
fn resources(field: &str, resources: &[ResourceRef], rules: &JobRules, errors: &mut Vec<FieldError>) {
    if resources.len() > MAX_RESOURCES {
        errors.push(FieldError::too_many(field, resources.len(), MAX_RESOURCES));
        return;
    }
    for (index, resource) in resources.iter().enumerate() {
        let field = format!("{field}[{index}]");
        named(&field, resource, errors);
        if resource.kind.is_empty() {
            continue;
        }
        let mut groups = rules.kinds.iter().filter(|(_, kind)| *kind == resource.kind).peekable();
        if groups.peek().is_none() {
            let known: Vec<&str> = rules.kinds.iter().map(|(_, kind)| kind.as_str()).collect();
            errors.push(FieldError::not_supported(&format!("{field}.kind"), resource.kind.as_str(), &known));
        } else if !resource.group.is_empty() && !groups.any(|(group, _)| *group == resource.group) {
            let message = format!("the kind {} is not in this group", resource.kind);
            errors.push(FieldError::invalid(&format!("{field}.group"), resource.group.as_str(), message));
        }
    }
}

fn named(field: &str, resource: &ResourceRef, errors: &mut Vec<FieldError>) {
    if resource.name.is_empty() {
        errors.push(FieldError::required(&format!("{field}.name"), "a resource needs a name"));
    }
    if resource.kind.is_empty() {
        errors.push(FieldError::required(&format!("{field}.kind"), "a resource needs a kind"));
    }
}

/// What delete and move work on: at least one path or resource.
fn selection(field: &str, paths: &[String], resources: &[ResourceRef], errors: &mut Vec<FieldError>) {
    if paths.is_empty() && resources.is_empty() {
        errors
            .push(FieldError::required(&format!("{field}.paths"), "at least one path or resource is needed"));
    }
    for (index, path) in paths.iter().enumerate() {
        let field = format!("{field}.paths[{index}]");
        if path.is_empty() {
            errors.push(FieldError::required(&field, "the root cannot be meant"));
        }
        safe(&field, path, errors);
    }
    for (index, resource) in resources.iter().enumerate() {
        named(&format!("{field}.resources[{index}]"), resource, errors);
    }
}

fn check_test_options(options: &TestOptions, errors: &mut Vec<FieldError>) {
    let duration = options.duration;
    if duration <= GoDuration::ZERO || duration > MAX_TEST_DURATION {
        let message = format!("must be above 0s and at most {MAX_TEST_DURATION}");
        errors.push(FieldError::invalid("spec.test.duration", duration.to_string(), message));
        return;
    }
    let updates = options.progress_updates;
    if !(0..=MAX_TEST_UPDATES).contains(&updates) {
        let message = format!("must be between 0 and {MAX_TEST_UPDATES}");
        errors.push(FieldError::invalid("spec.test.progressUpdates", updates, message));
    } else if updates > 0 && duration.as_nanos() / updates < MIN_TEST_UPDATE_INTERVAL.as_nanos() {
        let message =
            format!("updates must be at least {MIN_TEST_UPDATE_INTERVAL} apart: fewer, or a longer duration");
        errors.push(FieldError::invalid("spec.test.progressUpdates", updates, message));
    }
}

#[cfg(test)]
mod tests;
