//! The client of GitHub's API against the stand-in, on a socket.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod app;
mod connections;
mod failures;
mod hooks;
mod protection;
mod pulls;
mod reading;
mod writing;

use std::time::Duration;

use secrecy::SecretString;
use windlass_github::{
    CommitPage, Credentials, Deadlines, Github, GithubError, Options, RepositoryName, Retries,
};
use windlass_github_stand_in::StandIn;

/// A client of `stand_in` that tries again at once.
fn client(stand_in: &StandIn, credentials: Credentials) -> Github {
    Github::new(options(stand_in, credentials)).expect("a client")
}

fn options(stand_in: &StandIn, credentials: Credentials) -> Options {
    Options {
        api: stand_in.api().to_owned(),
        retries: Retries { times: 4, first: Duration::from_millis(1), longest: Duration::from_millis(4) },
        deadlines: Deadlines { total: Duration::from_secs(30), ..Deadlines::default() },
        ..Options::new(credentials)
    }
}

fn token(stand_in: &StandIn) -> Credentials {
    let token = secret("ghp_a_t0ken");
    stand_in.allow_token(&token);
    Credentials::Token(token)
}

fn secret(text: &str) -> SecretString {
    SecretString::from(text.to_owned())
}

fn manifests() -> RepositoryName {
    "grafana/kube-manifests".parse().expect("a name")
}

fn at(text: &str) -> jiff::Timestamp {
    text.parse().expect("a time")
}

/// What touched the file up to `sha`.
async fn history(github: &Github, repository: &RepositoryName, sha: &str) -> Result<CommitPage, GithubError> {
    github.history(repository, sha, "exporter-info.json", 10, 1).await
}

async fn stand_in() -> StandIn {
    StandIn::start().await.expect("a free port")
}
