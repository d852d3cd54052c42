//! Against a real registry.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use windlass_cluster::{Registry, RegistryLogin};
use windlass_oci::{
    Client, ClientConfig, Digest, DockerChain, Login, ManifestKind, OciError, Reference, Repository,
};

use crate::fixture::{client, config, repository, secret, serde_json_text};

/// Neither exists.
const NOTHING: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// A registry, or nothing without Go: that was said.
async fn registry(login: RegistryLogin) -> Option<Registry> {
    Registry::start(login).await.unwrap()
}

async fn push(registry: &Registry, name: &str, tags: &[&str]) -> Digest {
    let annotations =
        BTreeMap::from([("org.opencontainers.image.revision".to_owned(), "main@sha1:ab".to_owned())]);
    let layers: &[(&str, &[u8])] = &[("text/one", b"first"), ("text/two", b"second")];
    registry.push_artifact(name, tags, layers, &annotations).await.unwrap().parse().unwrap()
}

#[tokio::test]
async fn an_artifact_is_read_with_one_request_a_thing() {
    let Some(registry) = registry(RegistryLogin::Nobody).await else { return };
    let digest = push(&registry, "team/app", &["latest", "v1"]).await;
    let (client, repository) = (client(), repository(&registry.address(), "team/app"));

    let by_digest = Reference::Digest(digest.clone());
    let manifest = client.manifest(&repository, &Login::Anonymous, &by_digest).await.unwrap();
    assert_eq!(manifest.digest, digest);
    assert_eq!(manifest.annotations()["org.opencontainers.image.revision"], "main@sha1:ab");
    let ManifestKind::Image { layers, .. } = &manifest.kind else { panic!("{manifest:?}") };
    assert_eq!(
        layers.iter().map(|layer| layer.media_type.as_str()).collect::<Vec<_>>(),
        ["text/one", "text/two"]
    );
    assert_eq!(client.request_count(), 1);

    let blob = layers[1].digest.parse().unwrap();
    assert_eq!(&client.blob(&repository, &Login::Anonymous, &blob, 6).await.unwrap()[..], b"second");
    assert_eq!(client.request_count(), 2);

    let tag = Reference::Tag("v1".into());
    assert_eq!(client.manifest(&repository, &Login::Anonymous, &tag).await.unwrap(), manifest);
    assert_eq!(client.request_count(), 3);
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    let Some(registry) = registry(RegistryLogin::Nobody).await else { return };
    push(&registry, "app", &["latest"]).await;
    let (client, nothing) = (client(), NOTHING.parse::<Digest>().unwrap());
    let (there, elsewhere) =
        (repository(&registry.address(), "app"), repository(&registry.address(), "no/app"));
    let login = Login::Anonymous;
    for error in [
        client.manifest(&there, &login, &Reference::Digest(nothing.clone())).await.unwrap_err(),
        client.manifest(&there, &login, &Reference::Tag("v9".into())).await.unwrap_err(),
        client.manifest(&elsewhere, &login, &Reference::Tag("latest".into())).await.unwrap_err(),
        client.blob(&there, &login, &nothing, 1).await.unwrap_err(),
    ] {
        assert!(matches!(error, OciError::NotFound { .. }) && !error.is_transient(), "{error}");
        assert!(error.to_string().contains(&registry.address()), "{error}");
    }
    // None of them was tried twice.
    assert_eq!(client.request_count(), 4);
}

#[tokio::test]
async fn a_blob_over_the_limit_costs_its_head_alone() {
    let Some(registry) = registry(RegistryLogin::Nobody).await else { return };
    let big = vec![7_u8; 64 << 20];
    let digest = Digest::of(&big);
    registry.push_blob("app", big, digest.as_str()).await.unwrap();
    let (client, repository) = (client(), repository(&registry.address(), "app"));
    let error = client.blob(&repository, &Login::Anonymous, &digest, 4 << 20).await.unwrap_err();
    assert!(matches!(error, OciError::TooLarge { max: 4_194_304, .. }), "{error}");
    assert_eq!(client.request_count(), 1);
    // The limit itself is fine.
    assert_eq!(client.blob(&repository, &Login::Anonymous, &digest, 64 << 20).await.unwrap().len(), 64 << 20);
}

#[tokio::test]
async fn a_registry_with_passwords_opens_to_the_right_one_only() {
    let Some(registry) = registry(RegistryLogin::Password).await else { return };
    let digest = push(&registry, "app", &["latest"]).await;
    let (address, by_digest) = (registry.address(), Reference::Digest(digest));
    let repository = repository(&address, "app");

    let stranger = client().manifest(&repository, &Login::Anonymous, &by_digest).await.unwrap_err();
    assert!(matches!(stranger, OciError::Unauthorized { sent: false, .. }), "{stranger}");
    let liar = secret(&address, registry.user(), "wrong horse");
    let wrong = client().manifest(&repository, &liar, &by_digest).await.unwrap_err();
    assert!(matches!(wrong, OciError::Unauthorized { sent: true, .. }), "{wrong}");
    assert!(!format!("{wrong} {wrong:?}").contains("horse"), "{wrong:?}");
    let elsewhere = secret("registry.example.org", registry.user(), registry.password());
    let unsent = client().manifest(&repository, &elsewhere, &by_digest).await.unwrap_err();
    assert!(matches!(unsent, OciError::Unauthorized { sent: false, .. }), "{unsent}");

    let client = client();
    let login = secret(&address, registry.user(), registry.password());
    client.manifest(&repository, &login, &by_digest).await.unwrap();
    assert_eq!(client.request_count(), 2, "one is refused, and says what it wants");
    client.manifest(&repository, &login, &by_digest).await.unwrap();
    assert_eq!(client.request_count(), 3, "then it is known");
    // What one login may, another may not.
    assert!(client.manifest(&repository, &Login::Anonymous, &by_digest).await.is_err());
}

/// A client that finds credentials as Docker does, in `folder`.
fn docker(folder: &Path, configuration: &str) -> Client {
    let file = folder.join("config.json");
    std::fs::write(&file, configuration).unwrap();
    let missing = folder.join("missing.json");
    let chain = DockerChain::new(vec![missing, file], Some(folder.as_os_str().to_owned()));
    Client::new(ClientConfig { chain: Arc::new(chain), ..config() }).unwrap()
}

/// An executable file.
fn helper(folder: &Path, name: &str, script: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    let file = folder.join(format!("docker-credential-{name}"));
    std::fs::write(
        &file,
        format!("#!/bin/sh\nread server\necho asked >> {}/asked\n{script}", folder.display()),
    )
    .unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test]
async fn dockers_file_and_its_helpers_open_a_registry() {
    let Some(registry) = registry(RegistryLogin::Password).await else { return };
    let digest = push(&registry, "app", &["latest"]).await;
    let (address, by_digest) = (registry.address(), Reference::Digest(digest));
    let repository = repository(&address, "app");
    let folder = tempfile::tempdir().unwrap();
    let (user, password) = (registry.user(), registry.password());
    let good = format!(
        r#"test "$server" = "{address}" || exit 1; echo '{{"ServerURL": "x", "Username": "{user}", "Secret": "{password}"}}'"#
    );
    helper(folder.path(), "good", &good);
    helper(folder.path(), "empty", "echo 'credentials not found in native keychain'; exit 1");
    helper(folder.path(), "broken", "echo hunter2 >&2; exit 3");
    helper(folder.path(), "odd", "echo hunter2");

    let plain = serde_json_text(&address, user, password);
    let entry = plain.trim_start_matches('{').trim_end_matches('}');
    for opens in [
        plain.clone(),
        format!(r#"{{"credHelpers": {{"{address}": "good"}}}}"#),
        r#"{"credsStore": "good"}"#.to_owned(),
        format!(r#"{{"credHelpers": {{"{address}": "good"}}, "credsStore": "broken"}}"#),
        format!(r#"{{"credsStore": "empty", {entry}}}}}}}"#),
    ] {
        let client = docker(folder.path(), &opens);
        client
            .manifest(&repository, &Login::Chain, &by_digest)
            .await
            .unwrap_or_else(|error| panic!("{opens}: {error}"));
    }
    for (stays_shut, says) in [
        ("{}", "asks for credentials and there are none"),
        (r#"{"credsStore": "broken"}"#, "docker-credential-broken: it ended with exit status: 3"),
        (r#"{"credsStore": "odd"}"#, "docker-credential-odd: its answer is not"),
        (r#"{"credsStore": "missing"}"#, "docker-credential-missing: there is no such program"),
        (r#"{"credsStore": "../good"}"#, "there is no such program"),
        ("hunter2", "line 1 column 1"),
    ] {
        let client = docker(folder.path(), stays_shut);
        let error = client.manifest(&repository, &Login::Chain, &by_digest).await.unwrap_err();
        assert!(error.to_string().contains(says), "{stays_shut}: {error}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
    // A helper that a Secret names is not run.
    std::fs::remove_file(folder.path().join("asked")).unwrap();
    let naming = format!(r#"{{"credHelpers": {{"{address}": "good"}}}}"#);
    let naming = windlass_oci::DockerConfig::parse(&naming.into(), "a Secret").unwrap();
    let client = docker(folder.path(), "{}");
    assert!(client.manifest(&repository, &Login::Secret(Arc::new(naming)), &by_digest).await.is_err());
    assert!(!folder.path().join("asked").exists());
}

#[tokio::test]
async fn credentials_that_are_rotated_are_used_from_the_next_request_on() {
    let Some(registry) = registry(RegistryLogin::Password).await else { return };
    let digest = push(&registry, "app", &["latest"]).await;
    let (address, by_digest) = (registry.address(), Reference::Digest(digest));
    let repository = repository(&address, "app");
    let folder = tempfile::tempdir().unwrap();
    let client = docker(folder.path(), &serde_json_text(&address, registry.user(), "old"));
    assert!(client.manifest(&repository, &Login::Chain, &by_digest).await.is_err());
    let new = serde_json_text(&address, registry.user(), registry.password());
    std::fs::write(folder.path().join("config.json"), new).unwrap();
    client.manifest(&repository, &Login::Chain, &by_digest).await.unwrap();
}

#[tokio::test]
async fn http_is_spoken_where_that_is_allowed_and_here() {
    let elsewhere = Repository::parse("oci://registry.example.org/a", true).unwrap();
    let error =
        client().manifest(&elsewhere, &Login::Anonymous, &Reference::Tag("latest".into())).await.unwrap_err();
    assert!(
        matches!(error, OciError::Refused { .. }) && error.to_string().contains("spec.insecure"),
        "{error}"
    );
    for allowed in ["registry.invalid", "registry.invalid:80", "*"] {
        let mut config = config();
        config.insecure = vec![allowed.into()];
        let client = Client::new(config).unwrap();
        let repository = Repository::parse("oci://registry.invalid/a", true).unwrap();
        // It is looked for, though there is none of this name.
        let error = client
            .manifest(&repository, &Login::Anonymous, &Reference::Tag("latest".into()))
            .await
            .unwrap_err();
        let looked_for = matches!(error, OciError::Unreachable { .. });
        assert_eq!(looked_for, allowed != "registry.invalid:80", "{allowed}: {error}");
    }
}
