//! What every request brings: a path, a caller, perhaps a body.

use axum::body::Body;
use axum::extract::Extension;
use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use kube::{Api, Client};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use windlass_api::{GROUP, Repository, VERSION, status};
use windlass_auth::{Access, AccessError, Caller};

use crate::answer::Refusal;
use crate::state::{BODY_LIMIT, RepositoryApi};

/// The variables of a path.
#[derive(Deserialize)]
pub(crate) struct Target {
    version: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) uid: String,
    #[serde(default)]
    pub(crate) subresource: String,
}

impl Target {
    /// Checks that the path is one that is served and that the caller may do this to the sub-resource.
    pub(crate) async fn admit(
        &self,
        state: &RepositoryApi,
        caller: Option<&Extension<Caller>>,
        (verb, subresource): (&'static str, &'static str),
    ) -> Result<(), Refusal> {
        let caller = self.known_caller(caller)?;
        let access = Access {
            verb,
            group: GROUP,
            resource: "repositories",
            subresource,
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        };
        state.access.authorize(caller, &access).await.map_err(|error| match error {
            AccessError::Denied(why) => status::forbidden(GROUP, "repositories", &self.name, &why),
            other => status::service_unavailable(other.to_string(), 1),
        })?;
        self.check_served(state)
    }

    /// Checks that the path's version and namespace are served.
    pub(crate) fn check_served(&self, state: &RepositoryApi) -> Result<(), Refusal> {
        if self.version != VERSION {
            return Err(status::no_such_path(&format!("/apis/{GROUP}/{}", self.version)).into());
        }
        if state.namespace.as_ref().is_some_and(|served| *served != self.namespace) {
            return Err(self.missing());
        }
        Ok(())
    }

    /// Checks that the path's version is served, and answers who calls.
    pub(crate) fn known_caller<'a>(
        &self,
        caller: Option<&'a Extension<Caller>>,
    ) -> Result<&'a Caller, Refusal> {
        if self.version != VERSION {
            return Err(status::no_such_path(&format!("/apis/{GROUP}/{}", self.version)).into());
        }
        match caller {
            Some(Extension(caller)) => Ok(caller),
            None => Err(status::unauthorized("the request carries no identity").into()),
        }
    }

    /// The stored repository; nothing when there is none.
    pub(crate) async fn repository(&self, client: &Client) -> Result<Option<Repository>, Refusal> {
        let repositories: Api<Repository> = Api::namespaced(client.clone(), &self.namespace);
        Ok(repositories.get_opt(&self.name).await?)
    }

    /// The refusal for a repository that is not there.
    pub(crate) fn missing(&self) -> Refusal {
        status::not_found(GROUP, "repositories", &self.name).into()
    }
}

/// A JSON object as a typed value. (A derived type would also take an array of its fields.)
pub(crate) fn object<T: DeserializeOwned>(body: &[u8]) -> Result<T, serde_json::Error> {
    object_with(body, |_unknown| {})
}

/// As [`object`], and says which fields the type does not have, each as `pull.incremental`.
pub(crate) fn object_with<T: DeserializeOwned>(
    body: &[u8],
    mut unknown: impl FnMut(String),
) -> Result<T, serde_json::Error> {
    let fields: Map<String, Value> = serde_json::from_slice(body)?;
    // The path has a `?` for every option that it goes through.
    serde_ignored::deserialize(Value::Object(fields), |path| unknown(path.to_string().replace(".?", "")))
}

/// The whole body, at most [`BODY_LIMIT`] bytes of it.
pub(crate) async fn read(body: Body) -> Result<Bytes, Refusal> {
    match Limited::new(body, BODY_LIMIT).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.downcast_ref::<LengthLimitError>().is_some() => {
            Err(status::too_large(BODY_LIMIT).into())
        }
        Err(_broken) => Err(status::bad_request("the request's body ended early").into()),
    }
}
