//! Hooks: made, found, changed, removed, and what they were told.

use windlass_github::{ErrorKind, HookRequest};

use crate::{client, manifests, secret, stand_in, token};

fn request(url: &str) -> HookRequest {
    HookRequest {
        url: url.to_owned(),
        secret: secret("s3cret"),
        events: vec!["push".to_owned(), "pull_request".to_owned()],
    }
}

#[tokio::test]
async fn a_hook_is_made_active_in_json_and_verified() {
    let stand_in = stand_in().await;
    let repository = stand_in.repository("grafana/kube-manifests");
    let github = client(&stand_in, token(&stand_in));
    let name = manifests();
    let hook = github.hooks(&name).create(&request("https://example.org/hook")).await.unwrap();
    assert_eq!(hook.url.as_deref(), Some("https://example.org/hook"));
    assert_eq!(hook.events, ["pull_request", "push"]);
    assert!(hook.active && hook.json);

    let [stored] = &repository.hooks()[..] else { panic!("one hook") };
    assert_eq!((stored.secret.as_deref(), stored.insecure_ssl.as_str()), (Some("s3cret"), "0"));
    assert_eq!((stored.content_type.as_str(), stored.active), ("json", true));
    assert_eq!(github.hooks(&name).get(hook.id).await.unwrap(), hook);
}

#[tokio::test]
async fn a_second_hook_with_the_same_url_is_told_from_other_refusals() {
    let stand_in = stand_in().await;
    stand_in.repository("grafana/kube-manifests");
    let github = client(&stand_in, token(&stand_in));
    let name = manifests();
    let hooks = github.hooks(&name);
    let first = hooks.create(&request("https://example.org/hook")).await.unwrap();
    let error = hooks.create(&request("https://example.org/hook")).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::AlreadyExists(_)), "{error}");
    let error = hooks.create(&request("https://localhost/hook")).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unprocessable(_)), "{error}");
    assert!(error.to_string().contains("isn't reachable over the public Internet"), "{error}");
    assert_eq!(hooks.list().await.unwrap(), [first]);
}

#[tokio::test]
async fn a_hook_is_edited_with_a_new_secret_and_removed() {
    let stand_in = stand_in().await;
    let repository = stand_in.repository("grafana/kube-manifests");
    let github = client(&stand_in, token(&stand_in));
    let name = manifests();
    let hooks = github.hooks(&name);
    let id = hooks.create(&request("https://example.org/hook")).await.unwrap().id;

    let changed = HookRequest {
        url: "https://example.org/elsewhere".to_owned(),
        secret: secret("another"),
        events: vec!["push".to_owned(), "event_of_tomorrow".to_owned()],
    };
    let edited = hooks.edit(id, &changed).await.unwrap();
    assert_eq!((edited.id, edited.events.len(), edited.active, edited.json), (id, 2, true, true));
    assert_eq!(hooks.get(id).await.unwrap(), edited);
    let stored = repository.hooks().remove(0);
    assert_eq!(stored.secret.as_deref(), Some("another"));
    assert_eq!(stored.events, ["push", "event_of_tomorrow"]);

    hooks.delete(id).await.unwrap();
    assert_eq!(repository.hooks(), []);
    for error in [hooks.delete(id).await.unwrap_err(), hooks.get(id).await.unwrap_err()] {
        assert!(matches!(error.kind(), ErrorKind::NotFound { .. }), "{error}");
    }
}

#[tokio::test]
async fn all_hooks_are_listed_page_by_page() {
    let stand_in = stand_in().await;
    stand_in.repository("grafana/kube-manifests");
    let github = client(&stand_in, token(&stand_in));
    let name = manifests();
    let hooks = github.hooks(&name);
    for number in 0..105 {
        hooks.create(&request(&format!("https://example.org/{number}"))).await.unwrap();
    }
    let before = stand_in.requests().len();
    assert_eq!(hooks.list().await.unwrap().len(), 105);
    assert_eq!(stand_in.requests().len() - before, 2);
}

#[tokio::test]
async fn what_a_hook_was_told_is_listed_and_told_again() {
    let stand_in = stand_in().await;
    let repository = stand_in.repository("grafana/kube-manifests");
    let github = client(&stand_in, token(&stand_in));
    let name = manifests();
    let hooks = github.hooks(&name);
    let id = hooks.create(&request("https://example.org/hook")).await.unwrap().id;
    repository.deliver(id, "ping", 200);
    let lost = repository.deliver(id, "push", 502);

    hooks.redeliver(id, lost).await.unwrap();
    let deliveries = hooks.deliveries(id).await.unwrap();
    let [again, first, ping] = &deliveries[..] else { panic!("{deliveries:?}") };
    assert_eq!((first.event.as_str(), first.status, first.redelivery), ("push", 502, false));
    assert_eq!((again.guid.as_str(), again.status, again.redelivery), (first.guid.as_str(), 200, true));
    assert_eq!(ping.event, "ping");
    let error = hooks.redeliver(id, 999).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotFound { .. }), "{error}");
}
