//! The hooks of a repository: whom GitHub tells of events, and what it told them.

use jiff::Timestamp;
use octocrab::Page;
use octocrab::models::hooks::{Config, ContentType};
use octocrab::models::webhook_events::WebhookEventType;
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};

use crate::{Github, GithubError, RepositoryName};

/// Hooks that one request lists; GitHub allows 20 for an event.
const PER_PAGE: u8 = 100;
/// Pages of hooks that are looked through.
const PAGES: u32 = 10;

/// A hook, as GitHub has it. Its secret is never shown again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// Its number.
    pub id: u64,
    /// Where events are posted; nothing for a hook of another kind than `web`.
    pub url: Option<String>,
    /// The events, as GitHub names them, sorted.
    pub events: Vec<String>,
    /// Whether events are posted.
    pub active: bool,
    /// Whether they are posted as JSON.
    pub json: bool,
}

/// What a hook is to be. It is active, posts JSON, and the receiver's certificate is verified.
#[derive(Clone, Debug)]
pub struct HookRequest {
    /// Where events are posted.
    pub url: String,
    /// What posts are signed with.
    pub secret: SecretString,
    /// The events, as GitHub names them: `push`, `pull_request`.
    pub events: Vec<String>,
}

/// An event that was posted, or could not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Its number.
    pub id: u64,
    /// What the receiver saw as `X-GitHub-Delivery`; redeliveries have the same.
    pub guid: String,
    /// When.
    pub at: Timestamp,
    /// The event, as GitHub names it.
    pub event: String,
    /// What happened, where the event says: `opened`.
    pub action: Option<String>,
    /// The receiver's status; 0 if there was no answer.
    pub status: u16,
    /// Whether it was posted before.
    pub redelivery: bool,
}

/// The hooks of a repository.
pub struct Hooks<'a> {
    github: &'a Github,
    repository: &'a RepositoryName,
}

impl Github {
    /// The hooks of a repository.
    pub fn hooks<'a>(&'a self, repository: &'a RepositoryName) -> Hooks<'a> {
        Hooks::new(self, repository)
    }
}

#[derive(Deserialize)]
struct WireHook {
    id: u64,
    active: bool,
    events: Vec<String>,
    config: WireConfig,
}

#[derive(Deserialize)]
struct WireConfig {
    url: Option<String>,
    content_type: Option<String>,
}

/// octocrab's `Hook` would send an ID and a type with it, inactive and form-encoded unless told otherwise.
#[derive(Serialize)]
struct NewHook<'a> {
    name: &'static str,
    active: bool,
    events: &'a [String],
    config: Config,
}

#[derive(Serialize)]
struct PageQuery {
    per_page: u8,
    page: u32,
}

impl From<WireHook> for Hook {
    fn from(hook: WireHook) -> Self {
        let WireHook { id, active, mut events, config } = hook;
        events.sort();
        Self { id, url: config.url, events, active, json: config.content_type.as_deref() == Some("json") }
    }
}

impl<'a> Hooks<'a> {
    pub(crate) fn new(github: &'a Github, repository: &'a RepositoryName) -> Self {
        Self { github, repository }
    }

    /// All of them.
    pub async fn list(&self) -> Result<Vec<Hook>, GithubError> {
        let action = format!("list the hooks of {}", self.repository);
        let mut hooks = Vec::new();
        for page in 1..=PAGES {
            let query = PageQuery { per_page: PER_PAGE, page };
            let found: Page<WireHook> = self.github.get(&action, self.route(""), Some(&query)).await?;
            let more = found.next.is_some();
            hooks.extend(found.items.into_iter().map(Hook::from));
            if !more {
                return Ok(hooks);
            }
        }
        Err(self.github.malformed(&action, format!("there are more than {} of them", hooks.len())))
    }

    /// The one with this number.
    pub async fn get(&self, id: u64) -> Result<Hook, GithubError> {
        let action = format!("read hook {id} of {}", self.repository);
        let hook: WireHook = self.github.get(&action, self.route(&format!("/{id}")), None::<&()>).await?;
        Ok(hook.into())
    }

    /// Makes one. [`ErrorKind::AlreadyExists`](crate::ErrorKind::AlreadyExists) if there is one with the same URL.
    pub async fn create(&self, request: &HookRequest) -> Result<Hook, GithubError> {
        self.github.transport().conceal(&request.secret);
        let config = Config {
            url: request.url.clone(),
            content_type: Some(ContentType::Json),
            insecure_ssl: Some("0".to_owned()),
            secret: Some(request.secret.expose_secret().to_owned()),
        };
        let body = NewHook { name: "web", active: true, events: &request.events, config };
        let made = self.github.octocrab().post(self.route(""), Some(&body)).await;
        let made: WireHook =
            made.map_err(|error| self.github.error(&format!("create a hook of {}", self.repository), error))?;
        Ok(made.into())
    }

    /// Makes the one with this number what `request` says.
    pub async fn edit(&self, id: u64, request: &HookRequest) -> Result<Hook, GithubError> {
        self.github.transport().conceal(&request.secret);
        let repositories = self.github.octocrab().repos(self.repository.owner(), self.repository.name());
        let events: Vec<_> = request.events.iter().map(|event| event_type(event)).collect();
        let edited = repositories
            .hooks()
            .update(id)
            .url(&request.url)
            .content_type(ContentType::Json)
            .insecure_ssl("0")
            .secret(request.secret.expose_secret())
            .events(events)
            .active(true)
            .send()
            .await;
        let action = format!("edit hook {id} of {}", self.repository);
        let hook = edited.map_err(|error| self.github.error(&action, error))?;
        let mut events: Vec<_> = hook.events.iter().map(event_name).collect();
        events.sort();
        let json = hook.config.content_type == Some(ContentType::Json);
        Ok(Hook { id: hook.id, url: Some(hook.config.url), events, active: hook.active, json })
    }

    /// Removes the one with this number. [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) if it is gone.
    pub async fn delete(&self, id: u64) -> Result<(), GithubError> {
        // octocrab's own call panics at a success that is not 204.
        let deleted = self.github.octocrab()._delete(self.route(&format!("/{id}")), None::<&()>).await;
        let action = format!("delete hook {id} of {}", self.repository);
        deleted.map(drop).map_err(|error| self.github.error(&action, error))
    }

    /// The latest posts of the one with this number, newest first; at most 100.
    pub async fn deliveries(&self, id: u64) -> Result<Vec<Delivery>, GithubError> {
        let repositories = self.github.octocrab().repos(self.repository.owner(), self.repository.name());
        let listed = repositories.hooks().deliveries(id).list().per_page(PER_PAGE).send().await;
        let action = format!("list the deliveries of hook {id} of {}", self.repository);
        let listed = listed.map_err(|error| self.github.error(&action, error))?;
        let deliveries = listed.items.into_iter().map(|delivery| Delivery {
            id: delivery.id.into_inner(),
            guid: delivery.guid,
            at: Timestamp::from_millisecond(delivery.delivered_at.timestamp_millis()).unwrap_or_default(),
            event: delivery.event.as_ref().map(event_name).unwrap_or_default(),
            action: delivery.action,
            status: u16::try_from(delivery.status_code).unwrap_or_default(),
            redelivery: delivery.redelivery,
        });
        Ok(deliveries.collect())
    }

    /// Has a post made again.
    pub async fn redeliver(&self, id: u64, delivery: u64) -> Result<(), GithubError> {
        let route = self.route(&format!("/{id}/deliveries/{delivery}/attempts"));
        let sent = self.github.octocrab()._post(route, None::<&()>).await;
        let action = format!("redeliver {delivery} of hook {id} of {}", self.repository);
        sent.map(drop).map_err(|error| self.github.error(&action, error))
    }

    fn route(&self, below: &str) -> String {
        format!("/repos/{}/hooks{below}", self.repository)
    }
}

/// octocrab's type of an event; of one that it does not know, the name.
fn event_type(name: &str) -> WebhookEventType {
    serde_json::from_value(name.into()).unwrap_or_else(|_| WebhookEventType::Unknown(name.to_owned()))
}

/// GitHub's name of an event.
fn event_name(event: &WebhookEventType) -> String {
    match serde_json::to_value(event) {
        Ok(serde_json::Value::String(name)) => name,
        _ => String::new(),
    }
}
