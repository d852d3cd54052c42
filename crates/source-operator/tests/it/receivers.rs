use std::time::Duration;

use aws_lc_rs::hmac;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_api::conditions;
use windlass_api::flux::Receiver;

use crate::world::{Process, World, put};

pub(crate) const TOKEN: &str = "hidden-token";
const PUSH: &str = r#"{"ref": "refs/heads/main"}"#;

type Headers<'a> = Vec<(&'a str, &'a str)>;

pub(crate) struct Desk {
    pub(crate) world: World,
    address: String,
    pub(crate) receivers: Api<Receiver>,
    _process: Process,
}

impl Desk {
    async fn new() -> Self {
        Self::with(&[]).await
    }

    /// A controller that may ask these origins beside the Git server's.
    pub(crate) async fn with(origins: &[&str]) -> Self {
        let world = World::new().await;
        let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let address = free.to_string();
        let origins = [&[world.server.origin().as_str()], origins].concat().join("|");
        let more = [
            ("source.leader_election", "false"),
            ("source.receiver_address", address.as_str()),
            ("operator.allowed_git_origins", origins.as_str()),
        ];
        let process = world.start_as("one", &more).await;
        let receivers = Api::namespaced(world.client.clone(), "default");
        Self { world, address: format!("http://{address}"), receivers, _process: process }
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.world.client.clone(), "default")
    }

    pub(crate) async fn set_token(&self, token: &str) {
        let secret = json!({"metadata": {"name": "token"}, "stringData": {"token": token}});
        let api = self.secrets();
        if api.get_opt("token").await.unwrap().is_some() {
            api.patch("token", &PatchParams::default(), &Patch::Merge(secret)).await.unwrap();
        } else {
            api.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
        }
    }

    pub(crate) async fn create(&self, spec: Value) {
        let mut object = json!({
            "apiVersion": "notification.toolkit.fluxcd.io/v1",
            "kind": "Receiver",
            "metadata": {"name": "hook", "namespace": "default"},
            "spec": {"secretRef": {"name": "token"}, "resources": [{"kind": "GitRepository", "name": "app"}]},
        });
        for (key, value) in spec.as_object().unwrap() {
            object["spec"][key] = value.clone();
        }
        object["spec"].as_object_mut().unwrap().retain(|_, value| !value.is_null());
        let object = serde_json::from_value(object).unwrap();
        self.receivers.create(&PostParams::default(), &object).await.unwrap();
    }

    pub(crate) async fn change(&self, spec: Value) {
        let patch = Patch::Merge(json!({ "spec": spec }));
        self.receivers.patch("hook", &PatchParams::default(), &patch).await.unwrap();
    }

    async fn when(&self, what: &str, holds: impl Fn(&Receiver) -> bool) -> Receiver {
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let object = self.receivers.get("hook").await.unwrap();
            assert!(!serde_json::to_string(&object).unwrap().contains(TOKEN), "{object:#?}");
            if holds(&object) {
                return object;
            }
            assert!(Instant::now() < until, "not in time: {what}: {object:#?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until it takes deliveries of the specification as it is now, and answers the path.
    pub(crate) async fn ready(&self) -> String {
        let object = self
            .when("it is ready", |it| {
                conditions::is_true(&it.status.conditions, "Ready")
                    && it.status.observed_generation == it.metadata.generation
            })
            .await;
        object.status.webhook_path.unwrap()
    }

    pub(crate) async fn failed(&self, reason: &str) -> (Receiver, String) {
        let ready = |it: &Receiver| conditions::find(&it.status.conditions, "Ready").cloned();
        let object = self
            .when(reason, |it| ready(it).is_some_and(|it| it.status == "False" && it.reason == reason))
            .await;
        let message = ready(&object).unwrap().message;
        (object, message)
    }

    /// Sends a delivery as curl does, and answers the status.
    pub(crate) async fn send(&self, path: &str, body: &str, headers: &[(&str, &str)]) -> u16 {
        let mut command = tokio::process::Command::new("curl");
        command.args(["--silent", "--show-error", "--noproxy", "*", "--output", "/dev/null"]);
        command.args(["--write-out", "%{http_code}", "--data-binary", body]);
        for (name, value) in headers {
            command.args(["--header", &format!("{name}: {value}")]);
        }
        let done = command.arg(format!("{}{path}", self.address)).output().await.unwrap();
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stdout).unwrap().parse().unwrap()
    }
}

impl Desk {
    /// Sends a delivery until it is answered so. The replica that takes it in may not have seen yet what was asked of the
    /// API; what it answers then is another thing.
    pub(crate) async fn answers(&self, path: &str, body: &str, headers: &[(&str, &str)], code: u16) {
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let answered = self.send(path, body, headers).await;
            if answered == code {
                return;
            }
            assert!(Instant::now() < until, "{answered} in place of {code}: {headers:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn signed(algorithm: hmac::Algorithm, secret: &str, body: &str) -> String {
    hex::encode(hmac::sign(&hmac::Key::new(algorithm, secret.as_bytes()), body.as_bytes()).as_ref())
}

/// The interval of the source is an hour: only the delivery can be what makes it move.
#[tokio::test]
async fn a_push_that_a_receiver_is_told_of_needs_no_poll() {
    let desk = Desk::new().await;
    let first = desk.world.commit([put("a", "1")]);
    desk.world.create("app", json!({})).await;
    desk.world.create("other", json!({})).await;
    desk.world.ready("app", &first).await;
    desk.world.ready("other", &first).await;
    desk.create(json!({"type": "github", "events": ["push", "ping"]})).await;
    let (_, message) = desk.failed("TokenNotFound").await;
    assert!(message.contains("there is no Secret \"token\""), "{message}");
    desk.set_token(TOKEN).await;
    let path = desk.ready().await;

    let good = format!("sha256={}", signed(hmac::HMAC_SHA256, TOKEN, PUSH));
    let wrong = format!("sha256={}", signed(hmac::HMAC_SHA256, "other", PUSH));
    let second = desk.world.commit([put("a", "2")]);
    let event = ("X-GitHub-Event", "push");
    // It is not signed.
    desk.answers(&path, PUSH, &[event], 400).await;
    assert_eq!(desk.send(&path, PUSH, &[event, ("X-Hub-Signature-256", &wrong)]).await, 400);
    let other_event = [("X-GitHub-Event", "star"), ("X-Hub-Signature-256", &*good)];
    assert_eq!(desk.send(&path, PUSH, &other_event).await, 400, "the event is not heeded");
    let elsewhere = format!("/hook/{}", "0".repeat(64));
    assert_eq!(desk.send(&elsewhere, PUSH, &[event, ("X-Hub-Signature-256", &good)]).await, 404);
    let object = desk.world.objects.get("app").await.unwrap();
    assert!(object.status.artifact.unwrap().revision.ends_with(&first), "nobody was believed");
    assert_eq!(desk.send(&path, PUSH, &[event, ("X-Hub-Signature-256", &good)]).await, 200);
    desk.world.ready("app", &second).await;

    // Old servers of GitHub's sign with SHA-1 alone, as Flux takes it.
    let third = desk.world.commit([put("a", "3")]);
    let old = format!("sha1={}", signed(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, TOKEN, PUSH));
    assert_eq!(desk.send(&path, PUSH, &[event, ("X-Hub-Signature", &old)]).await, 200);
    desk.world.ready("app", &third).await;

    // Another token is another path, at once.
    desk.set_token("another-token").await;
    desk.when("the path is another one", |it| it.status.webhook_path.as_ref().is_some_and(|it| *it != path))
        .await;
    desk.answers(&path, PUSH, &[event, ("X-Hub-Signature-256", &good)], 404).await;
    desk.change(json!({"suspend": true})).await;
    let path = desk.receivers.get("hook").await.unwrap().status.webhook_path.unwrap();
    // A suspended receiver takes nothing.
    desk.answers(&path, PUSH, &[], 503).await;
    desk.receivers.delete("hook", &DeleteParams::default()).await.unwrap();
    assert!(desk.receivers.get_opt("hook").await.unwrap().is_none());
}

#[tokio::test]
async fn each_type_of_receiver_is_verified_as_flux_does_it() {
    let desk = Desk::new().await;
    desk.set_token(TOKEN).await;
    let mut commit = desk.world.commit([put("a", "0")]);
    desk.world.create("app", json!({})).await;
    desk.world.ready("app", &commit).await;
    desk.world.patch("app", json!({"metadata": {"labels": {"team": "a"}}})).await;
    let resources = json!([{"kind": "GitRepository", "name": "*", "matchLabels": {"team": "a"}}]);
    desk.create(json!({"type": "generic", "resources": resources})).await;
    let sha256 = format!("sha256={}", signed(hmac::HMAC_SHA256, TOKEN, PUSH));
    let sha512 = format!("sha512={}", signed(hmac::HMAC_SHA512, TOKEN, PUSH));
    let nexus = signed(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, TOKEN, PUSH);
    let gitea = signed(hmac::HMAC_SHA256, TOKEN, PUSH);
    let cases: [(&str, Option<Headers<'_>>, Headers<'_>); 8] = [
        ("generic", None, vec![]),
        ("generic-hmac", Some(vec![("X-Signature", "sha256=00")]), vec![("X-Signature", &sha256)]),
        ("generic-hmac", Some(vec![]), vec![("X-Signature", &sha512)]),
        (
            "gitlab",
            Some(vec![("X-Gitlab-Event", "Push Hook"), ("X-Gitlab-Token", "wrong")]),
            vec![("X-Gitlab-Event", "Push Hook"), ("X-Gitlab-Token", TOKEN)],
        ),
        (
            "bitbucket",
            Some(vec![("X-Event-Key", "repo:refs_changed"), ("X-Hub-Signature", "sha256=00")]),
            vec![("X-Event-Key", "repo:refs_changed"), ("X-Hub-Signature", &sha256)],
        ),
        (
            "github",
            Some(vec![("X-Gitlab-Event", "Push Hook"), ("X-Gitlab-Token", TOKEN)]),
            vec![("X-Gitea-Event", "push"), ("X-Gitea-Signature", &gitea), ("X-GitHub-Event", "push")],
        ),
        ("harbor", Some(vec![("Authorization", "wrong")]), vec![("Authorization", TOKEN)]),
        (
            "nexus",
            Some(vec![("X-Nexus-Webhook-Signature", &sha256)]),
            vec![("X-Nexus-Webhook-Signature", &nexus)],
        ),
    ];
    for (number, (kind, bad, good)) in cases.into_iter().enumerate() {
        desk.change(json!({"type": kind})).await;
        let path = desk.ready().await;
        commit = desk.world.commit([put("a", &format!("{number}x"))]);
        // Until the replica that takes it in has seen the change, either may be answered as the type before it is.
        let until = Instant::now() + Duration::from_secs(30);
        while desk.send(&path, PUSH, &good).await != 200
            || match &bad {
                Some(bad) => desk.send(&path, PUSH, bad).await != 400,
                None => false,
            }
        {
            assert!(Instant::now() < until, "{kind}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        desk.world.ready("app", &commit).await;
    }
    desk.change(json!({"type": "gcr"})).await;
    let (_, message) = desk.failed("TokenNotFound").await;
    assert!(message.contains("has no email"), "whom Google has to name: {message}");
    // What is named and not there is an error, which the sender may show.
    desk.change(json!({"type": "generic", "resources": [{"kind": "GitRepository", "name": "absent"}]})).await;
    let path = desk.ready().await;
    desk.answers(&path, PUSH, &[], 500).await;
}
