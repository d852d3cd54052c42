//! Telling what happened: Events of the API server, and Flux's events posted to whoever wants them. Nobody waits for
//! either.

use std::collections::BTreeMap;
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBuilder};
use kube::Resource as _;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use windlass_api::flux::{GitRepository, SOURCE_GROUP};
use windlass_runtime::{Clock, EventRecorder, EventType, Note};

/// Who tells.
pub(crate) const REPORTER: &str = "source-controller";
/// Events that may wait to be posted.
const QUEUE: usize = 1_024;
/// When one is tried again, and how long each try may take.
const TRY_AGAIN: ExponentialBuilder =
    ExponentialBuilder::new().with_min_delay(Duration::from_millis(500)).with_max_times(4);
const DEADLINE: Duration = Duration::from_secs(5);
/// Annotations of an object that go with its events.
const FORWARDED: &str = "event.toolkit.fluxcd.io/";

/// Tells of objects. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Notifier {
    events: EventRecorder,
    posts: Option<mpsc::Sender<Value>>,
    clock: std::sync::Arc<dyn Clock>,
    instance: String,
}

/// Posts events, on a task of its own.
pub(crate) struct Poster {
    address: String,
    queue: mpsc::Receiver<Value>,
}

impl Notifier {
    pub(crate) fn new(
        events: EventRecorder,
        address: Option<String>,
        clock: std::sync::Arc<dyn Clock>,
        instance: String,
    ) -> (Self, Option<Poster>) {
        let (sender, queue) = mpsc::channel(QUEUE);
        let poster = address.map(|address| Poster { address, queue });
        let posts = poster.is_some().then_some(sender);
        (Self { events, posts, clock, instance }, poster)
    }

    /// Something that is as it should be, and that others want to know.
    pub(crate) fn tell(&self, object: &GitRepository, reason: &str, text: &str) {
        self.event(object, EventType::Normal, reason, text);
        self.post(object, "info", reason, text);
    }

    /// Something that is only for those who look at the object.
    pub(crate) fn trace(&self, object: &GitRepository, reason: &str, text: &str) {
        self.event(object, EventType::Normal, reason, text);
    }

    /// Something that needs looking at.
    pub(crate) fn warn(&self, object: &GitRepository, reason: &str, text: &str) {
        self.event(object, EventType::Warning, reason, text);
        self.post(object, "error", reason, text);
    }

    fn event(&self, object: &GitRepository, kind: EventType, reason: &str, text: &str) {
        let (reason, action) = (reason.to_owned(), "Reconcile".to_owned());
        self.events.record(object, Note { kind, reason, action, text: text.to_owned() });
    }

    fn post(&self, object: &GitRepository, severity: &str, reason: &str, text: &str) {
        let Some(posts) = &self.posts else { return };
        let reference = object.object_ref(&());
        let mut metadata: BTreeMap<String, String> = BTreeMap::new();
        if let Some(artifact) = &object.status.artifact {
            metadata.insert(format!("{SOURCE_GROUP}/revision"), artifact.revision.clone());
            metadata.insert(format!("{SOURCE_GROUP}/digest"), artifact.digest.clone());
        }
        for (key, value) in object.metadata.annotations.iter().flatten() {
            if key.starts_with(FORWARDED) {
                metadata.insert(key.clone(), value.clone());
            }
        }
        let event = json!({
            "involvedObject": reference,
            "severity": severity,
            "timestamp": self.clock.now().to_string(),
            "message": text,
            "reason": reason,
            "metadata": metadata,
            "reportingController": REPORTER,
            "reportingInstance": self.instance,
        });
        if posts.try_send(event).is_err() {
            tracing::warn!(reason, "an event was not posted: too many wait");
        }
    }
}

impl Poster {
    /// Posts what is told until `shutdown`. One that is a duplicate to the other side is done.
    pub(crate) async fn run(mut self, shutdown: CancellationToken) {
        let client = match reqwest::Client::builder().timeout(DEADLINE).build() {
            Ok(client) => client,
            Err(error) => {
                tracing::error!(%error, "failed to set up the posting of events");
                return;
            }
        };
        while let Some(Some(event)) = shutdown.run_until_cancelled(self.queue.recv()).await {
            let sent = shutdown.run_until_cancelled(post(&client, &self.address, &event)).await;
            if let Some(Err(why)) = sent {
                tracing::warn!(address = self.address, why, "failed to post an event");
            }
        }
    }
}

async fn post(client: &reqwest::Client, address: &str, event: &Value) -> Result<(), String> {
    let mut delays = TRY_AGAIN.build();
    loop {
        let why = match client.post(address).json(event).send().await.map(|answer| answer.status()) {
            Ok(status) if status.is_success() || status.as_u16() == 429 => return Ok(()),
            Ok(status) if status.is_server_error() => status.to_string(),
            Ok(status) => return Err(status.to_string()),
            Err(error) => error.without_url().to_string(),
        };
        let Some(delay) = delays.next() else { return Err(why) };
        tokio::time::sleep(delay).await;
    }
}
