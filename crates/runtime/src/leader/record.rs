//! The Lease on the wire, and what can be told from having watched it.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::LeaderConfig;
use crate::{CallError, Clock, Part, deadline, merge_patch};

/// The Lease behind a client. Every write names the version that it was made from, or that there is none.
pub(super) struct Record {
    leases: Api<Lease>,
    name: String,
    identity: String,
    lease_seconds: i32,
    limit: Duration,
    clock: Arc<dyn Clock>,
}

impl Record {
    pub(super) fn new(client: Client, config: &LeaderConfig, clock: Arc<dyn Clock>) -> Self {
        let whole = config.lease_duration.as_secs() + u64::from(config.lease_duration.subsec_nanos() > 0);
        Self {
            leases: Api::namespaced(client, &config.namespace),
            name: config.name.clone(),
            identity: config.identity.clone(),
            lease_seconds: i32::try_from(whole).unwrap_or(i32::MAX),
            limit: config.call_deadline(),
            clock,
        }
    }

    /// The Lease as it is now, if there is one.
    pub(super) async fn read(&self) -> Result<Option<Lease>, CallError> {
        deadline(self.limit, self.what("read"), self.leases.get_opt(&self.name)).await
    }

    /// Creates it, held by us.
    pub(super) async fn create(&self) -> Result<Lease, CallError> {
        let now = self.clock.now();
        let lease = Lease {
            metadata: ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() },
            spec: Some(LeaseSpec {
                holder_identity: Some(self.identity.clone()),
                lease_duration_seconds: Some(self.lease_seconds),
                acquire_time: Some(MicroTime(now)),
                renew_time: Some(MicroTime(now)),
                lease_transitions: Some(0),
                ..LeaseSpec::default()
            }),
        };
        let params = PostParams::default();
        deadline(self.limit, self.what("create"), self.leases.create(&params, &lease)).await
    }

    /// Makes it ours. One that was ours already keeps saying since when.
    pub(super) async fn take(&self, lease: &Lease) -> Result<Lease, CallError> {
        let spec = lease.spec.as_ref();
        if holder(lease) == Some(&self.identity) {
            return self.renew(lease).await;
        }
        let transitions = spec.and_then(|spec| spec.lease_transitions).unwrap_or_default();
        let now = MicroTime(self.later(lease));
        let spec = json!({
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self.lease_seconds,
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": transitions.saturating_add(1),
        });
        self.write(lease, spec).await
    }

    /// Says that it is still ours.
    pub(super) async fn renew(&self, lease: &Lease) -> Result<Lease, CallError> {
        let renewed = MicroTime(self.later(lease));
        self.write(lease, json!({"renewTime": renewed, "leaseDurationSeconds": self.lease_seconds})).await
    }

    /// Gives it up, as client-go does: nobody holds it, for a second.
    pub(super) async fn release(&self, lease: &Lease) -> Result<Lease, CallError> {
        let now = MicroTime(self.later(lease));
        let spec =
            json!({"holderIdentity": "", "leaseDurationSeconds": 1, "acquireTime": now, "renewTime": now});
        self.write(lease, spec).await
    }

    async fn write(&self, lease: &Lease, spec: Value) -> Result<Lease, CallError> {
        merge_patch(&self.leases, lease, Part::Object, json!({"spec": spec}), self.limit).await
    }

    /// Now, but never the time that the Lease says already: a write that changes nothing is none to a server, and those
    /// who stand by have to see it change however our clock stands.
    fn later(&self, lease: &Lease) -> Timestamp {
        let micro = SignedDuration::from_micros(1);
        let now = self.clock.now().round(jiff::Unit::Microsecond).unwrap_or_else(|_| self.clock.now());
        match lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref()) {
            Some(MicroTime(last)) if *last == now => now.checked_add(micro).unwrap_or(Timestamp::MIN),
            _ => now,
        }
    }

    fn what(&self, verb: &str) -> String {
        format!("{verb} the Lease {}", self.name)
    }
}

/// Whose the Lease is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nobody's: it was given back.
    Free,
    /// Ours.
    Ours,
    /// Somebody else's, at least until this moment on our clock unless it is seen to change.
    Held { by: String, until: Instant },
}

/// The last state of the Lease that was seen, and since when.
pub(super) struct Observed {
    /// How long a Lease that does not say is respected.
    lease_duration: Duration,
    spec: Option<LeaseSpec>,
    since: Instant,
}

impl Observed {
    pub(super) fn new(lease_duration: Duration) -> Self {
        Self { lease_duration, spec: None, since: Instant::now() }
    }

    /// Takes in what was read just now.
    pub(super) fn standing(&mut self, lease: &Lease, identity: &str) -> Standing {
        if self.spec.is_none() || self.spec != lease.spec {
            self.spec = Some(lease.spec.clone().unwrap_or_default());
            self.since = Instant::now();
        }
        match holder(lease) {
            None => Standing::Free,
            Some(name) if name == identity => Standing::Ours,
            Some(name) => Standing::Held { by: name.to_owned(), until: self.lapses() },
        }
    }

    /// Takes in that the Lease is gone, and answers until when its last holder is respected all the same: it may not
    /// have noticed.
    pub(super) fn vanished(&mut self, identity: &str) -> Instant {
        let Some(spec) = &mut self.spec else { return Instant::now() };
        match spec.holder_identity.as_deref() {
            None | Some("") => return Instant::now(),
            Some(holder) if holder == identity => return Instant::now(),
            Some(_) => {}
        }
        if spec.renew_time.take().is_some() {
            self.since = Instant::now();
        }
        self.lapses()
    }

    fn lapses(&self) -> Instant {
        let said = self.spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
        let duration = said.and_then(|seconds| u64::try_from(seconds).ok()).filter(|seconds| *seconds > 0);
        self.since + duration.map_or(self.lease_duration, Duration::from_secs)
    }
}

fn holder(lease: &Lease) -> Option<&str> {
    let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref());
    holder.filter(|holder| !holder.is_empty())
}
