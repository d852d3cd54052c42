//! Admission of jobs: their action, their name, and whether they can be done.

use crate::{
    consts::DASHBOARD_GROUP,
    duration::GoDuration,
    field_error::FieldError,
    job::{JobAction, JobSpec},
    job_options::ResourceRef,
    job_state::JobState,
    repository::{Repository, RepositorySpec, RepositoryType},
    repository_options::Workflow,
};

mod table;

pub(crate) use table::RULES;

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
    /// Whether jobs with the action `test` are taken.
    pub test_jobs: bool,
}

impl Default for JobRules {
    /// Dashboards only, and test jobs.
    fn default() -> Self {
        Self { kinds: vec![(DASHBOARD_GROUP.to_owned(), "Dashboard".to_owned())], test_jobs: true }
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

/// Everything that is wrong with a job. `old` is what it said before an update.
///
/// What a schema refuses is refused here too, for jobs that come in without one.
pub fn validate(spec: &JobSpec, old: Option<&JobSpec>, rules: &JobRules) -> Vec<FieldError> {
    if old == Some(spec) {
        return Vec::new();
    }
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
    errors.extend(broken_rules(spec, old));
    errors.extend(offered(spec, rules));
    if let Some(test) = &spec.test
        && !(0..=MAX_TEST_UPDATES).contains(&test.progress_updates)
    {
        let message = format!("must be between 0 and {MAX_TEST_UPDATES}");
        errors.push(FieldError::invalid("spec.test.progressUpdates", test.progress_updates, message));
    }
    errors
}

/// Every rule of the definition that a job breaks.
pub fn broken_rules(spec: &JobSpec, old: Option<&JobSpec>) -> Vec<FieldError> {
    crate::rules::broken(RULES, "spec", spec, old)
}

/// Why this repository takes no such job: its workflows do not let the job write where it would, or it is there and the job
/// clears up after one that is not.
pub fn refused_by(spec: &JobSpec, repository: &Repository) -> Option<FieldError> {
    if spec.action.is_orphan_cleanup() {
        let stays = repository.metadata.deletion_timestamp.is_none();
        return stays.then(|| FieldError::forbidden("spec.action", STILL_THERE));
    }
    if spec.action.only_reads() { None } else { unwritable(spec, &repository.spec) }
}

/// Why a repository is not cleared up after.
pub const STILL_THERE: &str = "the repository exists and is not being deleted; delete it instead";

fn unwritable(spec: &JobSpec, repository: &RepositorySpec) -> Option<FieldError> {
    let (field, branch) = match &spec.action {
        JobAction::Push => ("spec.push.branch", spec.push.as_ref().map(|options| &options.branch)),
        JobAction::Migrate => ("spec.migrate.branch", spec.migrate.as_ref().map(|options| &options.branch)),
        JobAction::Delete => ("spec.delete.ref", spec.delete.as_ref().map(|options| &options.reference)),
        JobAction::Move => ("spec.move.ref", spec.move_.as_ref().map(|options| &options.reference)),
        JobAction::FixFolderMetadata => (
            "spec.fixFolderMetadata.ref",
            spec.fix_folder_metadata.as_ref().map(|options| &options.reference),
        ),
        _ => return None,
    };
    let (workflow, name) = match branch.map_or("", String::as_str) {
        "" => (Workflow::Write, "write"),
        branch if branch == repository.branch() && repository.kind != RepositoryType::Local => {
            (Workflow::Write, "write")
        }
        _ => (Workflow::Branch, "branch"),
    };
    let message = format!("the repository's workflows do not allow it: {name:?} is not among them");
    (!repository.workflows.contains(&workflow)).then(|| FieldError::forbidden(field, message))
}

/// What a job names that this server does not offer.
pub fn offered(spec: &JobSpec, rules: &JobRules) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if spec.action == JobAction::Test && !rules.test_jobs {
        let message = "test jobs are switched off; enable_test_jobs of [operator] switches them on";
        errors.push(FieldError::forbidden("spec.action", message));
    }
    let lists: [(&str, &[ResourceRef], bool); 4] = [
        ("spec.push.resources", spec.push.as_ref().map_or(&[], |push| &push.resources), true),
        ("spec.migrate.resources", spec.migrate.as_ref().map_or(&[], |migrate| &migrate.resources), true),
        ("spec.delete.resources", spec.delete.as_ref().map_or(&[], |delete| &delete.resources), false),
        ("spec.move.resources", spec.move_.as_ref().map_or(&[], |options| &options.resources), false),
    ];
    for (field, list, known_kinds) in lists {
        resources(field, list, known_kinds.then_some(rules), &mut errors);
    }
    errors
}

/// Resources: not too many, named, and of a kind that can be managed where `rules` say which.
fn resources(field: &str, resources: &[ResourceRef], rules: Option<&JobRules>, errors: &mut Vec<FieldError>) {
    if resources.len() > MAX_RESOURCES {
        errors.push(FieldError::too_many(field, resources.len(), MAX_RESOURCES));
        return;
    }
    for (index, resource) in resources.iter().enumerate() {
        let field = format!("{field}[{index}]");
        named(&field, resource, errors);
        let Some(rules) = rules.filter(|_| !resource.kind.is_empty()) else { continue };
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

#[cfg(test)]
mod tests;
