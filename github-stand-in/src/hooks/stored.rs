//! Hooks and their deliveries as they are kept, and posting them.

use std::path::PathBuf;
use std::time::Duration;

use aws_lc_rs::hmac;
use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_http_client::Tls;

use crate::description::Description;

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
    pub(super) id: u64,
    pub(super) guid: String,
    pub(super) event: String,
    /// What is posted when it is made again; nothing is where a test did not say.
    pub(super) payload: Option<Value>,
    pub(super) status: u16,
    pub(super) at: Timestamp,
    pub(super) redelivery: bool,
}

impl StoredHook {
    pub(super) fn new(id: u64) -> Self {
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

    pub(super) fn take(&mut self, body: &Value) {
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
    pub(super) fn body(&self, description: &Description) -> Value {
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

    pub(super) fn wants(&self, event: &str) -> bool {
        self.active && self.events.iter().any(|it| it == event)
    }

    /// Posts a delivery, signed and encoded as GitHub does it; answers the receiver's status.
    pub(super) async fn post(&self, delivery: &StoredDelivery) -> u16 {
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

impl StoredDelivery {
    /// With the least that GitHub says of a delivery around it.
    pub(super) fn body(&self, description: &Description) -> Value {
        let mut body = description.least_element(DELIVERIES);
        body["id"] = json!(self.id);
        body["guid"] = json!(self.guid);
        body["event"] = json!(self.event);
        body["delivered_at"] = json!(self.at.to_string());
        body["status_code"] = json!(self.status);
        body["status"] = json!(if self.status < 400 { "OK" } else { "failed" });
        if let Some(action) = self.payload.as_ref().and_then(|payload| payload["action"].as_str()) {
            body["action"] = json!(action);
        }
        body["redelivery"] = json!(self.redelivery);
        body
    }
}
