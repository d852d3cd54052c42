//! As whom a repository is asked: what the Secret of an object says. Flux: `pkg/git`, `auth`.

use kube::Client;
use secrecy::{ExposeSecret as _, SecretString};
use windlass_api::flux::GitRepositorySpec;
use windlass_git::{Credentials, Proxy, Remote, SshIdentity, Tls};

use crate::app::AppSecret;
use crate::controller::Controller;
use crate::failure::{Failure, PROVIDER};
use crate::secret::{Contents, secret, texts, value};
use crate::validate::Valid;

fn refused(message: String) -> Failure {
    Failure::fetch("AuthenticationFailed", message)
}

/// The repository of a specification, with the credentials that its Secret has, and uid and version of that Secret.
pub(crate) async fn remote(
    controller: &Controller,
    namespace: &str,
    spec: &GitRepositorySpec,
    valid: &Valid,
) -> Result<(Remote, Option<(String, String)>), Failure> {
    let basic = |user: &str, password: &str| Credentials::Basic {
        user: user.to_owned(),
        token: SecretString::from(password.to_owned()),
    };
    let client = &controller.client;
    let is_ssh = valid.url.starts_with("ssh:");
    let mut version = None;
    let mut remote = Remote { url: valid.url.clone(), ..Remote::default() };
    if let Some(reference) = &spec.secret_ref {
        let name = &reference.name;
        let secret = secret(client, namespace, name).await.map_err(refused)?;
        remote.cache_identity.clone_from(&secret.metadata.uid);
        version = secret.metadata.uid.clone().zip(secret.metadata.resource_version.clone());
        let values = texts(secret);
        let failed = |what: String| refused(format!("the Secret {name:?} {what}"));
        if is_ssh {
            remote.credentials = Some(identity(&values).map_err(failed)?);
        } else {
            (remote.credentials, remote.tls) = contents(&values).map_err(failed)?;
            let is_app = value(&values, &["githubAppID"]).is_some();
            let wants_app = spec.provider.as_deref() == Some("github");
            if is_app && !wants_app {
                let message = format!("the Secret {name:?} is a GitHub App's; set spec.provider to github");
                return Err(Failure::fetch(PROVIDER, message));
            }
            if wants_app {
                let what = |what: String| Failure::fetch(PROVIDER, format!("the Secret {name:?} {what}"));
                let app = AppSecret::of(&values).map_err(what)?;
                let cancel = &controller.cancel;
                let token = controller.apps.token(&app, version.as_ref(), spec, &remote.tls, cancel).await?;
                remote.credentials = Some(basic("x-access-token", token.expose_secret()));
            }
        }
    } else if is_ssh {
        let message =
            "spec.url is an ssh: URL, which needs spec.secretRef: a Secret with identity and known_hosts";
        return Err(refused(message.to_owned()));
    }
    if let Some(reference) = &spec.proxy_secret_ref {
        remote.proxy = Some(proxy(client, namespace, &reference.name).await?);
    }
    if let Some((user, password)) = valid.user_info.as_ref().filter(|_| remote.credentials.is_none()) {
        remote.credentials = Some(basic(user, password));
    }
    Ok((remote, version))
}

/// The proxy of a Secret.
async fn proxy(client: &Client, namespace: &str, name: &str) -> Result<Proxy, Failure> {
    let failed = |what: &str| refused(format!("spec.proxySecretRef: the Secret {name:?} {what}"));
    let found = secret(client, namespace, name).await;
    let secret = texts(found.map_err(|what| refused(format!("spec.proxySecretRef: {what}")))?);
    let address = value(&secret, &["address"]).ok_or_else(|| failed("has no address"))?;
    let login = match (value(&secret, &["username"]), value(&secret, &["password"])) {
        (Some(user), password) => {
            Some((user.expose_secret().to_owned(), password.cloned().unwrap_or_default()))
        }
        (None, None) => None,
        (None, Some(_)) => return Err(failed("has password and no username")),
    };
    Proxy::new(address.expose_secret(), login).map_err(|error| failed(&format!("names no proxy: {error}")))
}

/// The key of an ssh: URL. Whether the key can be used is told when it is.
fn identity(secret: &Contents) -> Result<Credentials, String> {
    let needed = |key: &str| value(secret, &[key]).ok_or_else(|| format!("has no {key}, which SSH needs"));
    let (key, known_hosts) = (needed("identity")?, needed("known_hosts")?);
    let passphrase = value(secret, &["password"]).cloned();
    Ok(Credentials::Ssh(SshIdentity::new(key.clone(), passphrase, known_hosts.expose_secret())))
}

/// # Errors
/// What is wrong with them, as it goes on after the Secret's name. No part of a value is in it.
fn contents(secret: &Contents) -> Result<(Option<Credentials>, Tls), String> {
    let value = |keys: &[&str]| value(secret, keys);
    let credentials = match (value(&["bearerToken"]), value(&["username"]), value(&["password"])) {
        (Some(token), ..) => Some(Credentials::Bearer(token.expose_secret().trim().to_owned().into())),
        (None, Some(user), password) => Some(Credentials::Basic {
            user: user.expose_secret().to_owned(),
            token: password.cloned().unwrap_or_default(),
        }),
        (None, None, Some(_)) => return Err("has password and no username".to_owned()),
        (None, None, None) if value(&["identity"]).is_some() => {
            return Err("has an SSH key, which is of no use for an https: URL".to_owned());
        }
        (None, None, None) => None,
    };
    let mut tls = Tls::default();
    if let Some(authorities) = value(&["ca.crt", "caFile"]) {
        let trusting = tls.trusting(authorities.expose_secret().as_bytes());
        tls = trusting.map_err(|error| format!("has a ca.crt that is of no use: {error}"))?;
    }
    match (value(&["tls.crt", "certFile"]), value(&["tls.key", "keyFile"])) {
        (Some(chain), Some(key)) => {
            let showing = tls.showing(chain.expose_secret().as_bytes(), key);
            tls =
                showing.map_err(|error| format!("has a tls.crt and tls.key that are of no use: {error}"))?;
        }
        (Some(_), None) => return Err("has tls.crt and no tls.key".to_owned()),
        (None, Some(_)) => return Err("has tls.key and no tls.crt".to_owned()),
        (None, None) => {}
    }
    Ok((credentials, tls))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[(&str, &str)]) -> Result<(Option<Credentials>, Tls), String> {
        contents(&values.iter().map(|(key, value)| ((*key).to_owned(), (*value).into())).collect())
    }

    #[test]
    fn a_bearer_token_wins_and_half_a_pair_is_refused() {
        let (found, _) = of(&[("bearerToken", "t\n"), ("username", "u"), ("password", "p")]).unwrap();
        let Some(Credentials::Bearer(token)) = found else { panic!("{found:?}") };
        assert_eq!(token.expose_secret(), "t");
        assert!(matches!(
            of(&[("username", "u"), ("password", "p")]),
            Ok((Some(Credentials::Basic { .. }), _))
        ));
        assert!(matches!(of(&[]), Ok((None, _))));
        for bad in [
            &[("password", "hidden")][..],
            &[("tls.crt", "hidden")],
            &[("tls.key", "hidden")],
            &[("ca.crt", "hidden")],
            &[("identity", "hidden")],
        ] {
            let error = of(bad).unwrap_err();
            assert!(!error.contains("hidden"), "{error}");
        }
    }

    #[test]
    fn ssh_needs_a_key_and_the_hosts_that_it_is_for() {
        let of = |keys: &[&str]| identity(&keys.iter().map(|key| ((*key).to_owned(), "x".into())).collect());
        assert!(of(&["identity"]).unwrap_err().contains("has no known_hosts"));
        assert!(of(&["known_hosts", "username"]).unwrap_err().contains("has no identity"));
        assert!(of(&["identity", "identity.pub", "known_hosts"]).is_ok());
    }
}
