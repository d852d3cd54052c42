//! New jobs.

use std::collections::BTreeMap;
use std::time::Duration;

use ::kube::api::PostParams;
use ::kube::{Api, Client};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use uuid::Uuid;
use windlass_api::jobs::{self, JobRules};
use windlass_api::{FieldError, Job, JobSpec, JobState, JobStatus, labels};

/// How long the API server may take, as for the calls of a [`KubeStore`](super::KubeStore).
const DEADLINE: Duration = Duration::from_secs(10);

/// Why a job was not queued.
#[derive(Debug, thiserror::Error)]
pub enum InsertError {
    /// One that excludes it is queued or running.
    #[error("the job {0} is already queued or running")]
    AlreadyExists(String),
    /// It cannot be done.
    #[error("the job is invalid: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Invalid(Vec<FieldError>),
    /// The API server refused it or could not be asked.
    #[error("failed to create the job {name}")]
    Api {
        /// The job's name.
        name: String,
        /// Why.
        #[source]
        source: Box<::kube::Error>,
    },
    /// No answer came: it may or may not have been queued.
    #[error("failed to create the job {name}: no answer within {after:?}")]
    Timeout {
        /// The job's name.
        name: String,
        /// The limit that passed.
        after: Duration,
    },
}

/// Queues a job for a repository. Its name says what it excludes: of the jobs that pull or migrate one repository there is
/// one at a time, and so on (see [`jobs::job_name`]).
pub async fn insert(
    client: &Client,
    namespace: &str,
    repository: &str,
    mut spec: JobSpec,
    annotations: BTreeMap<String, String>,
) -> Result<Job, InsertError> {
    repository.clone_into(&mut spec.repository);
    jobs::normalise(&mut spec).map_err(|error| InsertError::Invalid(vec![error]))?;
    let errors = jobs::validate(&spec, None, &JobRules::default());
    if !errors.is_empty() {
        return Err(InsertError::Invalid(errors));
    }
    let mut name = jobs::job_name(repository, &spec);
    if jobs::has_unique_name(&spec.action) {
        name.push_str(&Uuid::new_v4().simple().to_string()[..10]);
    }
    let job = Job {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: Some(namespace.to_owned()),
            labels: Some(BTreeMap::from([(labels::REPOSITORY.to_owned(), repository.to_owned())])),
            annotations: (!annotations.is_empty()).then_some(annotations),
            ..ObjectMeta::default()
        },
        spec,
        status: JobStatus { state: JobState::Pending, ..JobStatus::default() },
    };
    let jobs: Api<Job> = Api::namespaced(client.clone(), namespace);
    let params = PostParams::default();
    let Ok(created) = tokio::time::timeout(DEADLINE, jobs.create(&params, &job)).await else {
        return Err(InsertError::Timeout { name, after: DEADLINE });
    };
    created.map_err(|error| match error {
        ::kube::Error::Api(status) if status.code == 409 => InsertError::AlreadyExists(name),
        other => InsertError::Api { name, source: Box::new(other) },
    })
}
