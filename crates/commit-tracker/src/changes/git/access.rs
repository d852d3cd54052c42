//! Where a source's repository is, and as whom it is asked.

use std::sync::Arc;

use secrecy::{ExposeSecret as _, SecretString};
use url::Url;
use windlass_git::{Credentials, Remote, Tls};
use windlass_github::Github;

use crate::changes::{ChangesError, ChangesQuery, Problem, SecretValues, Secrets, github, secrets};

/// How sources are reached.
pub(super) struct Access {
    pub(super) secrets: Arc<dyn Secrets>,
    /// Whose token opens repositories that are read from the same place as GitHub's API.
    pub(super) github: Option<Github>,
}

impl Access {
    /// The repository of the question's source.
    pub(super) async fn remote(&self, question: &ChangesQuery) -> Result<Remote, ChangesError> {
        let url = Url::parse(question.url.trim()).ok();
        let host = url.as_ref().and_then(Url::host_str).unwrap_or_default().to_lowercase();
        let github =
            self.github.as_ref().filter(|github| github.has_credentials() && github.web_host() == host);
        // The same repository over HTTPS, where there is a token for that.
        let ssh = url.as_ref().filter(|url| url.scheme() == "ssh");
        let (url, over_ssh) = match ssh {
            Some(ssh) if github.is_some() => (format!("https://{host}{}", ssh.path()), true),
            Some(_) => return Err(ssh_is_unsupported(question, &host)),
            None => (question.url.trim().to_owned(), false),
        };
        // What is used of a Secret of a `GitRepository` (Flux: `spec.secretRef`).
        let (mut credentials, tls) = match &question.secret {
            Some(name) if !over_ssh => {
                let namespace = &question.source.namespace;
                let secret = self.secrets.secret(namespace, name).await?;
                secret_contents(question, name, &secret.unwrap_or_default(), github.is_some())?
            }
            _ => (None, Tls::default()),
        };
        if let Some(github) = github.filter(|_| credentials.is_none()) {
            let token = github.git_token().await.map_err(github::problem)?;
            let basic = |token| Credentials::Basic { user: "x-access-token".to_owned(), token };
            credentials = token.map(basic);
        }
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
    secret: &SecretValues,
    has_token: bool,
) -> Result<(Option<Credentials>, Tls), ChangesError> {
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
        Ok(tls) => Ok((credentials, tls)),
        Err(what) => refuse(Problem::Malformed, &what),
    }
}

/// Without the line feed that a file ends with.
fn trimmed(token: &SecretString) -> SecretString {
    token.expose_secret().trim().to_owned().into()
}
