//! Indexes of labels, each made in the background when a list by labels first had to look at many objects of its kind.
//!
//! An index is a shortcut and nothing else: a list looks at every object that it is led to, and without an index at all of
//! the kind. Together they take a bounded part of memory, and one that nobody asks goes away.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tracing::{debug, warn};
use windlass_apimachinery::document::Document;
use windlass_apimachinery::selector::{LabelSelector, label_terms};
use windlass_store::{Index, Lookup, Range, Store};

use crate::kinds::Kind;
use crate::state::Inner;

/// How many objects a list may look at before an index is worth its memory.
const MANY: usize = 1_000;
/// How much memory all indexes may take together, in bytes.
const MOST_BYTES: usize = 256 << 20;
/// How often an index takes in what has happened while nobody asks it. Events are kept longer than this.
const FOLLOWS_EVERY: Duration = Duration::from_secs(1);
/// How long an index is kept that nobody asks.
const UNASKED: Duration = Duration::from_mins(10);
/// How long no index is made of a kind that had none made in vain.
const AGAIN_AFTER: Duration = Duration::from_mins(10);

/// The indexes of all kinds, by group and plural name.
#[derive(Default)]
pub(crate) struct LabelIndexes {
    kinds: Arc<Mutex<HashMap<(String, String), Slot>>>,
}

enum Slot {
    /// It is being made.
    Making,
    Made {
        index: Arc<Index>,
        asked: Instant,
    },
    /// It could not be made.
    NotBefore(Instant),
}

impl LabelIndexes {
    /// Where a list of this kind by these labels finds what it looks for, if there is an index that knows.
    pub(crate) fn lookup(&self, kind: &Kind, labels: &LabelSelector) -> Option<Lookup> {
        let groups = labels.groups();
        if groups.is_empty() {
            return None;
        }
        let mut kinds = lock(&self.kinds);
        let Slot::Made { index, asked } = kinds.get_mut(&name_of(kind))? else { return None };
        *asked = Instant::now();
        Lookup::new(index.clone(), groups)
    }

    /// Told of how many objects a list by these labels looked at: an index is made if it would have been worth it.
    pub(crate) fn looked_at(&self, inner: &Arc<Inner>, kind: &Kind, labels: &LabelSelector, count: usize) {
        if count < MANY || labels.groups().is_empty() {
            return;
        }
        let name = name_of(kind);
        let most_bytes = {
            let mut kinds = lock(&self.kinds);
            match kinds.get(&name) {
                Some(Slot::Making | Slot::Made { .. }) => return,
                Some(Slot::NotBefore(when)) if *when > Instant::now() => return,
                Some(Slot::NotBefore(_)) | None => {}
            }
            kinds.insert(name.clone(), Slot::Making);
            let taken = kinds.values().map(|slot| match slot {
                Slot::Made { index, .. } => index.bytes(),
                Slot::Making | Slot::NotBefore(_) => 0,
            });
            MOST_BYTES.saturating_sub(taken.sum())
        };
        let (store, kinds, stop) = (inner.store.clone(), self.kinds.clone(), inner.stop.clone());
        inner.spawn(async move {
            // It ends with the server, in the middle of a build as well.
            stop.run_until_cancelled(keep(&store, &kinds, name, most_bytes)).await;
        });
    }
}

/// Makes an index and keeps it up to date, until nobody asks it any more.
async fn keep(
    store: &Arc<dyn Store>,
    kinds: &Mutex<HashMap<(String, String), Slot>>,
    name: (String, String),
    most_bytes: usize,
) {
    let terms = |object: &windlass_store::Object| label_terms(&Document::new(&object.value).labels());
    let made = match Range::new(&name.0, &name.1, None) {
        Ok(range) => Index::build(store, range, Arc::new(terms), most_bytes).await,
        Err(error) => Err(error),
    };
    let (group, resource) = (&name.0, &name.1);
    match &made {
        Ok(Some(_)) => {}
        Ok(None) => warn!(group, resource, "too many labels for an index; lists by them look at all"),
        Err(error) => warn!(group, resource, %error, "failed to make an index of labels"),
    }
    let Ok(Some(index)) = made.map(|index| index.map(Arc::new)) else {
        lock(kinds).insert(name, Slot::NotBefore(Instant::now() + AGAIN_AFTER));
        return;
    };
    debug!(group, resource, bytes = index.bytes(), "made an index of labels");
    lock(kinds).insert(name.clone(), Slot::Made { index: index.clone(), asked: Instant::now() });
    loop {
        tokio::time::sleep(FOLLOWS_EVERY).await;
        let follows = index.follow();
        let mut kinds = lock(kinds);
        let is_asked =
            matches!(kinds.get(&name), Some(Slot::Made { asked, .. }) if asked.elapsed() < UNASKED);
        if !follows || !is_asked {
            // The next list that would be helped by one has it made anew.
            kinds.remove(&name);
            return;
        }
    }
}

fn name_of(kind: &Kind) -> (String, String) {
    (kind.group.clone(), kind.plural.clone())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use http::Request;
    use http_body_util::BodyExt as _;
    use serde_json::{Value, json};
    use tower::ServiceExt as _;
    use windlass_auth::Caller;
    use windlass_store::{StoreOptions, in_memory};

    use super::*;
    use crate::ApiServer;

    const MAPS: &str = "/api/v1/namespaces/default/configmaps";

    async fn ask(server: &ApiServer, method: &str, path: &str, body: &Value) -> Value {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let request = Request::builder().method(method).uri(path).body(Body::from(text)).unwrap();
        let (mut parts, body) = request.into_parts();
        parts.extensions.insert(Caller::system("tests"));
        let answer = server.router().oneshot(Request::from_parts(parts, body)).await.unwrap();
        serde_json::from_slice(&answer.into_body().collect().await.unwrap().to_bytes()).unwrap()
    }

    async fn selected(server: &ApiServer, selector: &str) -> Vec<String> {
        let list = ask(server, "GET", &format!("{MAPS}?labelSelector={selector}"), &Value::Null).await;
        let items = list["items"].as_array().unwrap();
        items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    #[tokio::test]
    async fn a_list_by_labels_of_many_objects_is_answered_by_an_index_that_follows_writes() {
        let server = ApiServer::builder(in_memory(&StoreOptions::default()).unwrap()).build().unwrap();
        for number in 0..MANY {
            let labels = json!({ "parity": if number % 2 == 0 { "even" } else { "odd" }, "ten": format!("{}", number / 10) });
            let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata":
                { "name": format!("m-{number:04}"), "labels": labels } });
            ask(&server, "POST", MAPS, &map).await;
        }
        let ten = "ten=42,parity=odd";
        let scanned = selected(&server, ten).await;
        assert_eq!(scanned, ["m-0421", "m-0423", "m-0425", "m-0427", "m-0429"]);
        let registry = server.inner.catalog.current();
        let kind = registry.find("", "v1", "configmaps").unwrap().kind.clone();
        let selector = LabelSelector::parse(ten).unwrap();
        let made = async {
            while server.inner.label_indexes.lookup(&kind, &selector).is_none() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), made).await.expect("an index is made");
        assert_eq!(selected(&server, ten).await, scanned);
        let moved = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata":
            { "name": "m-0000", "labels": { "ten": "42", "parity": "odd" } } });
        ask(&server, "PUT", &format!("{MAPS}/m-0000"), &moved).await;
        ask(&server, "DELETE", &format!("{MAPS}/m-0421"), &Value::Null).await;
        assert_eq!(selected(&server, ten).await, ["m-0000", "m-0423", "m-0425", "m-0427", "m-0429"]);
        assert!(selected(&server, "ten=0,parity=even").await.iter().all(|name| name != "m-0000"));
        server.close().await;
    }
}
