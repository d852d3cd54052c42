//! An exchange in process, and small helpers.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use axum::{Router, body::Body};
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use serde_json::Value;
use tower::{ServiceExt as _, util::BoxCloneSyncService};
use windlass_auth::{ExchangeTransport, Issuer, IssuerOptions, Keys, Now, SystemToken};

/// A wall clock that tests move.
#[derive(Clone)]
pub(crate) struct Wall(Arc<AtomicI64>);

impl Wall {
    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicI64::new(1_800_000_000)))
    }

    pub(crate) fn seconds(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    pub(crate) fn advance(&self, seconds: i64) {
        self.0.fetch_add(seconds, Ordering::SeqCst);
    }

    pub(crate) fn now(&self) -> Now {
        let wall = self.clone();
        Arc::new(move || Timestamp::from_second(wall.seconds()).unwrap())
    }
}

/// A router as the transport of an exchange client.
pub(crate) fn in_process(router: Router) -> ExchangeTransport {
    BoxCloneSyncService::new(router.into_service::<Body>().map_err(|never| match never {}))
}

pub(crate) fn issuer(wall: &Wall, system_tokens: Vec<SystemToken>) -> Issuer {
    let keys = Keys::ephemeral(&[]).unwrap();
    Issuer::new(&keys, IssuerOptions { system_tokens, now: wall.now(), ..IssuerOptions::default() }).unwrap()
}

/// Sends a request and reads the answer as JSON (`Null` when it is not).
pub(crate) async fn send(router: &Router, request: Request<Body>) -> (StatusCode, Value) {
    let answer = router.clone().oneshot(request).await.unwrap();
    let status = answer.status();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
}
