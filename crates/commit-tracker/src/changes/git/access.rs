//! Where a source's repository is, and as whom it is asked.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use secrecy::{ExposeSecret as _, SecretString};
use url::Url;
use windlass_git::{Credentials, Remote, Tls};
use windlass_github::Github;

use crate::changes::{ChangesError, ChangesQuery, Problem, Secrets, github, secrets};

/// Tokens for hosts, beside what the Secrets of sources have.
#[async_trait]
pub trait GitTokens: Send + Sync + 'static {
    /// Whether there are tokens for repositories at `host`, in lower case and without a port.
    fn covers(&self, host: &str) -> bool;

    /// A token that may read there now.
    async fn token(&self, host: &str) -> Result<SecretString, ChangesError>;
}

/// Those that GitHub's API is asked with, for the repositories that are read from the same place.
#[async_trait]
impl GitTokens for Github {
    fn covers(&self, host: &str) -> bool {
        self.has_credentials() && self.web_host() == host
    }

    async fn token(&self, host: &str) -> Result<SecretString, ChangesError> {
        let token = self.git_token().await.map_err(github::problem)?;
        token.ok_or_else(|| ChangesError::new(Problem::Unauthorized, format!("there is no token for {host}")))
    }
}

/// How sources are reached.
pub(super) struct Access {
    pub(super) secrets: Arc<dyn Secrets>,
    pub(super) tokens: Option<Arc<dyn GitTokens>>,
}

/// What is used of a Secret of a `GitRepository` (Flux: `spec.secretRef`).
#[derive(Default)]
struct SecretContents {
    credentials: Option<Credentials>,
    tls: Tls,
}

impl Access {
    /// The repository of the question's source.
    pub(super) async fn remote(&self, question: &ChangesQuery) -> Result<Remote, ChangesError> {
        let url = Url::parse(question.url.trim()).ok();
        let host = url.as_ref().and_then(Url::host_str).unwrap_or_default().to_lowercase();
        let tokens = self.tokens.as_ref().filter(|tokens| tokens.covers(&host));
        // The same repository over HTTPS, where there is a token for that.
        let ssh = url.as_ref().filter(|url| url.scheme() == "ssh");
        let (url, over_ssh) = match ssh {
            Some(ssh) if tokens.is_some() => (format!("https://{host}{}", ssh.path()), true),
            Some(_) => return Err(ssh_is_unsupported(question, &host)),
            None => (question.url.trim().to_owned(), false),
        };
        let mut contents = match &question.secret {
            Some(name) if !over_ssh => {
                let namespace = &question.source.namespace;
                let secret = self.secrets.secret(namespace, name).await?;
                secret_contents(
                    question,
                    name,
                    secret.as_ref().unwrap_or(&BTreeMap::new()),
                    tokens.is_some(),
                )?
            }
            _ => SecretContents::default(),
        };
        if let Some(tokens) = tokens.filter(|_| contents.credentials.is_none()) {
            let token = tokens.token(&host).await?;
            contents.credentials = Some(Credentials::Basic { user: "x-access-token".to_owned(), token });
        }
        let SecretContents { credentials, tls, .. } = contents;
        Ok(Remote { url, credentials, tls, ..Remote::default() })
    }
}

fn ssh_is_unsupported(question: &ChangesQuery, host: &str) -> ChangesError {
    let text = format!(
        "{} is reached over SSH, which is not supported; use an https: URL in spec.url, or configure a token for \
         {host} where that is GitHub",
        question.source
    );
    ChangesError::new(Problem::Unsupported, text)
}

fn secret_contents(
    question: &ChangesQuery,
    name: &str,
    secret: &BTreeMap<String, SecretString>,
    has_token: bool,
) -> Result<SecretContents, ChangesError> {
    let refuse = |problem: Problem, what: &str| {
        let text = format!("the Secret {name} of {} {what}", question.source);
        Err(ChangesError::new(problem, text))
    };
    let value = |key: &str| secrets::value(secret, &[key]);
    let credentials = match (value("bearerToken"), value("username"), value("password")) {
        (Some(token), _, _) => Some(Credentials::Bearer(trimmed(token))),
        (None, Some(user), Some(password)) => {
            Some(Credentials::Basic { user: user.expose_secret().to_owned(), token: password.clone() })
        }
        (None, Some(_), None) => return refuse(Problem::Malformed, "has username and no password"),
        (None, None, Some(_)) if value("identity").is_none() => {
            return refuse(Problem::Malformed, "has password and no username");
        }
        _ => None,
    };
    if credentials.is_none() && value("githubAppID").is_some() && !has_token {
        let what = "is a GitHub App's; configure the App in [commit_tracker] github_app_id, …_installation_id, \
                    …_private_key";
        return refuse(Problem::Unsupported, what);
    }
    if credentials.is_none() && value("identity").is_some() && !has_token {
        let what = "has an SSH key, which is of no use for an https: URL";
        return refuse(Problem::Unsupported, what);
    }
    match secrets::tls(secret) {
        Ok(tls) => Ok(SecretContents { credentials, tls }),
        Err(what) => refuse(Problem::Malformed, &what),
    }
}

/// Without the line feed that a file ends with.
fn trimmed(token: &SecretString) -> SecretString {
    token.expose_secret().trim().to_owned().into()
}
