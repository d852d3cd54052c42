//! Which Secrets a repository's token may come from, where the API server has let everything through.

use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use windlass_api::{Repository, annotations, labels};
use windlass_git::{Git, GitConfig};
use windlass_repository::{OpenError, Opened, Opener, SecretToken, TokenError, TokenSource as _};

use crate::api_server;

struct World {
    core: Client,
    opener: Opener,
    _cache: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let cache = tempfile::tempdir().unwrap();
        let opener = Opener::new(Git::new(GitConfig::new(cache.path())).unwrap(), None, Vec::new());
        Self { core: api_server(), opener, _cache: cache }
    }

    async fn create_secret(&self, metadata: Value, data: Value) {
        let secret = serde_json::from_value(json!({"metadata": metadata, "stringData": data})).unwrap();
        let secrets: Api<k8s_openapi::api::core::v1::Secret> = Api::namespaced(self.core.clone(), "default");
        secrets.create(&PostParams::default(), &secret).await.unwrap();
    }

    /// What reading the token comes to, and opening, which is the same.
    async fn token(&self, repository: &Repository) -> Result<Option<String>, TokenError> {
        let opened: Result<Opened, OpenError> = self.opener.open(&self.core, repository).await;
        let token = SecretToken::new(&self.core, repository).token().await;
        assert_eq!(opened.is_ok(), token.is_ok());
        Ok(token?.map(|token| token.value.expose_secret().to_owned()))
    }
}

/// A repository as an API server without rules of ours would have stored it.
fn repository(name: &str, url: &str, secret: &str) -> Repository {
    let document = json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-of-{name}")},
        "spec": {"title": name, "type": "git", "workflows": [], "sync": {"enabled": false},
            "git": {"url": url, "branch": "main"}},
        "secure": {"token": {"name": secret}},
    });
    serde_json::from_value(document).unwrap()
}

fn refused(found: Result<Option<String>, TokenError>) -> String {
    match found {
        Err(error @ TokenError::Refused { .. }) => {
            assert_eq!((error.http_code(), error.reason()), (403, "AuthenticationFailed"));
            error.to_string()
        }
        other => panic!("a refusal: {other:?}"),
    }
}

#[tokio::test]
async fn a_sealed_token_serves_its_owner_and_nobody_who_names_it() {
    let world = World::new();
    let repositories: Api<Repository> = Api::namespaced(world.core.clone(), "default");
    let mut owner = repository("owner", "https://git.example.com/team/private", "");
    owner.metadata.uid = None;
    owner.secure.token = windlass_api::InlineSecureValue::raw("the-token");
    let stored = repositories.create(&PostParams::default(), &owner).await.unwrap();
    assert_eq!(world.token(&stored).await.unwrap().as_deref(), Some("the-token"));

    let sealed = &stored.secure.token.name;
    let thief = repository("thief", "https://thief.example.com/a", sealed);
    let text = refused(world.token(&thief).await);
    assert!(text.contains(sealed) && text.contains("a token of its own"), "{text}");
    // An earlier repository of the same name is somebody else too.
    let namesake = repository("owner", "https://thief.example.com/a", sealed);
    refused(world.token(&namesake).await);
}

#[tokio::test]
async fn a_token_that_people_stored_is_used_where_it_says() {
    let world = World::new();
    world.create_secret(json!({"name": "git-token"}), json!({"token": "x"})).await;
    let ours = repository("ours", "https://git.example.com/team/a", "git-token");
    let thief = repository("thief", "https://thief.example.com/a", "git-token");
    let text = refused(world.token(&ours).await);
    assert!(text.contains("windlass.dev/urls=https://git.example.com"), "it says what to do: {text}");
    refused(world.token(&thief).await);

    let secrets: Api<k8s_openapi::api::core::v1::Secret> = Api::namespaced(world.core.clone(), "default");
    let mark = |metadata: Value| {
        let (secrets, patch) = (secrets.clone(), json!({"metadata": metadata}));
        async move {
            secrets.patch("git-token", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        }
    };
    mark(json!({"annotations": {annotations::SECRET_URLS: "https://git.example.com"}})).await;
    assert_eq!(world.token(&ours).await.unwrap().as_deref(), Some("x"));
    refused(world.token(&thief).await);
    mark(json!({"annotations": null, "labels": {labels::SECRET_REPOSITORY: "ours"}})).await;
    assert_eq!(world.token(&ours).await.unwrap().as_deref(), Some("x"));
    refused(world.token(&thief).await);
}

#[tokio::test]
async fn a_name_that_leads_out_of_the_namespace_is_not_asked_for() {
    let world = World::new();
    for name in ["../../other/secrets/a", "a/b", "..", "a?b", "A"] {
        let found = world.token(&repository("r", "https://git.example.com/a", name)).await;
        assert!(matches!(found, Err(TokenError::Name { .. })), "{name}: {found:?}");
    }
    let found = world.token(&repository("r", "https://git.example.com/a", "absent")).await;
    assert!(matches!(found, Err(TokenError::Missing { .. })), "{found:?}");
}
