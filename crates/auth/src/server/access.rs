//! Whether a caller may do what a request asks for: one question, answered by the embedded server's own callers or by a
//! Kubernetes API server.

use std::borrow::Cow;

use async_trait::async_trait;

use super::caller::Caller;

/// What a request wants to do, in Kubernetes' words.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// What is done: `get`, `create`, …
    pub verb: &'static str,
    /// API group of the resource.
    pub group: Cow<'static, str>,
    /// Plural name of the resource.
    pub resource: Cow<'static, str>,
    /// Sub-resource, `""` for none.
    pub subresource: &'static str,
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
}

/// Why a caller is not let through.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// The caller may not; the text is fit for the 403 answer.
    #[error("{0}")]
    Denied(String),
    /// Nobody could be asked; the request may be tried again.
    #[error("the API server could not be asked whether this is allowed; try again")]
    Unavailable,
}

/// Decides about requests.
#[async_trait]
pub trait Authorizer: Send + Sync + 'static {
    /// Whether `caller` may do this.
    ///
    /// # Errors
    /// [`AccessError::Denied`] if not, [`AccessError::Unavailable`] if that could not be found out.
    async fn authorize(&self, caller: &Caller, access: &Access) -> Result<(), AccessError>;
}

/// By what the caller's token opens: [`Caller::may_use`].
#[derive(Clone, Copy, Debug, Default)]
pub struct CallerAccess;

#[async_trait]
impl Authorizer for CallerAccess {
    async fn authorize(&self, caller: &Caller, access: &Access) -> Result<(), AccessError> {
        caller
            .may(access.verb, &access.group, &access.resource, &access.namespace)
            .map_err(|denied| AccessError::Denied(denied.to_string()))
    }
}
