//! Secrets that this operator makes for a repository.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use windlass_api::{GROUP, Repository, VERSION, labels};

use crate::controller::name;

/// A Secret that serves this repository alone and goes with it.
pub(crate) fn owned_secret(
    repository: &Repository,
    secret: String,
    data: BTreeMap<String, ByteString>,
) -> Secret {
    let owner = OwnerReference {
        api_version: format!("{GROUP}/{VERSION}"),
        kind: "Repository".to_owned(),
        name: name(repository).to_owned(),
        uid: repository.metadata.uid.clone().unwrap_or_default(),
        ..OwnerReference::default()
    };
    Secret {
        metadata: ObjectMeta {
            name: Some(secret),
            labels: Some([(labels::SECRET_REPOSITORY.to_owned(), name(repository).to_owned())].into()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        type_: Some("Opaque".to_owned()),
        data: Some(data),
        ..Secret::default()
    }
}
