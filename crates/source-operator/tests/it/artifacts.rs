use serde_json::json;
use windlass_artifact::{Algorithm, Hasher};

use crate::world::{World, fetch, listed, put};

fn digest(bytes: &[u8]) -> String {
    let mut hasher = Hasher::new(Algorithm::Sha256);
    hasher.update(bytes);
    hasher.finish().to_string()
}

#[tokio::test]
async fn a_repository_becomes_an_artifact_that_is_fetched_and_follows_what_is_pushed() {
    let world = World::new().await;
    let first = world.commit([put("deploy/a.yaml", "a"), put("README.md", "x"), put("b.png", "p")]);
    let process = world.start().await;
    world.create("app", json!({"ref": {"branch": "main"}})).await;
    let artifact = world.ready("app", &first).await;
    assert_eq!(artifact.revision, format!("main@sha1:{first}"));
    let (code, bytes) = fetch(&artifact.url).await;
    assert_eq!((code, digest(&bytes)), (200, artifact.digest.clone()));
    assert_eq!(artifact.size, Some(i64::try_from(bytes.len()).unwrap()));
    assert_eq!(listed(&bytes), [".", "README.md", "deploy", "deploy/a.yaml"]);
    let object = world.objects.get("app").await.unwrap();
    assert_eq!(object.metadata.finalizers.unwrap(), ["finalizers.fluxcd.io"]);

    let second = world.commit([put("deploy/b.yaml", "b")]);
    world.request("app", "1").await;
    let newer = world.ready("app", &second).await;
    assert_ne!(newer.digest, artifact.digest);
    assert_eq!(fetch(&artifact.url).await.0, 200, "the one before stays for a while");
    let object = world.objects.get("app").await.unwrap();
    assert_eq!(object.status.last_handled_reconcile_at.as_deref(), Some("1"));

    world.delete("app").await;
    let until = tokio::time::Instant::now() + std::time::Duration::from_secs(30);
    while world.objects.get_opt("app").await.unwrap().is_some() {
        assert!(tokio::time::Instant::now() < until, "it is not deleted");
        tokio::task::yield_now().await;
    }
    assert_eq!(fetch(&newer.url).await.0, 404);
    process.stop().await;
}

#[tokio::test]
async fn the_checksum_of_flux_s_older_api_is_shown_where_that_is_set() {
    let world = World::new().await;
    let commit = world.commit([put("a", "1")]);
    let more = [("source.leader_election", "false"), ("source.content_config_checksum", "true")];
    let _process = world.start_as("one", &more).await;
    world.create("app", json!({})).await;
    let artifact = world.ready("app", &commit).await;
    let nothing = "sha256:fcbcf165908dd18a9e49f7ff27810176db8e9f63b4352213741664245224f8aa";
    assert_eq!(artifact.metadata.get("contentConfigChecksum").map(String::as_str), Some(nothing));
}

#[tokio::test]
async fn what_decides_the_files_is_heeded_and_the_same_again_makes_nothing() {
    let world = World::new().await;
    let commit = world.commit([put("deploy/a.yaml", "a"), put("src/main.rs", "x"), put("docs/b.md", "b")]);
    let _process = world.start().await;
    world.create("app", json!({"ignore": "/*\n!/deploy"})).await;
    let artifact = world.ready("app", &commit).await;
    assert_eq!(artifact.revision, format!("main@sha1:{commit}"), "the default branch is found out");
    assert_eq!(listed(&fetch(&artifact.url).await.1), [".", "deploy", "deploy/a.yaml"]);

    world.request("app", "1").await;
    let same = world
        .when("it was looked at", "app", |it| it.status.last_handled_reconcile_at.as_deref() == Some("1"))
        .await;
    assert_eq!(same.status.artifact.unwrap(), artifact, "not even its time is another one");

    world.patch("app", json!({"spec": {"ignore": null, "sparseCheckout": ["./docs", "src/"]}})).await;
    let object =
        world.when("it is made again", "app", |it| it.status.observed_sparse_checkout.len() == 2).await;
    let artifact = object.status.artifact.unwrap();
    assert_eq!(listed(&fetch(&artifact.url).await.1), [".", "docs", "docs/b.md", "src", "src/main.rs"]);
    assert_eq!(object.status.observed_ignore, None);
}

#[tokio::test]
async fn references_of_every_form_are_followed() {
    let world = World::new().await;
    let first = world.commit([put("a", "1")]);
    world.git(&["-c", "user.name=a", "-c", "user.email=a@b", "tag", "-a", "-m", "one", "v1.0.0", &first]);
    let second = world.commit([put("a", "2")]);
    world.git(&["tag", "v1.2.0", &second]);
    let third = world.commit([put("a", "3")]);
    world.git(&["tag", "v2.0.0", &third]);
    world.git(&["update-ref", "refs/pull/7/merge", &first]);
    let _process = world.start().await;
    for (name, reference, revision) in [
        ("tag", json!({"tag": "v1.0.0"}), format!("v1.0.0@sha1:{first}")),
        ("range", json!({"semver": "1.x"}), format!("v1.2.0@sha1:{second}")),
        ("name", json!({"name": "refs/pull/7/merge"}), format!("refs/pull/7/merge@sha1:{first}")),
        ("commit", json!({"commit": second}), format!("sha1:{second}")),
        ("both", json!({"commit": second, "branch": "main"}), format!("main@sha1:{second}")),
    ] {
        world.create(name, json!({"ref": reference})).await;
        assert_eq!(world.ready(name, "").await.revision, revision);
    }
    world.git(&["tag", "v1.3.0", &third]);
    world.request("range", "1").await;
    assert_eq!(world.ready("range", &third).await.revision, format!("v1.3.0@sha1:{third}"));
}

#[tokio::test]
async fn an_included_artifact_is_put_in_and_its_changes_come_with_it() {
    let world = World::new().await;
    let first = world.commit([put("base/kustomization.yaml", "a"), put("other", "x")]);
    let _process = world.start().await;
    let include = json!([{"repository": {"name": "base"}, "fromPath": "base", "toPath": "vendor/base"}]);
    world
        .create("app", json!({"include": include, "ignore": "/*\n!/vendor", "ref": {"commit": first}}))
        .await;
    let (object, message) = world.failed("app", "NotFound").await;
    assert!(message.contains("\"base\""), "{message}");
    assert!(object.status.conditions.iter().any(|c| c.type_ == "IncludeUnavailable"));

    world.create("base", json!({})).await;
    let artifact = world.ready("app", &first).await;
    let expected = [".", "vendor", "vendor/base", "vendor/base/kustomization.yaml"];
    assert_eq!(listed(&fetch(&artifact.url).await.1), expected);

    world.commit([put("base/more.yaml", "b")]);
    world.request("base", "1").await;
    let object = world
        .when("the change came", "app", |it| {
            it.status.artifact.as_ref().is_some_and(|new| new.digest != artifact.digest)
        })
        .await;
    let bytes = fetch(&object.status.artifact.unwrap().url).await.1;
    assert!(listed(&bytes).contains(&"vendor/base/more.yaml".to_owned()));

    world.patch("base", json!({"spec": {"include": [{"repository": {"name": "app"}}]}})).await;
    let (_, message) = world.failed("base", "IncludeCycle").await;
    assert!(message.contains("base -> app -> base"), "{message}");
}

#[tokio::test]
async fn links_that_stay_inside_are_kept_where_that_is_set_and_no_others() {
    let world = World::new().await;
    world.commit([put("deploy/a", "1")]);
    let long = format!("../deploy/{}a", "./".repeat(60));
    let script = format!(
        "set -e
         link() {{ printf %s \"$2\" | git hash-object -w --stdin | sed \"s/^/120000 blob /;s/$/\t$1/\"; }}
         sub=$({{ git ls-tree main:deploy; link up ../deploy/a; link long '{long}'; link out ../../etc/passwd; }} | git mktree)
         tree=$({{ echo \"040000 tree $sub\tdeploy\"; link near deploy/a; link far /etc/passwd; link over near/..; }} | git mktree)
         commit=$(git -c user.name=a -c user.email=a@example.org commit-tree $tree -m links)
         git update-ref refs/heads/main $commit; echo $commit"
    );
    let mut command = std::process::Command::new("bash");
    command.args(["-c", &script]).current_dir(world.folder.path().join("app.git"));
    let done =
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
    assert!(done.status.success(), "{done:?}");
    let commit = String::from_utf8(done.stdout).unwrap().trim().to_owned();
    let mut found = Vec::new();
    for (name, keep) in [("without", "false"), ("with", "true")] {
        let more = [("source.leader_election", "false"), ("source.keep_symlinks", keep)];
        let process = world.start_as(name, &more).await;
        world.create(name, json!({})).await;
        let artifact = world.ready(name, &commit).await;
        let file = world.folder.path().join(name);
        std::fs::write(&file, fetch(&artifact.url).await.1).unwrap();
        let listed =
            std::process::Command::new("tar").env("TZ", "UTC").arg("-tvzf").arg(&file).output().unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        let links = listed.lines().filter(|line| line.starts_with('l'));
        let links: Vec<_> = links.map(|line| line.split_once(" 1970").unwrap().1[13..].to_owned()).collect();
        found.push(links);
        process.stop().await;
    }
    let kept = [
        format!("deploy/long -> {long}"),
        "deploy/up -> ../deploy/a".to_owned(),
        "near -> deploy/a".to_owned(),
    ];
    assert_eq!(found, [Vec::new(), kept.to_vec()]);
}
