//! Flux's `Receiver`s: webhooks of Git servers that have sources looked at, so that no interval needs to be short. Flux:
//! notification-controller's `ReceiverReconciler` and `ReceiverServer`.
//!
//! Every replica takes deliveries in (`receivers/hook.rs`), the leader says where they are to be sent
//! (`receivers/status.rs`). A delivery annotates what the receiver names, as `flux reconcile` does, so that it does not
//! matter which replica got it.

mod filter;
mod hook;
mod oidc;
mod senders;
mod status;

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use kube::{Api, Client};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use windlass_api::flux::{Receiver, WEBHOOK_PATH};
use windlass_launch::Context;
use windlass_repository::webhook::Reception;
use windlass_runtime::{
    BackoffPolicy, Clock, Event, Leadership, ObjectKey, ObjectVersion, Store, TermQueue, Watch, WatchConfig,
    Watched as _, run_keyed,
};
use windlass_telemetry::Health;

use self::oidc::{GoogleAccount, Issuers};
use crate::secret::secret;

/// The key of a Secret that holds the token.
const TOKEN: &str = "token";

/// Receivers that are looked at at a time.
const WORKERS: usize = 4;

/// The receivers, and what working on them takes. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Receivers {
    /// It writes whether this process leads or not.
    client: Client,
    objects: Store<Receiver>,
    queue: TermQueue<ObjectKey>,
    clock: Arc<dyn Clock>,
    reception: Arc<Reception>,
    issuers: Arc<Issuers>,
    /// The one namespace whose objects may be asked for; any if there is none.
    namespace: Option<String>,
}

/// What a receiver's Secret says.
struct Shared {
    /// Empty where senders show tokens of their own.
    token: SecretString,
    /// Whose token senders of the type `gcr` show.
    google: Option<GoogleAccount>,
}

/// Receivers that are not followed yet.
pub(crate) struct Unfollowed {
    pub(crate) receivers: Receivers,
    watch: Watch<Receiver>,
    health: Health,
    listener: TcpListener,
}

impl Receivers {
    /// The receivers that the process may see; deliveries come in over `listener`.
    pub(crate) fn over(process: &Context, listener: TcpListener) -> Unfollowed {
        let client = process.clients.core.clone();
        let api: Api<Receiver> = process.scope.api(client.clone());
        let remedy = "apply the definition of Receivers, or set [source] receiver_address to nothing";
        let watch = Watch::new(api, WatchConfig { remedy, ..WatchConfig::new("receivers") });
        let receivers = Self {
            client,
            objects: watch.store(),
            queue: TermQueue::default(),
            clock: Arc::clone(&process.clock),
            reception: Arc::default(),
            issuers: Arc::new(Issuers::new(process.git.clone())),
            namespace: process.scope.namespace().map(str::to_owned),
        };
        Unfollowed { receivers, watch, health: process.health.clone(), listener }
    }

    /// Has the receivers looked at whose token is in the Secret of an event.
    pub(crate) fn forward_secret(&self, event: &Event<ObjectVersion>) {
        let (Event::Applied { new: secret, .. } | Event::Deleted(secret)) = event else { return };
        for receiver in self.objects.list_in(&secret.key().namespace) {
            if receiver.spec.secret_ref.as_ref().is_some_and(|named| named.name == secret.key().name) {
                self.queue.add(ObjectKey::of(&*receiver));
            }
        }
    }

    /// What a receiver's Secret says; else why that cannot be had.
    async fn shared(&self, receiver: &Receiver) -> Result<Shared, String> {
        let namespace = receiver.metadata.namespace.as_deref().unwrap_or_default();
        let name = match &receiver.spec.secret_ref {
            Some(named) => &named.name,
            None if receiver.spec.kind == oidc::TYPE => {
                return Ok(Shared { token: SecretString::default(), google: None });
            }
            None => return Err("spec.secretRef is required".to_owned()),
        };
        let mut data = secret(&self.client, namespace, name).await?.data.unwrap_or_default();
        let mut get = |key: &str| {
            let value = data.remove(key).and_then(|it| String::from_utf8(it.0).ok());
            value.filter(|value| !value.is_empty()).ok_or_else(|| format!("the Secret {name:?} has no {key}"))
        };
        let token = SecretString::from(get(TOKEN)?);
        let google = if receiver.spec.kind == senders::GOOGLE {
            Some(GoogleAccount { email: get("email")?, audience: get("audience")? })
        } else {
            None
        };
        Ok(Shared { token, google })
    }
}

impl Unfollowed {
    /// Takes deliveries in and looks at receivers until `shutdown`.
    pub(crate) async fn run(self, leadership: &Leadership, shutdown: &CancellationToken) {
        let Self { receivers, watch, health, listener } = self;
        let queue = receivers.queue.clone();
        let follow = watch.run(health, shutdown.clone(), move |event| {
            if let Event::Applied { old, new } = event
                && old.is_none_or(|old| is_asked_for(&old, &new))
            {
                queue.add(ObjectKey::of(&*new));
            }
        });
        let lead = leadership.lead(shutdown, async |term| {
            let client = term.guard(&receivers.client);
            let work = receivers.queue.begin(BackoffPolicy::OBJECT, || receivers.objects.keys());
            let reconcile = |key| {
                let (receivers, client) = (receivers.clone(), client.clone());
                async move { receivers.reconcile(&client, &key).await }
            };
            run_keyed(work.queue.clone(), WORKERS, shutdown.clone(), reconcile, |_key| {}).await;
        });
        let take = windlass_auth::plain::serve(listener, hook::router(receivers.clone()), shutdown.clone());
        tokio::join!(follow, lead, take);
    }
}

fn is_asked_for(old: &Receiver, new: &Receiver) -> bool {
    let asked = |it: &Receiver| {
        (
            it.metadata.generation,
            it.metadata.deletion_timestamp.is_some(),
            status::requested_at(it).map(str::to_owned),
        )
    };
    asked(old) != asked(new)
}

/// Where deliveries are sent to: nobody knows it who does not know the token.
fn webhook_path(token: &SecretString, name: &str, namespace: &str) -> String {
    let text = format!("{}{name}{namespace}", token.expose_secret());
    format!("{WEBHOOK_PATH}{}", hex::encode(digest(&SHA256, text.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::webhook_path;

    #[test]
    fn the_path_is_fluxs() {
        // `printf 'tokenreceiverns' | sha256sum`
        let expected = "/hook/a02c9330a19f5118e5ba023b53aa867c3da7ae58feb6cc42b684a7065f146387";
        assert_eq!(webhook_path(&"token".to_owned().into(), "receiver", "ns"), expected);
    }
}
