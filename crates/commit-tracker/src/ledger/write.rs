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

use super::error::LedgerError;
use super::format::{HEADER, Header};
use super::inner::Inner;
use super::open::{LABEL, config_map};

/// Between attempts at the same write.
const AGAIN: BackoffPolicy = BackoffPolicy {
    first: Duration::from_millis(100),
    max: Duration::from_secs(2),
    factor: 2.0,
    jitter: 0.2,
};

/// One write of a shard: it is sent as it is, however often.
pub(super) struct Write<'a> {
    pub(super) shard: u8,
    /// The version that it was made from; none creates the shard.
    pub(super) base: Option<&'a str>,
    pub(super) header: Header,
    /// The values by their keys; none removes the key.
    pub(super) values: BTreeMap<&'a str, Option<&'a str>>,
}

impl Inner {
    /// The header of the next write.
    pub(super) fn header(&self) -> Header {
        Header::new(&self.head, Uuid::new_v4().to_string())
    }

    /// Writes a shard, and answers its new version.
    ///
    /// A write whose answer is missing is sent again as it was, with the same guard: however many copies arrive, at most
    /// one of them works, and they all say the same.
    pub(super) async fn write(&self, write: &Write<'_>) -> Result<String, LedgerError> {
        let Some(api) = &self.api else { return Ok(String::new()) };
        let end = Instant::now() + self.config.write_deadline;
        let (mut backoff, mut may_be_done) = (Backoff::new(AGAIN), false);
        loop {
            let error = match self.send(api, write).await {
                Ok(version) => return Ok(version),
                Err(error) if stopped_leading(&error) => {
                    return Err(self.lose("this process does not lead any more"));
                }
                Err(error) => error,
            };
            match error.code() {
                // With somebody else, or with an earlier copy; and what is not found was deleted.
                Some(404 | 409) => return self.after_conflict(api, write, error).await,
                Some(429) => {}
                Some(400..=407 | 410..500) if !may_be_done => return Err(self.refused(write, error)),
                _ => may_be_done = true,
            }
            let pause = backoff.delay();
            if Instant::now() + pause >= end {
                return Err(if may_be_done { self.unknown(write) } else { self.refused(write, error) });
            }
            sleep(pause).await;
        }
    }

    /// Sends a write once.
    async fn send(&self, api: &Api<ConfigMap>, write: &Write<'_>) -> Result<String, CallError> {
        let Write { shard, base, header, values } = write;
        let name = self.config.shard_name(*shard);
        let limit = self.config.call_deadline;
        let written = match base {
            Some(version) => {
                // The answer need not repeat what the shard holds.
                let api: Api<PartialObjectMeta<ConfigMap>> =
                    Api::namespaced(api.clone().into_client(), &self.namespace);
                let (name, resource_version) = (Some(name), Some((*version).to_owned()));
                let metadata = ObjectMeta { name, resource_version, ..ObjectMeta::default() };
                let object = PartialObjectMeta { metadata, ..PartialObjectMeta::default() };
                let mut data = json!(values);
                data[HEADER] = json!(header.text());
                merge_patch(&api, &object, Part::Object, json!({ "data": data }), limit).await?.metadata
            }
            None => {
                let some =
                    values.iter().filter_map(|(key, text)| Some(((*key).to_owned(), (*text)?.to_owned())));
                let data = some.chain([(HEADER.to_owned(), header.text())]).collect();
                let what = format!("create ConfigMap {}", self.full_name(*shard));
                let object = config_map(&self.config, name, data);
                deadline(limit, what, api.create(&PostParams::default(), &object)).await?.metadata
            }
        };
        written.resource_version.ok_or_else(|| CallError::Incomplete {
            what: format!("write ConfigMap {}", self.full_name(*shard)),
            missing: "resourceVersion",
        })
    }

    /// Looks whether it was an earlier copy of the same write that was in the way, and answers the version that it made.
    async fn after_conflict(
        &self,
        api: &Api<ConfigMap>,
        write: &Write<'_>,
        conflict: CallError,
    ) -> Result<String, LedgerError> {
        let (name, map) = (self.full_name(write.shard), self.config.shard_name(write.shard));
        let what = format!("get ConfigMap {name}");
        let found = match deadline(self.config.call_deadline, what, api.get_opt(&map)).await {
            Ok(Some(found)) => found,
            Ok(None) if write.base.is_none() => return Err(self.refused(write, conflict)),
            Ok(None) => return Err(self.lose(format!("ConfigMap {name} was deleted"))),
            Err(_) => return Err(self.unknown(write)),
        };
        let written =
            Header::of(&found.data.unwrap_or_default()).is_ok_and(|now| now.write == write.header.write);
        match found.metadata.resource_version {
            Some(version) if written => Ok(version),
            // Opening the ledger again would not find it either.
            _ if write.base.is_none() && !found.metadata.labels.unwrap_or_default().contains_key(LABEL) => {
                let remedy = format!(
                    "if it is of this ledger, `kubectl -n {} label configmap {map} {LABEL}={}` and restart; otherwise delete \
                     it",
                    self.namespace, self.config.name
                );
                let what = format!("the label {LABEL} is missing");
                Err(LedgerError::Damaged { config_map: name, key: HEADER.to_owned(), what, remedy })
            }
            _ => Err(self.lose(format!("somebody else wrote ConfigMap {name}"))),
        }
    }

    fn refused(&self, write: &Write<'_>, error: CallError) -> LedgerError {
        LedgerError::Write { config_map: self.full_name(write.shard), source: error.into() }
    }

    fn unknown(&self, write: &Write<'_>) -> LedgerError {
        let name = self.full_name(write.shard);
        self.lose(format!("what became of a write of ConfigMap {name} was not to be found out"))
    }
}

/// Whether a write was held back since the term is over.
fn stopped_leading(error: &CallError) -> bool {
    std::iter::successors(error.source(), |error| Error::source(*error)).any(<dyn Error>::is::<NotLeading>)
}
