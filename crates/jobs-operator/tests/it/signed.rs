//! Whose the commits of jobs are, what they say, and that Git verifies their signatures.

use serde_json::{Value, json};
use windlass_api::{Job, JobState};
use windlass_auth::{Audiences, Caller, Namespaces};

use crate::kit::{GitServer, World, end_of};
use crate::write::{ended_well, job, writable};

/// A new SSH key: the private part, and the line that allows it to sign. Nothing where there is no `ssh-keygen`.
fn ssh_key(kind: &str) -> Option<(String, String)> {
    if windlass_git_server::is_missing("ssh-keygen") {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let (private, public) = windlass_git_server::ssh_key(&folder.path().join("key"), &[kind], "").unwrap();
    Some((private, format!("signer@example.com {public}")))
}

async fn ask_for_signatures(world: &World, key: &str) {
    let commit = json!({"signingMethod": "ssh", "signerName": "Signer", "signerEmail": "signer@example.com"});
    let secure = json!({"commitSigningKey": {"create": key}});
    world.patch_repository("test6", json!({"spec": {"commit": commit}, "secure": secure})).await;
}

fn verify(git: &GitServer, allowed: &str) -> String {
    let file = git.folder().join("allowed");
    std::fs::write(&file, allowed).unwrap();
    let allowed = format!("gpg.ssh.allowedSignersFile={}", file.display());
    git.git(&["-c", &allowed, "log", "-1", "--format=%G?|%GS|%an|%cn <%ce>", "main"])
}

/// Somebody who calls the API, and may use this namespace alone.
fn caller(name: &str) -> Caller {
    Caller {
        name: name.to_owned(),
        uid: format!("user:{name}"),
        groups: Vec::new(),
        audiences: Audiences::All,
        namespaces: Namespaces::One("default".to_owned()),
        rights: windlass_auth::Rights::default(),
    }
}

async fn healthy(world: &World) {
    world.patch_status("test6", json!({"status": {"health": {"healthy": true, "checked": 5}}})).await;
}

#[tokio::test]
async fn git_verifies_the_commit_of_a_job_and_of_a_file_over_the_api() {
    let signed = "G|signer@example.com|Grafana|Signer <signer@example.com>";
    let Some((rsa, allowed)) = ssh_key("rsa") else { return };
    let (git, world, _process) = writable(json!({})).await;
    ask_for_signatures(&world, &rsa).await;
    ended_well(&world.run(job("delete", json!({"paths": ["team-a/cpu.json"]}))).await);
    assert_eq!(verify(&git, &allowed), signed);
    let Some((key, allowed)) = ssh_key("ed25519") else { return };
    ask_for_signatures(&world, &key).await;
    ended_well(&world.run(job("delete", json!({"paths": ["overview.json"]}))).await);
    assert_eq!(verify(&git, &allowed), signed);
    healthy(&world).await;
    let body = crate::kit::dashboard("written", "Written");
    let (code, answer) =
        world.send_as(Some(caller("ada@example.com")), "POST", "test6/files/written.json", body).await;
    assert_eq!(code, 200, "{answer}");
    assert_eq!(verify(&git, &allowed), signed.replace("|Grafana|", "|ada@example.com|"));
}

#[tokio::test]
async fn a_key_that_does_not_fit_is_told_and_nothing_is_pushed() {
    let (git, world, _process) = writable(json!({})).await;
    for (key, why) in [
        ("not a key at all", "no private SSH key"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----", "no private SSH key"),
    ] {
        ask_for_signatures(&world, key).await;
        let record = world.run(job("delete", json!({"paths": ["overview.json"]}))).await;
        let (state, said) = end_of(&record);
        assert_eq!(state, JobState::Error);
        assert!(said.contains(why) && said.contains("secure.commitSigningKey"), "{said}");
        assert!(record.status.errors.iter().any(|error| error.contains(why)), "{:?}", record.status.errors);
        assert!(!said.contains("BEGIN OPENSSH"), "{said}");
        healthy(&world).await;
        let body = crate::kit::dashboard("written", "Written");
        let (code, answer) = world.send("POST", "test6/files/written.json", body).await;
        assert_eq!(code, 424, "{answer}");
        assert!(answer["message"].as_str().unwrap().contains(why), "{answer}");
    }
    world.patch_repository("test6", json!({"secure": {"commitSigningKey": {"remove": true}}})).await;
    let (_, said) = end_of(&world.run(job("delete", json!({"paths": ["overview.json"]}))).await);
    assert!(said.contains("has no key"), "{said}");
    assert_eq!(git.commits("main"), 1);
}

#[tokio::test]
async fn whoever_posts_a_job_is_its_commits_author() {
    let (git, world, _process) = writable(json!({})).await;
    healthy(&world).await;
    for (who, path, author) in [
        ("ada@example.com", "overview.json", "ada@example.com <ada@example.com>"),
        ("ann", "team-b/network.json", "ann <noreply@windlass.dev>"),
    ] {
        let body = json!({"action": "delete", "delete": {"paths": [path]}}).to_string();
        let (code, answer) = world.send_as(Some(caller(who)), "POST", "test6/jobs", body).await;
        assert_eq!(code, 202, "{answer}");
        let queued: Job = serde_json::from_value(answer).unwrap();
        ended_well(&world.ended(&queued).await);
        assert_eq!(git.git(&["log", "-1", "--format=%an <%ae>", "main"]), author);
    }
}

#[tokio::test]
async fn a_commit_of_one_resource_has_its_message_by_the_repositorys_template() {
    let template = "{{action}} {{resourceKind}} {{title}} ({{resourceID}})";
    let commit = json!({"singleResourceMessageTemplate": template});
    let (git, world, _process) = writable(json!({"commit": commit})).await;
    let subject = || git.git(&["log", "-1", "--format=%s", "main"]);
    let run = async |action: &str, options: Value, message: &str| {
        let mut spec = job(action, options);
        message.clone_into(&mut spec.message);
        ended_well(&world.run(spec).await);
    };
    run("move", json!({"paths": ["overview.json"], "targetPath": "top/"}), "").await;
    assert_eq!(subject(), "move Dashboard Overview (overview)");
    run("delete", json!({"paths": ["top/overview.json"]}), "").await;
    assert_eq!(subject(), "delete Dashboard Overview (overview)");
    run("delete", json!({"paths": ["team-b/network.json"]}), "My own words").await;
    assert_eq!(subject(), "My own words");
    run("delete", json!({"paths": ["team-a/cpu.json", "team-a/memory.json"]}), "").await;
    assert_eq!(subject(), "Delete from Grafana test6-delete");
    world.patch_repository("test6", json!({"spec": {"commit": {"enforceTemplate": true}}})).await;
    run("delete", json!({"paths": ["team-a/nested/disk.json"]}), "My own words").await;
    assert_eq!(subject(), "delete Dashboard Disk (disk)");
}
