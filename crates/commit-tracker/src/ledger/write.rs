//! One guarded write, and finding out what became of it.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ObjectMeta, PartialObjectMeta, PostParams};
use serde_json::json;
use tokio::time::{Instant, sleep};
use uuid::Uuid;
use windlass_runtime::{Backoff, BackoffPolicy, CallError, NotLeading, Part, deadline, merge_patch};

use super::format::{HEADER, Header};
use super::open::{LABEL, config_map};
use super::{Inner, LedgerError, shard_name};

/// Between attempts at the same write.
const AGAIN: BackoffPolicy = BackoffPolicy {
    first: Duration::from_millis(100),
    max: Duration::from_secs(2),
    factor: 2.0,
    jitter: 0.2,
};

/// What a look at a shard said about a write.
enum Seen {
    /// It arrived, and made this version.
    Written(String),
    /// The shard is as it was before; the write may still be on its way.
    NotYet,
    /// Somebody else wrote, or the shard is gone.
    Else(LedgerError),
}

impl Inner {
    /// The header of the next write.
    pub(super) fn header(&self) -> Header {
        Header::new(&self.head, Uuid::new_v4().to_string())
    }

    /// Writes `values` (none removes the key) over version `base` of a shard, or creates it where there is none. Answers
    /// the new version.
    ///
    /// A write is sent again as it was, with the same guard: however many copies arrive, at most one of them works, and
    /// they all say the same.
    pub(super) async fn write(
        &self,
        number: u8,
        base: Option<&str>,
        header: &Header,
        values: BTreeMap<&str, Option<&str>>,
    ) -> Result<String, LedgerError> {
        let Some(api) = &self.api else { return Ok(String::new()) };
        let end = Instant::now() + self.config.write_deadline;
        let mut backoff = Backoff::new(AGAIN);
        let mut doubtful = false;
        loop {
            let error = match self.send(api, number, base, header, &values).await {
                Ok(version) => return Ok(version),
                Err(error) => error,
            };
            match doubt(&error) {
                Doubt::NotDone if !doubtful => {
                    return Err(LedgerError::Write {
                        config_map: self.full_name(number),
                        source: error.into(),
                    });
                }
                Doubt::NotNow => {}
                Doubt::NotDone | Doubt::Doubtful => doubtful = true,
            }
            if doubtful {
                match self.seen(api, number, base, header, end).await? {
                    Seen::Written(version) => return Ok(version),
                    Seen::Else(error) => return Err(error),
                    Seen::NotYet if stopped_leading(&error) => {
                        return Err(self.lose("this process does not lead any more"));
                    }
                    Seen::NotYet => {}
                }
            }
            let pause = backoff.delay();
            if Instant::now() + pause >= end {
                if doubtful {
                    return Err(self.unknown(number));
                }
                return Err(LedgerError::Write { config_map: self.full_name(number), source: error.into() });
            }
            sleep(pause).await;
        }
    }

    /// Sends a write once.
    async fn send(
        &self,
        api: &Api<ConfigMap>,
        number: u8,
        base: Option<&str>,
        header: &Header,
        values: &BTreeMap<&str, Option<&str>>,
    ) -> Result<String, CallError> {
        let name = shard_name(&self.config.name, number);
        let limit = self.config.call_deadline;
        let written = match base {
            Some(version) => {
                // The answer need not repeat what the shard holds.
                let api: Api<PartialObjectMeta<ConfigMap>> =
                    Api::namespaced(api.clone().into_client(), &self.namespace);
                let (name, resource_version) = (Some(name), Some(version.to_owned()));
                let metadata = ObjectMeta { name, resource_version, ..ObjectMeta::default() };
                let object = PartialObjectMeta { metadata, ..PartialObjectMeta::default() };
                let mut data = json!(values);
                data[HEADER] = json!(header.text());
                merge_patch(&api, &object, Part::Object, json!({ "data": data }), limit).await?.metadata
            }
            None => {
                let mut data: BTreeMap<String, String> = BTreeMap::new();
                data.insert(HEADER.to_owned(), header.text());
                let some =
                    values.iter().filter_map(|(uid, text)| Some(((*uid).to_owned(), (*text)?.to_owned())));
                data.extend(some);
                let what = format!("create ConfigMap {}", self.full_name(number));
                let object = config_map(&self.config, name, data);
                deadline(limit, what, api.create(&PostParams::default(), &object)).await?.metadata
            }
        };
        written.resource_version.ok_or_else(|| CallError::Incomplete {
            what: format!("write ConfigMap {}", self.full_name(number)),
            missing: "resourceVersion",
        })
    }

    /// Looks at a shard until the server answers, to find out whether a write arrived.
    async fn seen(
        &self,
        api: &Api<ConfigMap>,
        number: u8,
        base: Option<&str>,
        header: &Header,
        end: Instant,
    ) -> Result<Seen, LedgerError> {
        let name = shard_name(&self.config.name, number);
        let mut backoff = Backoff::new(AGAIN);
        loop {
            let what = format!("get ConfigMap {}", self.full_name(number));
            match deadline(self.config.call_deadline, what, api.get_opt(&name)).await {
                Ok(found) => return Ok(self.judge(number, base, header, found)),
                Err(error) => {
                    tracing::debug!(config_map = self.full_name(number), error = %error, "looking again");
                }
            }
            let pause = backoff.delay();
            if Instant::now() + pause >= end {
                return Err(self.unknown(number));
            }
            sleep(pause).await;
        }
    }

    fn judge(&self, number: u8, base: Option<&str>, header: &Header, found: Option<ConfigMap>) -> Seen {
        let name = self.full_name(number);
        let Some(found) = found else {
            return match base {
                None => Seen::NotYet,
                Some(_) => Seen::Else(self.lose(format!("ConfigMap {name} was deleted"))),
            };
        };
        let version = found.metadata.resource_version;
        if base.is_some() && version.as_deref() == base {
            return Seen::NotYet;
        }
        let ours =
            Header::of(&found.data.unwrap_or_default()).is_ok_and(|current| current.write == header.write);
        match version {
            Some(version) if ours => Seen::Written(version),
            // Opening the ledger again would not find it either.
            _ if base.is_none() && !found.metadata.labels.unwrap_or_default().contains_key(LABEL) => {
                let (namespace, map) = (&self.namespace, shard_name(&self.config.name, number));
                let remedy = format!(
                    "if it is of this ledger, `kubectl -n {namespace} label configmap {map} {LABEL}={}` and restart; \
                     otherwise delete it",
                    self.config.name
                );
                let what = format!("the label {LABEL} is missing");
                Seen::Else(LedgerError::Damaged { config_map: name, key: HEADER.to_owned(), what, remedy })
            }
            _ => Seen::Else(self.lose(format!("somebody else wrote ConfigMap {name}"))),
        }
    }

    fn unknown(&self, number: u8) -> LedgerError {
        let (name, write_deadline) = (self.full_name(number), self.config.write_deadline);
        self.lose(format!(
            "what became of a write of ConfigMap {name} was not to be found out within {write_deadline:?}"
        ))
    }
}

/// What an error says about a write.
enum Doubt {
    /// It was not done, and trying again would not help.
    NotDone,
    /// It was not done, and the server wants it later.
    NotNow,
    /// It may have been done.
    Doubtful,
}

fn doubt(error: &CallError) -> Doubt {
    match error.code() {
        Some(429) => Doubt::NotNow,
        // A conflict may be with an earlier copy of the same write; and what is not found was deleted.
        Some(404 | 408 | 409) => Doubt::Doubtful,
        Some(400..500) => Doubt::NotDone,
        _ => Doubt::Doubtful,
    }
}

/// Whether a write was held back since the term is over.
fn stopped_leading(error: &CallError) -> bool {
    let mut source = error.source();
    while let Some(error) = source {
        if error.is::<NotLeading>() {
            return true;
        }
        source = error.source();
    }
    false
}
