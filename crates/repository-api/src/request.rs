//! What every request brings: a path, a caller, perhaps a body.

use axum::body::Body;
use axum::extract::Extension;
use axum::response::Response;
use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use windlass_api::conditions::{self, reasons, types};
use windlass_api::{GROUP, Repository, SERVED_VERSIONS, status};
use windlass_auth::{Access, AccessError, Caller};
use windlass_resources::Kind;

use crate::answer::{Refusal, json};
use crate::calls::CALL;
use crate::state::{BODY_LIMIT, RepositoryApi};

/// The variables of a path.
#[derive(Deserialize)]
pub(crate) struct Target {
    version: String,
    pub(crate) namespace: String,
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) uid: String,
    /// Of a file, decoded once.
    #[serde(default)]
    pub(crate) path: String,
    #[serde(default)]
    pub(crate) subresource: String,
}

impl Target {
    /// Checks that the path is one that is served and that the caller may do this to the sub-resource of the repository;
    /// answers who calls.
    pub(crate) async fn admit<'a>(
        &self,
        state: &RepositoryApi,
        caller: Option<&'a Extension<Caller>>,
        (verb, subresource): (&'static str, &'static str),
    ) -> Result<&'a Caller, Refusal> {
        self.admit_to(state, caller, (verb, "repositories", subresource)).await
    }

    /// The same, of what may be no sub-resource.
    pub(crate) async fn admit_to<'a>(
        &self,
        state: &RepositoryApi,
        caller: Option<&'a Extension<Caller>>,
        (verb, resource, subresource): (&'static str, &'static str, &'static str),
    ) -> Result<&'a Caller, Refusal> {
        let caller = self.known_caller(caller)?;
        let access = Access {
            verb,
            group: GROUP.into(),
            resource: resource.into(),
            subresource,
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        };
        authorize(state, caller, access).await?;
        self.check_served(state)?;
        Ok(caller)
    }

    /// Checks that the path's version and namespace are served.
    pub(crate) fn check_served(&self, state: &RepositoryApi) -> Result<(), Refusal> {
        if !SERVED_VERSIONS.contains(&self.version.as_str()) {
            return Err(status::no_such_path(&format!("/apis/{GROUP}/{}", self.version)).into());
        }
        if state.namespace.as_ref().is_some_and(|served| *served != self.namespace) {
            return Err(self.missing());
        }
        Ok(())
    }

    /// Checks that the caller may do this to an object that a file stands for: what they may not do to the object, they
    /// may not do by way of its file.
    pub(crate) async fn admit_object(
        &self,
        state: &RepositoryApi,
        caller: &Caller,
        verb: &'static str,
        (kind, name): (&Kind, &str),
    ) -> Result<(), Refusal> {
        let access = Access {
            verb,
            group: kind.group.clone(),
            resource: kind.resource.clone(),
            subresource: "",
            namespace: self.namespace.clone(),
            name: name.to_owned(),
        };
        authorize(state, caller, access).await
    }

    /// Checks that the path's version is served, and answers who calls.
    pub(crate) fn known_caller<'a>(
        &self,
        caller: Option<&'a Extension<Caller>>,
    ) -> Result<&'a Caller, Refusal> {
        if !SERVED_VERSIONS.contains(&self.version.as_str()) {
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
        let get = || repositories.get_opt(&self.name);
        Ok(CALL.read(format!("get repository {}", self.name), get).await?)
    }

    /// The refusal for a repository whose state does not allow it.
    pub(crate) fn conflict(&self, why: &str) -> Refusal {
        status::conflict(GROUP, "repositories", &self.name, why).into()
    }

    /// `value` as a JSON answer that says its kind, in the version that was asked for.
    pub(crate) fn typed(&self, code: u16, kind: &str, value: &impl Serialize) -> Response {
        let mut object = serde_json::to_value(value).unwrap_or(Value::Null);
        if let Some(fields) = object.as_object_mut() {
            fields.insert("kind".to_owned(), kind.into());
            fields.insert("apiVersion".to_owned(), format!("{GROUP}/{}", self.version).into());
        }
        json(code, &object)
    }

    /// The refusal for a repository that is not there.
    pub(crate) fn missing(&self) -> Refusal {
        status::not_found(GROUP, "repositories", &self.name).into()
    }
}

async fn authorize(state: &RepositoryApi, caller: &Caller, access: Access) -> Result<(), Refusal> {
    state.access.authorize(caller, &access).await.map_err(|error| match error {
        AccessError::Denied(why) => status::forbidden(&access.group, &access.resource, &access.name, &why),
        other => status::service_unavailable(other.to_string(), 1),
    })?;
    Ok(())
}

/// A repository that is worked with has to be alive and healthy.
pub(crate) fn refuse_unless_usable(
    target: &Target,
    repository: Option<Repository>,
) -> Result<Repository, Refusal> {
    let repository = repository.ok_or_else(|| target.missing())?;
    if repository.metadata.deletion_timestamp.is_some() {
        return Err(target.conflict("the repository is being deleted"));
    }
    let health = &repository.status.health;
    let ready = conditions::find(&repository.status.conditions, types::READY);
    // What is asked for may be its first commit.
    let is_empty = ready.is_some_and(|ready| ready.reason == reasons::REPOSITORY_EMPTY);
    if !health.healthy && !is_empty {
        let why = match (health.checked, health.message.first()) {
            (0, _) => ": it has not been checked yet".to_owned(),
            (_, Some(message)) => format!(": {message}"),
            (_, None) => String::new(),
        };
        let message = format!("The repository configuration is not healthy{why}");
        return Err(status::failed_dependency(message).into());
    }
    Ok(repository)
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
    read_up_to(body, BODY_LIMIT).await
}

/// The whole body, at most `limit` bytes of it.
pub(crate) async fn read_up_to(body: Body, limit: usize) -> Result<Bytes, Refusal> {
    match Limited::new(body, limit).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.downcast_ref::<LengthLimitError>().is_some() => {
            Err(status::too_large(limit).into())
        }
        Err(_broken) => Err(status::bad_request("the request's body ended early").into()),
    }
}
