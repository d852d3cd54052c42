//! What a caller may do, asked of a Kubernetes API server: `SubjectAccessReview`.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use windlass_telemetry::ErrorChain;

use super::access::{Access, AccessError, Authorizer};
use super::caller::Caller;
use super::ttl_cache::TtlCache;

/// How long a yes stays: as long a right that was taken away goes on working.
const YES_FOR: Duration = Duration::from_secs(10);
/// How long a no stays: as long a right that was just given does not work yet.
const NO_FOR: Duration = Duration::from_secs(2);
/// Answers that are kept.
const MOST: usize = 4096;
/// How long the API server may take.
const DEADLINE: Duration = Duration::from_secs(10);

/// Who asked for what.
type CacheKey = (String, Vec<String>, Access);

/// Lets a caller do what the Roles of a Kubernetes API server let it do.
#[derive(Clone)]
pub struct AccessReviews {
    client: Client,
    cache: Arc<TtlCache<CacheKey, Result<(), AccessError>>>,
}

impl std::fmt::Debug for AccessReviews {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AccessReviews").finish_non_exhaustive()
    }
}

impl AccessReviews {
    /// Asks through `client`, which needs the right to create `subjectaccessreviews`.
    pub fn new(client: Client) -> Self {
        Self { client, cache: Arc::new(TtlCache::new(MOST)) }
    }

    async fn ask(&self, caller: &Caller, access: &Access) -> Result<(), AccessError> {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(caller.name.clone()),
                groups: Some(caller.groups.clone()),
                uid: some(&caller.uid),
                resource_attributes: Some(ResourceAttributes {
                    group: some(&access.group),
                    resource: some(&access.resource),
                    subresource: some(access.subresource),
                    verb: some(access.verb),
                    namespace: some(&access.namespace),
                    name: some(&access.name),
                    version: some(windlass_api::VERSION),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let api: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let answer = match tokio::time::timeout(DEADLINE, api.create(&PostParams::default(), &review)).await {
            Ok(Ok(answer)) => answer.status.unwrap_or_default(),
            Ok(Err(error)) => {
                tracing::warn!(
                    error = %ErrorChain(&error),
                    "an access could not be reviewed; the Role for it is system:auth-delegator (deploy/rbac/token-review.yaml)"
                );
                return Err(AccessError::Unavailable);
            }
            Err(_elapsed) => {
                tracing::warn!(
                    after_seconds = DEADLINE.as_secs(),
                    "an access review was not answered in time"
                );
                return Err(AccessError::Unavailable);
            }
        };
        if answer.allowed {
            return Ok(());
        }
        Err(AccessError::Denied(refusal(caller, access, answer.reason.as_deref().unwrap_or_default())))
    }
}

#[async_trait]
impl Authorizer for AccessReviews {
    async fn authorize(&self, caller: &Caller, access: &Access) -> Result<(), AccessError> {
        let question = (caller.name.clone(), caller.groups.clone(), access.clone());
        if let Some(known) = self.cache.get(&question) {
            return known;
        }
        let answer = self.ask(caller, access).await;
        match &answer {
            Ok(()) => self.cache.insert(question, Ok(()), YES_FOR),
            Err(AccessError::Denied(_)) => self.cache.insert(question, answer.clone(), NO_FOR),
            Err(AccessError::Unavailable) => {}
        }
        answer
    }
}

/// The refusal as kube-apiserver words it.
fn refusal(caller: &Caller, access: &Access, reason: &str) -> String {
    let slash = if access.subresource.is_empty() { "" } else { "/" };
    let text = format!(
        "User {:?} cannot {} resource \"{}{slash}{}\" in API group {:?} in the namespace {:?}",
        caller.name, access.verb, access.resource, access.subresource, access.group, access.namespace
    );
    if reason.is_empty() { text } else { format!("{text}: {reason}") }
}
