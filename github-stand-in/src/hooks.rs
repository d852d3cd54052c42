//! The hooks of a repository.

use std::path::{Path, PathBuf};
use std::time::Duration;

use aws_lc_rs::hmac;
use axum::http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_http_client::Tls;

use crate::description::Description;
use crate::operations::number;
use crate::repository::Repository;
use crate::request::{Incoming, Reply};

const LIST: &str = "GET /repos/{owner}/{repo}/hooks";
const DELIVERIES: &str = "GET /repos/{owner}/{repo}/hooks/{hook_id}/deliveries";

/// A hook, as the stand-in has it: with its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredHook {
    /// Its number.
    pub id: u64,
    /// Where events would be posted.
    pub url: String,
    /// How they would be encoded: `json` or `form`.
    pub content_type: String,
    /// What they would be signed with.
    pub secret: Option<String>,
    /// Whether the receiver's certificate would not be verified: `0` or `1`.
    pub insecure_ssl: String,
    /// The events.
    pub events: Vec<String>,
    /// Whether any would be posted.
    pub active: bool,
    /// Whose certificates are trusted beside the system's when something is posted.
    pub(crate) trusted: Option<PathBuf>,
    pub(crate) deliveries: Vec<StoredDelivery>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredDelivery {
    id: u64,
    guid: String,
    event: String,
    /// What is posted when it is made again; nothing is where a test did not say.
    payload: Option<Value>,
    status: u16,
    at: Timestamp,
    redelivery: bool,
}

impl StoredHook {
    fn new(id: u64) -> Self {
        Self {
            id,
            url: String::new(),
            content_type: "form".to_owned(),
            secret: None,
            insecure_ssl: "0".to_owned(),
            events: vec!["push".to_owned()],
            active: true,
            trusted: None,
            deliveries: Vec::new(),
        }
    }

    fn take(&mut self, body: &Value) {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let config = &body["config"];
        self.url = text(&config["url"]).unwrap_or_else(|| self.url.clone());
        self.content_type = text(&config["content_type"]).unwrap_or_else(|| self.content_type.clone());
        self.insecure_ssl = text(&config["insecure_ssl"]).unwrap_or_else(|| self.insecure_ssl.clone());
        self.secret = text(&config["secret"]).or(self.secret.take());
        if let Some(events) = body["events"].as_array() {
            self.events = events.iter().filter_map(text).collect();
        }
        self.active = body["active"].as_bool().unwrap_or(self.active);
    }

    /// With the least that GitHub says of a hook around it.
    fn body(&self, description: &Description) -> Value {
        let mut body = description.least_element(LIST);
        body["id"] = json!(self.id);
        body["active"] = json!(self.active);
        body["events"] = json!(self.events);
        body["config"] =
            json!({ "content_type": self.content_type, "insecure_ssl": self.insecure_ssl, "url": self.url });
        if self.secret.is_some() {
            body["config"]["secret"] = json!("********");
        }
        body
    }
}

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
            "repository": { "id": number(self.name()), "full_name": self.name(), "default_branch": "main" },
        });
        self.tell("push", &payload).await
    }
}

impl StoredHook {
    fn wants(&self, event: &str) -> bool {
        self.active && self.events.iter().any(|it| it == event)
    }

    /// Posts a delivery, signed and encoded as GitHub does it; answers the receiver's status.
    async fn post(&self, delivery: &StoredDelivery) -> u16 {
        let Some(payload) = &delivery.payload else { return 200 };
        let (media, body) = if self.content_type == "json" {
            ("application/json", payload.to_string())
        } else {
            let reserved = percent_encoding::NON_ALPHANUMERIC;
            let payload = payload.to_string();
            let payload = percent_encoding::utf8_percent_encode(&payload, reserved);
            ("application/x-www-form-urlencoded", format!("payload={payload}"))
        };
        let tls = self.trusted.as_deref().map(Tls::of_bundle).transpose().ok().flatten().unwrap_or_default();
        let client = windlass_http_client::builder(&tls, Duration::from_secs(5));
        let Ok(client) = client.no_proxy().timeout(Duration::from_secs(10)).build() else { return 0 };
        let mut request = client
            .post(&self.url)
            .header("content-type", media)
            .header("x-github-event", &delivery.event)
            .header("x-github-hook-id", self.id)
            .header("x-github-delivery", &delivery.guid);
        if let Some(secret) = &self.secret {
            let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
            let signature = hex::encode(hmac::sign(&key, body.as_bytes()).as_ref());
            request = request.header("x-hub-signature-256", format!("sha256={signature}"));
        }
        request.body(body).send().await.map_or(0, |response| response.status().as_u16())
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
            Reply::ok(all.iter().map(|delivery| delivery_body(description, delivery)).collect())
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

fn delivery_body(description: &Description, delivery: &StoredDelivery) -> Value {
    let mut body = description.least_element(DELIVERIES);
    body["id"] = json!(delivery.id);
    body["guid"] = json!(delivery.guid);
    body["event"] = json!(delivery.event);
    body["delivered_at"] = json!(delivery.at.to_string());
    body["status_code"] = json!(delivery.status);
    body["status"] = json!(if delivery.status < 400 { "OK" } else { "failed" });
    if let Some(action) = delivery.payload.as_ref().and_then(|payload| payload["action"].as_str()) {
        body["action"] = json!(action);
    }
    body["redelivery"] = json!(delivery.redelivery);
    body
}
