//! The hooks of a repository.

mod stored;

use std::path::Path;

use axum::http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};

pub use self::stored::StoredHook;

use self::stored::StoredDelivery;
use crate::description::Description;
use crate::reply::Reply;
use crate::repository::Repository;
use crate::request::Incoming;

impl Repository {
    /// Its hooks.
    pub fn hooks(&self) -> Vec<StoredHook> {
        let content = self.content();
        let trusted = &content.trusted;
        content.hooks.iter().map(|hook| StoredHook { trusted: trusted.clone(), ..hook.clone() }).collect()
    }

    /// Trusts the authorities in this file, PEM, beside the system's when it posts.
    pub fn trust(&self, authorities: &Path) {
        self.content().trusted = Some(authorities.to_owned());
    }

    /// Takes a hook away, as its owner may on GitHub's page.
    pub fn remove_hook(&self, id: u64) {
        self.content().hooks.retain(|hook| hook.id != id);
    }

    /// Changes a hook, as its owner may on GitHub's page.
    pub fn change_hook(&self, id: u64, change: impl FnOnce(&mut StoredHook)) {
        if let Some(hook) = self.content().hooks.iter_mut().find(|hook| hook.id == id) {
            change(hook);
        }
    }

    /// Notes that `event` was posted to a hook, which answered `status`; answers the delivery's number.
    pub fn deliver(&self, hook: u64, event: &str, status: u16) -> u64 {
        let delivery = self.delivery(event, None);
        let id = delivery.id;
        self.note(hook, StoredDelivery { status, ..delivery });
        id
    }

    /// Notes that `event` was posted to every hook that asked for it while nobody was there.
    pub fn miss(&self, event: &str, payload: &Value) {
        for hook in self.hooks().into_iter().filter(|hook| hook.wants(event)) {
            let delivery = self.delivery(event, Some(payload.clone()));
            self.note(hook.id, StoredDelivery { status: 502, ..delivery });
        }
    }

    fn delivery(&self, event: &str, payload: Option<Value>) -> StoredDelivery {
        let id = self.content().number();
        let guid = format!("00000000-0000-4000-8000-{id:012}");
        let (event, at) = (event.to_owned(), Timestamp::now());
        StoredDelivery { id, guid, event, payload, status: 0, at, redelivery: false }
    }

    fn note(&self, hook: u64, delivery: StoredDelivery) {
        if let Some(hook) = self.content().hooks.iter_mut().find(|stored| stored.id == hook) {
            hook.deliveries.insert(0, delivery);
        }
    }
}

impl Repository {
    /// Makes a hook, as its owner may on GitHub's page: one that posts forms, without a secret.
    pub fn add_hook(&self, url: &str) -> u64 {
        let mut content = self.content();
        let id = content.number();
        content.hooks.push(StoredHook { url: url.to_owned(), ..StoredHook::new(id) });
        id
    }

    /// Tells every active hook that asked for `event`, signed and encoded as GitHub does it, and notes what came of it.
    /// Answers the receivers' statuses, 0 where there was no answer.
    pub async fn tell(&self, event: &str, payload: &Value) -> Vec<u16> {
        let hooks = self.hooks();
        let mut statuses = Vec::new();
        for hook in hooks.iter().filter(|hook| hook.wants(event)) {
            let delivery = self.delivery(event, Some(payload.clone()));
            let status = hook.post(&delivery).await;
            self.note(hook.id, StoredDelivery { status, ..delivery });
            statuses.push(status);
        }
        statuses
    }

    /// Tells every hook that a branch was pushed to.
    pub async fn tell_of_push(&self, branch: &str, commit: &str) -> Vec<u16> {
        let payload = json!({
            "ref": format!("refs/heads/{branch}"), "before": "0".repeat(40), "after": commit, "forced": false,
            "deleted": false, "created": false, "commits": [], "head_commit": null,
            "repository": { "id": self.number(), "full_name": self.name(), "default_branch": "main" },
        });
        self.tell("push", &payload).await
    }
}

/// The reply to a request about hooks; `below` is the path after `hooks`.
pub(crate) fn respond(
    description: &Description,
    repository: &Repository,
    below: &[&str],
    incoming: &Incoming,
    body: Option<&Value>,
) -> Reply {
    let mut content = repository.content();
    let place = below.first().and_then(|id| id.parse().ok());
    let place = place.and_then(|id: u64| content.hooks.iter().position(|hook| hook.id == id));
    match (incoming.method.as_str(), below, place) {
        ("GET", [], _) => {
            let (page, next_page) = incoming.page(&content.hooks);
            let list = page.iter().map(|hook| hook.body(description)).collect();
            Reply { next_page, ..Reply::ok(list) }
        }
        ("POST", [], _) => {
            let id = content.number();
            let mut hook = StoredHook::new(id);
            hook.take(body.unwrap_or(&Value::Null));
            if hook.url.starts_with("https://localhost") {
                let message =
                    "url is not supported because it isn't reachable over the public Internet (localhost)";
                return Reply::invalid("Hook", message);
            }
            if content.hooks.iter().any(|other| other.url == hook.url) {
                return Reply::invalid("Hook", "Hook already exists on this repository");
            }
            let reply = Reply::new(StatusCode::CREATED, hook.body(description));
            content.hooks.push(hook);
            reply
        }
        (_, [_, ..], None) => Reply::not_found(),
        ("GET", [_], Some(place)) => Reply::ok(content.hooks[place].body(description)),
        ("PATCH", [_], Some(place)) => {
            let hook = &mut content.hooks[place];
            hook.take(body.unwrap_or(&Value::Null));
            Reply::ok(hook.body(description))
        }
        ("DELETE", [_], Some(place)) => {
            content.hooks.remove(place);
            Reply::empty(StatusCode::NO_CONTENT)
        }
        ("GET", [_, "deliveries"], Some(place)) => {
            let all = &content.hooks[place].deliveries;
            Reply::ok(all.iter().map(|delivery| delivery.body(description)).collect())
        }
        ("POST", [_, "deliveries", id, "attempts"], Some(place)) => {
            let number = content.number();
            let hook = StoredHook { trusted: content.trusted.clone(), ..content.hooks[place].clone() };
            let first = hook.deliveries.iter().find(|delivery| delivery.id.to_string() == *id).cloned();
            let Some(first) = first else { return Reply::not_found() };
            let again = StoredDelivery { id: number, redelivery: true, at: Timestamp::now(), ..first };
            if again.payload.is_none() {
                let again = StoredDelivery { status: 200, ..again };
                content.hooks[place].deliveries.insert(0, again);
            } else {
                let repository = repository.clone();
                tokio::spawn(async move {
                    let status = hook.post(&again).await;
                    repository.note(hook.id, StoredDelivery { status, ..again });
                });
            }
            Reply::new(StatusCode::ACCEPTED, json!({}))
        }
        _ => Reply::not_found(),
    }
}
