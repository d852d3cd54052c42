//! Reading the ledger, and beginning it.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ListParams, ObjectMeta, PostParams};
use uuid::Uuid;
use windlass_runtime::deadline;

use super::config::LedgerConfig;
use super::error::LedgerError;
use super::format::{FORMAT, HEADER, Head, Header, SHARDS, Unreadable, entry_of, shard_of};
use super::shard::{Shard, Slot, State};

/// The label of every `ConfigMap` of a ledger; its value is the head's name.
pub(super) const LABEL: &str = "windlass.dev/ledger";

/// `ConfigMap`s in one answer of the API server, so that no answer is larger than a few megabytes.
const PAGE: u32 = 16;

/// The head and all shards, in order.
pub(super) async fn open(
    api: &Api<ConfigMap>,
    namespace: &str,
    config: &LedgerConfig,
) -> Result<(Head, Box<[Shard]>), LedgerError> {
    let found = read(api, namespace, config).await?;
    if let Some(head) = found.head {
        return Ok((head, found.shards));
    }
    // Either it is new, or somebody deleted the head: shards know it too.
    let head = found.known.unwrap_or_else(|| Head {
        identity: Uuid::new_v4().to_string(),
        began: whole_second(config.clock.now()),
    });
    let object = config_map(config, config.name.clone(), head.data());
    let what = format!("create ConfigMap {namespace}/{}", config.name);
    let created = deadline(config.call_deadline, what, api.create(&PostParams::default(), &object)).await;
    // Where somebody else was faster, or the answer was lost, the next attempt finds it.
    created.map_err(|error| LedgerError::Open { namespace: namespace.to_owned(), source: error.into() })?;
    Ok((head, found.shards))
}

/// The time as Git and Flux write it, so that what they say of this very second is not before it.
pub(super) fn whole_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// What the API server has.
struct Found {
    head: Option<Head>,
    /// The head that the shards know.
    known: Option<Head>,
    shards: Box<[Shard]>,
}

async fn read(api: &Api<ConfigMap>, namespace: &str, config: &LedgerConfig) -> Result<Found, LedgerError> {
    let mut found =
        Found { head: None, known: None, shards: (0..SHARDS).map(|_| Shard::default()).collect() };
    let mut page = ListParams::default().labels(&format!("{LABEL}={}", config.name)).limit(PAGE);
    loop {
        let what = format!("list ConfigMaps in namespace {namespace}");
        let list = deadline(config.call_deadline, what, api.list(&page)).await;
        let list = list
            .map_err(|source| LedgerError::Open { namespace: namespace.to_owned(), source: source.into() })?;
        for map in list.items {
            let name = map.metadata.name.clone().unwrap_or_default();
            found
                .take(&name, map, config)
                .map_err(|unreadable| explain(unreadable, namespace, &name, config))?;
        }
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => break,
        }
    }
    Ok(found)
}

impl Found {
    fn take(&mut self, name: &str, map: ConfigMap, config: &LedgerConfig) -> Result<(), Unreadable> {
        let data = map.data.unwrap_or_default();
        if name == config.name {
            let head = Head::of(&data)?;
            self.belongs(&head, "identity")?;
            self.head = Some(head);
            return Ok(());
        }
        let Some(number) = (0..SHARDS).find(|number| config.shard_name(*number) == name) else {
            return Err(Unreadable::Damaged(
                String::new(),
                "it is no part of a ledger, and has its label".to_owned(),
            ));
        };
        let header = Header::of(&data)?;
        self.belongs(&Head { identity: header.identity, began: header.began }, HEADER)?;
        self.shards[usize::from(number)] = shard(number, map.metadata.resource_version, &data)?;
        Ok(())
    }

    /// Checks that all parts are of one ledger.
    fn belongs(&mut self, head: &Head, key: &str) -> Result<(), Unreadable> {
        let known = self.known.get_or_insert_with(|| head.clone());
        if known.identity == head.identity {
            return Ok(());
        }
        let what =
            format!("it is of ledger {}, and others here are of ledger {}", head.identity, known.identity);
        Err(Unreadable::Damaged(key.to_owned(), what))
    }
}

fn shard(number: u8, version: Option<String>, data: &BTreeMap<String, String>) -> Result<Shard, Unreadable> {
    let mut state = State { version, ..State::default() };
    for (uid, text) in data.iter().filter(|(key, _)| *key != HEADER) {
        if shard_of(uid) != number {
            let what = format!("its place is the shard {:02x}", shard_of(uid));
            return Err(Unreadable::Damaged(uid.clone(), what));
        }
        let entry = Arc::new(entry_of(uid, text)?);
        state.slots.insert(uid.as_str().into(), Slot { entry, bytes: text.len() });
    }
    Ok(Shard::of(state))
}

/// What is wrong with a `ConfigMap`, and what to do about it.
fn explain(unreadable: Unreadable, namespace: &str, name: &str, config: &LedgerConfig) -> LedgerError {
    let config_map = format!("{namespace}/{name}");
    match unreadable {
        Unreadable::Later(found) => LedgerError::LaterFormat { config_map, found, known: FORMAT },
        Unreadable::Damaged(key, what) => {
            let remedy = if name == config.name || key == HEADER || key.is_empty() {
                format!(
                    "restore it from a backup; or, giving up what was counted in it, `kubectl -n {namespace} delete \
                     configmap {name}`"
                )
            } else {
                format!(
                    "restore it from a backup; or, giving up what was counted for this one Kustomization, `kubectl -n \
                     {namespace} patch configmap {name} --type=merge -p '{{\"data\":{{\"{key}\":null}}}}'`"
                )
            };
            LedgerError::Damaged { config_map, key, what, remedy }
        }
    }
}

/// A `ConfigMap` of the ledger.
pub(super) fn config_map(config: &LedgerConfig, name: String, data: BTreeMap<String, String>) -> ConfigMap {
    let labels = [(LABEL, config.name.as_str()), ("app.kubernetes.io/managed-by", "flux-commit-tracker")];
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name),
            labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
            ..ObjectMeta::default()
        },
        data: Some(data),
        ..ConfigMap::default()
    }
}
