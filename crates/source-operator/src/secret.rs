//! Reading the Secrets that objects name.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use secrecy::{ExposeSecret as _, SecretString};

use crate::calls::CALL;

/// A Secret; else why there is none.
pub(crate) async fn secret(client: &Client, namespace: &str, name: &str) -> Result<Secret, String> {
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let found = CALL.read(format!("get Secret {namespace}/{name}"), || api.get_opt(name)).await;
    found
        .map_err(|error| format!("failed to read the Secret {name:?}: {}", error.reason()))?
        .ok_or_else(|| format!("there is no Secret {name:?} in the namespace {namespace:?}"))
}

/// Values of a Secret, by their keys.
pub(crate) type Contents = BTreeMap<String, SecretString>;

/// The values of a Secret that are text.
pub(crate) fn texts(secret: Secret) -> Contents {
    let values = secret.data.unwrap_or_default().into_iter();
    values.filter_map(|(key, value)| Some((key, String::from_utf8(value.0).ok()?.into()))).collect()
}

/// What a Secret has under the first of these keys that is there and not empty.
pub(crate) fn value<'a>(secret: &'a Contents, keys: &[&str]) -> Option<&'a SecretString> {
    let values = keys.iter().filter_map(|key| secret.get(*key));
    values.into_iter().find(|value| !value.expose_secret().is_empty())
}
