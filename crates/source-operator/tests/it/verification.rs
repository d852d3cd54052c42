use std::process::Command;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use windlass_api::conditions;
use windlass_git_server::ssh_key;

use crate::world::{World, fetch, is_ready, put};

/// A key that signs, and Git that uses it.
struct Signer {
    folder: tempfile::TempDir,
    public: String,
}

impl Signer {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (_, public) = ssh_key(&folder.path().join("key"), &["ed25519"], "").unwrap();
        Self { folder, public }
    }

    fn git(&self, world: &World, arguments: &[&str]) -> String {
        let key = format!("user.signingkey={}", self.folder.path().join("key").display());
        let mut command = Command::new("git");
        command.arg("-C").arg(world.folder.path().join("app.git"));
        command.args([
            "-c",
            "gpg.format=ssh",
            "-c",
            &key,
            "-c",
            "user.name=A",
            "-c",
            "user.email=a@example.com",
        ]);
        command.args(arguments).env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
        let done = command.output().unwrap();
        assert!(done.status.success(), "{arguments:?}: {done:?}");
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    }

    /// A signed commit of what `main` has.
    fn commit(&self, world: &World) -> String {
        let commit = self.git(world, &["commit-tree", "-S", "main^{tree}", "-m", "signed"]);
        self.git(world, &["update-ref", "refs/heads/main", &commit]);
        commit
    }
}

async fn set_keys(world: &World, data: Value) {
    let secrets: Api<Secret> = Api::namespaced(world.client.clone(), "default");
    let secret = json!({"metadata": {"name": "keys"}, "stringData": data});
    match secrets.get_opt("keys").await.unwrap() {
        None => {
            let secret: Secret = serde_json::from_value(secret).unwrap();
            secrets.create(&PostParams::default(), &secret).await.unwrap();
        }
        Some(_) => {
            let patch = Patch::Merge(json!({"stringData": data}));
            secrets.patch("keys", &PatchParams::default(), &patch).await.unwrap();
        }
    }
}

fn verify(mode: &str) -> Value {
    json!({"mode": mode, "secretRef": {"name": "keys"}})
}

#[tokio::test]
async fn only_what_the_keys_of_now_signed_is_taken() {
    let (world, signer, other) = (World::new().await, Signer::new(), Signer::new());
    world.commit([put("a", "1")]);
    let _process = world.start().await;
    world.create("app", json!({"verify": verify("HEAD")})).await;
    let (object, message) = world.failed("app", "VerificationError").await;
    assert!(message.contains("there is no Secret \"keys\""), "{message}");
    set_keys(&world, json!({"one.sshpub": signer.public})).await;
    let (object_after, message) = world.failed("app", "InvalidCommitSignature").await;
    assert!(message.contains("is not signed"), "{message}");
    assert_eq!((object.status.artifact, object_after.status.artifact), (None, None), "nothing is taken");
    let commit = signer.commit(&world);
    world.request("app", "1").await;
    let artifact = world.ready("app", &commit).await;
    let object = world.objects.get("app").await.unwrap();
    let verified = conditions::find(&object.status.conditions, "SourceVerified").unwrap();
    assert_eq!((&*verified.status, &*verified.reason), ("True", "Succeeded"));
    assert!(
        verified.message.contains(&format!("commit 'sha1:{commit}' with key 'SHA256:")),
        "{}",
        verified.message
    );
    assert_eq!(object.status.source_verification_mode.as_deref(), Some("HEAD"));
    // The same revision, and other keys: nobody has to ask, and the interval is an hour.
    set_keys(&world, json!({"one.sshpub": other.public})).await;
    let (object, message) = world.failed("app", "InvalidCommitSignature").await;
    assert!(message.contains("none of the keys made it"), "{message}");
    let verified = conditions::find(&object.status.conditions, "SourceVerified").unwrap();
    assert_eq!((&*verified.status, object.status.artifact.as_ref()), ("False", Some(&artifact)));
    assert_eq!(fetch(&artifact.url).await.0, 200);
    set_keys(&world, json!({"one.sshpub": format!("{}\n{}", other.public, signer.public)})).await;
    world.when("it recovers", "app", is_ready).await;
    set_keys(&world, json!({"broken.asc": "hidden-nonsense"})).await;
    world.request("app", "3").await;
    let (object, message) = world.failed("app", "VerificationError").await;
    assert!(message.contains("\"broken.asc\""), "{message}");
    assert!(!serde_json::to_string(&object).unwrap().contains("hidden-nonsense"));
    world.patch("app", json!({"spec": {"verify": null}})).await;
    let object = world.when("it is not asked for", "app", is_ready).await;
    assert!(conditions::find(&object.status.conditions, "SourceVerified").is_none());
    assert_eq!(object.status.source_verification_mode, None);
}

#[tokio::test]
async fn a_tag_is_taken_for_what_was_signed_under_its_own_name() {
    let (world, signer) = (World::new().await, Signer::new());
    let unsigned = world.commit([put("a", "1")]);
    set_keys(&world, json!({"one.sshpub": signer.public})).await;
    signer.git(&world, &["tag", "light", &unsigned]);
    signer.git(&world, &["tag", "-a", "-m", "plain", "plain", &unsigned]);
    signer.git(&world, &["tag", "-s", "-m", "signed", "v1.0.0", &unsigned]);
    signer.git(&world, &["update-ref", "refs/tags/v9.0.0", "refs/tags/v1.0.0"]);
    let _process = world.start().await;
    world.create("app", json!({"verify": verify("Tag")})).await;
    let (object, message) = world.failed("app", "InvalidVerificationMode").await;
    assert!(message.contains("needs a tag"), "{message}");
    assert!(conditions::is_true(&object.status.conditions, "Stalled"));
    let refer = async |tag: &str, mode: &str| {
        world.patch("app", json!({"spec": {"ref": {"tag": tag}, "verify": verify(mode)}})).await;
    };
    for (tag, mode, reason, words) in [
        ("light", "Tag", "InvalidGitObject", "is not annotated"),
        ("plain", "Tag", "InvalidGitObject", "is not signed"),
        ("v9.0.0", "Tag", "InvalidTagSignature", "it is one of the tag \"v1.0.0\""),
        ("v1.0.0", "TagAndHEAD", "InvalidCommitSignature", "is not signed"),
    ] {
        refer(tag, mode).await;
        let told = |object: &windlass_api::flux::GitRepository| {
            conditions::find(&object.status.conditions, "Ready")
                .is_some_and(|ready| ready.reason == reason && ready.message.contains(words))
        };
        let object = world.when(words, "app", told).await;
        assert_eq!(object.status.artifact, None, "{tag}");
    }
    refer("v1.0.0", "Tag").await;
    world.ready("app", &unsigned).await;
    let head = signer.commit(&world);
    signer.git(&world, &["tag", "-s", "-m", "signed", "v1.1.0", &head]);
    refer("v1.1.0", "TagAndHEAD").await;
    world.ready("app", &head).await;
    let object = world.objects.get("app").await.unwrap();
    assert_eq!(object.status.source_verification_mode.as_deref(), Some("TagAndHEAD"));
    let message = &conditions::find(&object.status.conditions, "SourceVerified").unwrap().message;
    assert!(message.contains("tag 'v1.1.0' with key") && message.contains("and commit 'sha1:"), "{message}");
}

#[tokio::test]
async fn a_key_ring_of_openpgp_keys_speaks_for_commits_too() {
    let (world, home) = (World::new().await, tempfile::tempdir().unwrap());
    if Command::new("gpg").arg("--version").output().is_err() && std::env::var("CI").is_err() {
        return;
    }
    let run = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.current_dir(world.folder.path()).env("GNUPGHOME", home.path()).args(arguments);
        let done = command.env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
        assert!(done.status.success(), "{program} {arguments:?}: {done:?}");
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    };
    let batch = ["--batch", "--quiet", "--passphrase", ""];
    run("gpg", &[&batch[..], &["--quick-gen-key", "A <a@example.com>", "ed25519", "sign", "never"]].concat());
    let public = run("gpg", &["--armor", "--export"]);
    world.commit([put("a", "1")]);
    let git = ["-C", "app.git", "-c", "user.name=A", "-c", "user.email=a@example.com"];
    let commit = run("git", &[&git[..], &["commit-tree", "-S", "main^{tree}", "-m", "signed"]].concat());
    run("git", &["-C", "app.git", "update-ref", "refs/heads/main", &commit]);
    run("gpgconf", &["--kill", "gpg-agent"]);
    set_keys(&world, json!({"team.asc": public})).await;
    let _process = world.start().await;
    world.create("app", json!({"verify": verify("HEAD")})).await;
    world.ready("app", &commit).await;
}
