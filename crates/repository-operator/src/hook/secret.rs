//! What the hook signs with. Unless somebody named a Secret of their own, we make one, which goes with the repository.
//!
//! A secret is changed in three steps, so that no delivery is refused whenever the process ends: the new one is stored
//! beside the old one, GitHub is told, and only when all was seen to be well the old one is dropped. Meanwhile deliveries
//! may be signed with either.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::{Api, Client};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use uuid::Uuid;
use windlass_api::Repository;
use windlass_repository::{PREVIOUS_WEBHOOK_SECRET_KEY, TokenError, WEBHOOK_SECRET_KEY, WebhookSecrets};
use windlass_runtime::{CallError, Part, merge_patch};

use crate::controller::{CALL, namespace};
use crate::owned_secret::owned_secret;

/// What the hook signs with.
pub(super) struct HookSecret {
    /// What GitHub is told.
    pub(super) value: SecretString,
    /// Our own Secret, without what it says; nothing if it is somebody else's, which is not changed.
    pub(super) own: Option<Secret>,
    /// Whether the one before is still accepted.
    pub(super) has_previous: bool,
    /// Whether ours was gone, and was made again.
    pub(super) is_new: bool,
}

/// The name of the Secret that we make for a repository.
pub(crate) fn own_name(repository: &Repository) -> String {
    format!("webhook-{}", repository.metadata.uid.as_deref().unwrap_or_default())
}

fn random() -> SecretString {
    SecretString::from(Uuid::new_v4().to_string())
}

fn data(key: &str, value: &SecretString) -> (String, ByteString) {
    (key.to_owned(), ByteString(value.expose_secret().as_bytes().to_vec()))
}

/// Has the repository name a Secret for its webhook, where one `is_hooked`, which is made if need be, and fills in what
/// `spec` says; the repository as it is then, if anything was left out. It is one write: each change of what is specified
/// is pulled once more.
pub(crate) async fn complete(
    core: &Client,
    repositories: &Api<Repository>,
    repository: &Repository,
    spec: Option<Value>,
    is_hooked: bool,
) -> Result<Option<Repository>, CallError> {
    let mut patch = json!({});
    if is_hooked && repository.secure.webhook_secret.name.is_empty() {
        make(core, repository).await?;
        patch["secure"] = json!({"webhookSecret": {"name": own_name(repository)}});
    }
    if let Some(spec) = spec {
        patch["spec"] = spec;
    }
    if patch == json!({}) {
        return Ok(None);
    }
    merge_patch(repositories, repository, Part::Object, patch, CALL).await.map(Some)
}

/// Makes our Secret; one that is there is left as it is.
async fn make(core: &Client, repository: &Repository) -> Result<(), CallError> {
    let data = BTreeMap::from([data(WEBHOOK_SECRET_KEY, &random())]);
    let secret = owned_secret(repository, own_name(repository), data);
    let secrets: Api<Secret> = Api::namespaced(core.clone(), namespace(repository));
    let params = PostParams::default();
    match CALL.write("create the webhook's secret".to_owned(), || secrets.create(&params, &secret)).await {
        Err(error) if !error.is_already_exists() => Err(error),
        _ => Ok(()),
    }
}

impl HookSecret {
    /// The secret that the repository names. Ours is made again if it is gone.
    pub(super) async fn read(core: &Client, repository: &Repository) -> Result<Self, TokenError> {
        let named = repository.secure.webhook_secret.name.as_str();
        let is_ours = named == own_name(repository);
        let mut is_new = false;
        let found = match WebhookSecrets::read(core, repository).await {
            Err(TokenError::Missing { field, secret }) if is_ours => {
                let failed = |_error| TokenError::Missing { field, secret };
                make(core, repository).await.map_err(failed)?;
                is_new = true;
                WebhookSecrets::read(core, repository).await?
            }
            other => other?,
        };
        let missing = || TokenError::NoWebhookSecret { secret: named.to_owned() };
        let value = found.iter().next().cloned().ok_or_else(missing)?;
        let own = is_ours.then(|| Secret { metadata: found.metadata().clone(), ..Secret::default() });
        Ok(Self { value, own, has_previous: found.iter().count() > 1, is_new })
    }

    /// Stores another one beside it; not if that was done already and GitHub may not have been told.
    pub(super) async fn change(&mut self, core: &Client, repository: &Repository) -> Result<(), CallError> {
        let Some(own) = self.own.as_ref().filter(|_| !self.has_previous) else { return Ok(()) };
        let (next, before) = (random(), self.value.clone());
        let both = [data(WEBHOOK_SECRET_KEY, &next), data(PREVIOUS_WEBHOOK_SECRET_KEY, &before)];
        let patch = json!({"data": BTreeMap::from(both)});
        let secrets: Api<Secret> = Api::namespaced(core.clone(), namespace(repository));
        merge_patch(&secrets, own, Part::Object, patch, CALL).await?;
        (self.value, self.has_previous) = (next, true);
        Ok(())
    }

    /// Drops the one before.
    pub(super) async fn drop_previous(
        &self,
        core: &Client,
        repository: &Repository,
    ) -> Result<(), CallError> {
        let Some(own) = self.own.as_ref().filter(|_| self.has_previous) else { return Ok(()) };
        let patch = json!({"data": {PREVIOUS_WEBHOOK_SECRET_KEY: null}});
        let secrets: Api<Secret> = Api::namespaced(core.clone(), namespace(repository));
        merge_patch(&secrets, own, Part::Object, patch, CALL).await.map(drop)
    }
}
