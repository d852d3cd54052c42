//! Repositories of every kind, opened as the operators open them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod git;
mod local;
mod metrics;
mod secrets;

use windlass_apiserver::ApiServer;
use windlass_apiserver::store::{StoreOptions, in_memory};

/// A client of an API server of one's own.
fn api_server() -> kube::Client {
    let store = in_memory(&StoreOptions::default()).unwrap();
    let server = ApiServer::builder(store)
        .crds(windlass_api::crds::all())
        .sealing_key(&secrecy::SecretBox::new(Box::new([7; 32])))
        .build()
        .unwrap();
    server.client_for_tests()
}
