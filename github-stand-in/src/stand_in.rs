//! The stand-in, as tests have it.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use axum::Router;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::apps::InstalledApp;
use crate::faults::{Fault, Planned};
use crate::repository::Repository;
use crate::server;
use crate::shared::Shared;
use crate::state::State;

/// GitHub's API on a free port of 127.0.0.1, until it is dropped.
///
/// # Panics
///
/// When it is dropped, if a request or an answer was not as GitHub describes it.
pub struct StandIn {
    shared: Arc<Shared>,
    address: SocketAddr,
    _stop: DropGuard,
}

impl StandIn {
    /// Starts it, without repositories, tokens or Apps.
    pub async fn start() -> io::Result<Self> {
        Self::start_over(None).await
    }

    /// Starts it as a GitHub Enterprise Server: requests of Git go to `git`, and `/api/v3` may stand before the
    /// others.
    pub async fn start_beside(git: Router) -> io::Result<Self> {
        Self::start_over(Some(git)).await
    }

    async fn start_over(git: Option<Router>) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let api = format!("http://{address}");
        let shared = Arc::new(Shared::new(api, git));
        let router = Router::new().fallback(server::serve).with_state(shared.clone());
        let stop = CancellationToken::new();
        let stopped = stop.clone().cancelled_owned();
        tokio::spawn(async move {
            tokio::select! {
                _ = async { axum::serve(listener, router).await } => {}
                () = stopped => {}
            }
        });
        Ok(Self { shared, address, _stop: stop.drop_guard() })
    }

    /// The API's URL.
    pub fn api(&self) -> &str {
        &self.shared.api
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The repository `owner/name`, made empty and public if it is not there.
    pub fn repository(&self, name: &str) -> Repository {
        let mut state = self.state();
        let new = || Repository::new(name);
        state.repositories.entry(name.to_owned()).or_insert_with(new).clone()
    }

    /// The URL that a source would name a repository by.
    pub fn url_of(&self, repository: &Repository) -> String {
        format!("{}/{}.git", self.shared.api, repository.name())
    }

    /// Lets this token in.
    pub fn allow_token(&self, token: &SecretString) {
        self.state().tokens.insert(token.expose_secret().to_owned());
    }

    /// Whether people may push to repositories, and administer them, from now on: at first they push.
    pub fn let_people(&self, push: bool, administer: bool) {
        let mut state = self.state();
        (state.push, state.administer) = (push, administer);
    }

    /// Installs an App, and answers what its owner has of it.
    pub fn install_app(&self, id: &str, installation: u64) -> InstalledApp {
        self.state().apps.install(id, installation)
    }

    /// Grants an installation these permissions, and no others.
    pub fn grant(&self, installation: u64, permissions: &[(&str, &str)]) {
        let grants = permissions.iter().map(|(name, extent)| ((*name).to_owned(), (*extent).to_owned()));
        if let Some(installed) = self.state().apps.installation(installation) {
            installed.grants = grants.collect();
        }
    }

    /// Says who installed it: the organisation `grafana` unless told otherwise.
    pub fn installed_by(&self, installation: u64, owner: &str, is_organisation: bool) {
        if let Some(installed) = self.state().apps.installation(installation) {
            (installed.owner, installed.by_organisation) = (owner.to_owned(), is_organisation);
        }
    }

    /// Suspends an installation, as its owner may.
    pub fn suspend(&self, installation: u64) {
        if let Some(installed) = self.state().apps.installation(installation) {
            installed.suspended = true;
        }
    }

    /// Removes an installation and ends its tokens, as its owner may.
    pub fn uninstall(&self, installation: u64) {
        self.state().apps.uninstall(installation);
    }

    /// Deletes an App, with its installations and their tokens.
    pub fn delete_app(&self, id: &str) {
        self.state().apps.delete(id);
    }

    /// How long the tokens of Apps live from now on.
    pub fn let_tokens_live(&self, lifetime: Duration) {
        self.state().apps.lifetime = Some(lifetime);
    }

    /// Ends all tokens of Apps.
    pub fn revoke_app_tokens(&self) {
        self.state().apps.revoke();
    }

    /// How many tokens Apps were given.
    pub fn minted(&self) -> usize {
        self.state().apps.minted
    }

    /// How long answers may be used again without asking, from now on. Nothing, at first; GitHub says a minute.
    pub fn let_answers_live(&self, max_age: Duration) {
        self.state().max_age = max_age;
    }

    /// Lets the next `times` requests whose path (with its query) contains `path` fail.
    pub fn fail(&self, path: &str, times: usize, fault: Fault) {
        self.state().faults.push(Planned { path: path.to_owned(), times, fault });
    }

    /// Nothing fails any more.
    pub fn heal(&self) {
        self.state().faults.clear();
    }

    /// What was asked so far, as `GET /repos/o/r/commits?sha=… 200`.
    pub fn requests(&self) -> Vec<String> {
        self.state().requests.clone()
    }

    /// Requests that counted against the rate limit.
    pub fn spent(&self) -> u64 {
        self.state().used
    }

    /// From now on Git wants a token that is good, as it does for private repositories.
    pub fn guard_git(&self) {
        self.state().door.guarded = true;
    }

    /// Has transfers wait before anything is looked at, until [`StandIn::let_transfers_go_on`].
    pub fn hold_transfers(&self) {
        self.state().door.open.send_replace(false);
    }

    /// Lets those go on that wait, and all others.
    pub fn let_transfers_go_on(&self) {
        let mut state = self.state();
        state.door.waiting.clear();
        state.door.open.send_replace(true);
    }

    /// The tokens of the transfers that wait.
    pub fn held_transfers(&self) -> Vec<SecretString> {
        self.state().door.waiting.clone()
    }

    /// Whether this token is good now.
    pub fn lets_in(&self, token: &SecretString) -> bool {
        self.state().lets_in(token.expose_secret())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        let violations = std::mem::take(&mut self.state().violations);
        if !std::thread::panicking() {
            assert!(violations.is_empty(), "not as GitHub describes it: {violations:#?}");
        }
    }
}
