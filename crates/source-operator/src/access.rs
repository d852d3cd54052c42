//! As whom a repository is asked: what the Secret of an object says. Flux: `pkg/git`, `auth`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use secrecy::{ExposeSecret as _, SecretString};
use windlass_api::flux::GitRepositorySpec;
use windlass_git::{Credentials, Remote, Tls};

use crate::controller::CALL;
use crate::failure::Failure;
use crate::validate::Valid;

fn refused(message: String) -> Failure {
    Failure::fetch("AuthenticationFailed", message)
}

/// The repository of a specification, with the credentials that its Secret has, and uid and version of that Secret.
pub(crate) async fn remote(
    client: &Client,
    namespace: &str,
    spec: &GitRepositorySpec,
    valid: &Valid,
) -> Result<(Remote, Option<(String, String)>), Failure> {
    let basic = |user: &str, password: &str| Credentials::Basic {
        user: user.to_owned(),
        token: SecretString::from(password.to_owned()),
    };
    let mut version = None;
    let mut remote = Remote { url: valid.url.clone(), ..Remote::default() };
    if let Some(reference) = &spec.secret_ref {
        let name = &reference.name;
        let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
        let found = CALL.read(format!("get Secret {namespace}/{name}"), || api.get_opt(name)).await;
        let secret = found
            .map_err(|error| refused(format!("failed to read the Secret {name:?}: {}", error.reason())))?
            .ok_or_else(|| refused(format!("there is no Secret {name:?} in the namespace {namespace:?}")))?;
        remote.cache_identity.clone_from(&secret.metadata.uid);
        version = secret.metadata.uid.zip(secret.metadata.resource_version);
        let values = secret.data.unwrap_or_default().into_iter();
        let values = values.filter_map(|(key, value)| Some((key, String::from_utf8(value.0).ok()?.into())));
        let failed = |what: String| refused(format!("the Secret {name:?} {what}"));
        (remote.credentials, remote.tls) = contents(&values.collect()).map_err(failed)?;
    }
    if let Some((user, password)) = valid.user_info.as_ref().filter(|_| remote.credentials.is_none()) {
        remote.credentials = Some(basic(user, password));
    }
    Ok((remote, version))
}

type Contents = BTreeMap<String, SecretString>;

/// # Errors
/// What is wrong with them, as it goes on after the Secret's name. No part of a value is in it.
fn contents(secret: &Contents) -> Result<(Option<Credentials>, Tls), String> {
    let value = |keys: &[&str]| {
        let values = keys.iter().filter_map(|key| secret.get(*key));
        values.into_iter().find(|value| !value.expose_secret().is_empty())
    };
    let credentials = match (value(&["bearerToken"]), value(&["username"]), value(&["password"])) {
        (Some(token), ..) => Some(Credentials::Bearer(token.expose_secret().trim().to_owned().into())),
        (None, Some(user), password) => Some(Credentials::Basic {
            user: user.expose_secret().to_owned(),
            token: password.cloned().unwrap_or_default(),
        }),
        (None, None, Some(_)) => return Err("has password and no username".to_owned()),
        (None, None, None) if value(&["githubAppID"]).is_some() => {
            return Err("is a GitHub App's, which is not supported; give it username and password".to_owned());
        }
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
            &[("githubAppID", "hidden")],
        ] {
            let error = of(bad).unwrap_err();
            assert!(!error.contains("hidden"), "{error}");
        }
    }
}
