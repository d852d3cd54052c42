use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;
use windlass_cluster::{Admitted, Registry, RegistryLogin, TlsFront};
use windlass_git::{Git, GitConfig, UrlPolicy};
use windlass_git_server::seed::{self, Edit};
use windlass_git_server::{HttpBackend, Running};
use windlass_oci::{DockerChain, Retries};

use super::*;
use crate::SourceKind;
use crate::changes::GitChanges;
use crate::changes::given::{self, Given};

const NAME: &str = "team/manifests";

fn config() -> OciConfig {
    let client = ClientConfig {
        chain: Arc::new(DockerChain::new(Vec::new(), None)),
        retries: Retries { times: 2, first: Duration::from_millis(1), ..Retries::default() },
        ..ClientConfig::default()
    };
    OciConfig {
        client,
        payload: PayloadWanted::IfThere,
        media_type: EXPORTER_INFO_MEDIA_TYPE.to_owned(),
        max_payload_bytes: 4 << 20,
        max_commits: 10_000,
    }
}

fn finder(config: OciConfig) -> OciChanges {
    OciChanges::new(config, Arc::new(Given::default())).unwrap()
}

async fn registry() -> Option<Registry> {
    Registry::start(RegistryLogin::Nobody).await.unwrap()
}

fn question(registry: &Registry, to: &str, known: &[&str]) -> ChangesQuery {
    let url = registry.url(NAME);
    ChangesQuery { insecure: true, ..given::question(SourceKind::OciRepository, &url, to, known) }
}

fn annotations(number: usize) -> BTreeMap<String, String> {
    BTreeMap::from([
        (CREATED.to_owned(), format!("2026-03-04T10:{number:02}:00Z")),
        (REVISION.to_owned(), format!("main@sha1:{number:040}")),
    ])
}

/// The payload of the export of this number: one commit, `c<number>`.
fn payload(number: usize) -> serde_json::Value {
    json!({
        "commit": format!("export-{number}"),
        "commits_since_last_export": [
            {"hash": format!("c{number}"), "summary": "a change", "author": "A", "time": format!("2026-03-04T09:{number:02}:00Z")}],
        "export_build_link": "https://ci.example.org/runs/77",
    })
}

/// Puts the export of this number there under these tags; answers its revision of the first.
async fn export(registry: &Registry, number: usize, tags: &[&str]) -> String {
    export_of(registry, &payload(number), &annotations(number), tags).await
}

async fn export_of(
    registry: &Registry,
    payload: &serde_json::Value,
    annotations: &BTreeMap<String, String>,
    tags: &[&str],
) -> String {
    let layers: &[(&str, &[u8])] = &[
        ("application/vnd.cncf.flux.content.v1.tar+gzip", b"manifests"),
        (EXPORTER_INFO_MEDIA_TYPE, &serde_json::to_vec(payload).unwrap()),
        (EXPORTER_INFO_MEDIA_TYPE, b"the first counts"),
    ];
    let digest = registry.push_artifact(NAME, tags, layers, annotations).await.unwrap();
    format!("{}@{digest}", tags[0])
}

fn ids(changes: &Changes) -> Vec<&str> {
    changes.commits.iter().map(|commit| commit.id.as_str()).collect()
}

#[tokio::test]
async fn a_payload_costs_two_requests_however_many_ask() {
    let Some(registry) = registry().await else { return };
    let first = export(&registry, 1, &["latest"]).await;
    let second = export(&registry, 2, &["latest"]).await;
    let finder = finder(config());

    let changes = finder.find(&question(&registry, &first, &[])).await.unwrap();
    assert_eq!(finder.request_count(), 2);
    let expected = Changes {
        commits: vec![Commit {
            id: "c1".into(),
            merged: "2026-03-04T09:01:00Z".parse().unwrap(),
            summary: "a change".into(),
            author: "A".into(),
            exported: None,
            traceparent: None,
        }],
        exported_as: Some("export-1".into()),
        exported: Some("2026-03-04T10:01:00Z".parse().unwrap()),
        build_link: Some("https://ci.example.org/runs/77".into()),
        ..Changes::default()
    };
    assert_eq!(changes, expected);
    // Others know other things, and Flux writes a revision in several ways.
    let bare = first.split('@').nth(1).unwrap();
    for (to, known) in [(first.as_str(), &[][..]), (bare, &[]), (&second, &[first.as_str()]), (&second, &[])]
    {
        finder.find(&question(&registry, to, known)).await.unwrap();
    }
    assert_eq!(finder.request_count(), 4);
}

#[tokio::test]
async fn what_was_asked_about_and_never_applied_is_counted_without_a_request() {
    let Some(registry) = registry().await else { return };
    let mut revisions = Vec::new();
    for number in 1..=4 {
        revisions.push(export(&registry, number, &["latest"]).await);
    }
    let finder = finder(config());
    for (number, revision) in revisions.iter().enumerate() {
        let known: Vec<&str> = revisions[..number.min(1)].iter().map(String::as_str).collect();
        finder.find(&question(&registry, revision, &known)).await.unwrap();
    }
    assert_eq!(finder.request_count(), 8);
    let changes = finder.find(&question(&registry, &revisions[3], &[&revisions[0]])).await.unwrap();
    assert_eq!(ids(&changes), ["c2", "c3", "c4"]);
    // Each has the time of its own export.
    let exported: Vec<_> = changes.commits.iter().map(|commit| commit.exported).collect();
    let at = |text: &str| Some(text.parse().unwrap());
    assert_eq!(exported, [at("2026-03-04T10:02:00Z"), at("2026-03-04T10:03:00Z"), None]);
    assert_eq!(finder.request_count(), 8);
    let hex = |revision: &str| revision.split(':').nth(1).unwrap().to_owned();
    let mut skipped = changes.skipped.clone();
    skipped.sort_unstable();
    let mut both = [hex(&revisions[1]), hex(&revisions[2])];
    both.sort_unstable();
    assert_eq!(skipped, both);
    // Whoever knew the third has the fourth alone, and a roll-back says that it is one.
    let changes = finder.find(&question(&registry, &revisions[3], &[&revisions[2]])).await.unwrap();
    assert_eq!(ids(&changes), ["c4"]);
    let back = finder.find(&question(&registry, &revisions[1], &[&revisions[3]])).await.unwrap();
    assert_eq!((ids(&back), back.older, back.rewritten), (vec!["c2"], true, false));
}

#[tokio::test]
async fn where_nothing_tells_what_was_skipped_the_answer_says_so() {
    let Some(registry) = registry().await else { return };
    let first = export(&registry, 1, &["latest"]).await;
    export(&registry, 2, &["latest"]).await;
    let third = export(&registry, 3, &["latest"]).await;
    let finder = finder(config());
    let changes = finder.find(&question(&registry, &third, &[&first])).await.unwrap();
    assert_eq!((ids(&changes), changes.incomplete), (vec!["c3"], true));
    // Whoever knows nothing misses nothing.
    assert!(!finder.find(&question(&registry, &third, &[])).await.unwrap().incomplete);
    // A roll-back to what nobody saw says that it is older.
    let third_known = self::finder(config());
    let back = third_known.find(&question(&registry, &first, &[&third])).await.unwrap();
    assert_eq!((ids(&back), back.older, back.incomplete), (vec!["c1"], true, false));
    assert_eq!(third_known.request_count(), 4);
}

#[tokio::test]
async fn after_a_restart_what_the_known_artifact_had_is_not_counted_again_and_nothing_else_vanishes() {
    let Some(registry) = registry().await else { return };
    let first = export(&registry, 1, &["1.0.1"]).await;
    let mut overlapping = payload(3);
    let old = payload(1)["commits_since_last_export"][0].clone();
    overlapping["commits_since_last_export"].as_array_mut().unwrap().insert(0, old);
    let dated = |created: &str| BTreeMap::from([(CREATED.to_owned(), created.to_owned())]);
    for (payload, annotations, commits, older) in [
        // A build that was run again, and one whose list overlaps.
        (payload(1), annotations(2), &[][..], false),
        (overlapping, annotations(3), &["c3"], false),
        // The date of a reproducible build is none.
        (payload(2), dated("1970-01-01T00:00:00Z"), &["c2"], false),
        (payload(2), dated("2026-03-04T08:00:00Z"), &["c2"], true),
    ] {
        let second = export_of(&registry, &payload, &annotations, &["1.0.2"]).await;
        let changes = finder(config()).find(&question(&registry, &second, &[&first])).await.unwrap();
        assert_eq!((ids(&changes).as_slice(), changes.older), (commits, older), "{annotations:?}");
    }
}

#[tokio::test]
async fn an_old_commit_that_was_merged_late_is_no_roll_back() {
    let Some(registry) = registry().await else { return };
    let undated = async |number: usize, tag: &str| {
        export_of(&registry, &payload(number), &BTreeMap::new(), &[tag]).await
    };
    let (first, second) = (undated(30, "1.0.1").await, undated(10, "1.0.2").await);
    let seen = finder(config());
    seen.find(&question(&registry, &first, &[])).await.unwrap();
    for finder in [seen, finder(config())] {
        let changes = finder.find(&question(&registry, &second, &[&first])).await.unwrap();
        assert_eq!(ids(&changes), ["c10"]);
        let back = finder.find(&question(&registry, &first, &[&first, &second])).await.unwrap();
        assert_eq!(ids(&back), [""; 0]);
    }
}

#[tokio::test]
async fn of_another_source_only_what_continues_it_is_told_as_related() {
    let Some(registry) = registry().await else { return };
    let mut list = payload(1);
    let commit = |id: String| json!({"hash": id, "time": "2026-03-04T09:00:00Z"});
    list["commits_since_last_export"] =
        json!([commit("0a".repeat(20)), commit("1b".repeat(20)), commit("2c".repeat(20))]);
    let artifact = export_of(&registry, &list, &annotations(1), &["latest"]).await;
    let older = export_of(&registry, &payload(0), &annotations(0), &["older"]).await;
    let git = |id: &str| format!("main@sha1:{}", id.repeat(20));
    let gone = format!("latest@sha256:{}", "0".repeat(64));
    for (known, commits, unrelated) in [
        (vec![git("1b")], 1, false),
        (vec![git("4e")], 3, true),
        (vec![gone.clone()], 3, true),
        // What was known last is gone, as moving tags leave it behind; the repository is the same.
        (vec![older, gone], 3, false),
        (vec![], 3, false),
    ] {
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let changes = finder(config()).find(&question(&registry, &artifact, &known)).await.unwrap();
        assert_eq!((changes.commits.len(), changes.unrelated), (commits, unrelated), "{known:?}");
    }
}

#[tokio::test]
async fn what_is_wrong_with_an_artifact_is_told_apart() {
    let Some(registry) = registry().await else { return };
    let wrong = |payload: &'static str| payload.as_bytes();
    let push = async |content: &[u8], kind: &str| {
        let layers: &[(&str, &[u8])] = &[(kind, content)];
        let digest = registry.push_artifact(NAME, &["latest"], layers, &BTreeMap::new()).await.unwrap();
        format!("latest@{digest}")
    };
    let mut big = String::from("{\"commit\": \"a\"}");
    write!(big, "{}", " ".repeat(5 << 20)).unwrap();
    let required = || OciConfig { payload: PayloadWanted::Required, ..config() };
    for (revision, config, problem, says) in [
        (push(wrong("{"), EXPORTER_INFO_MEDIA_TYPE).await, config(), Problem::Malformed, "line 1 column 1"),
        (
            push(wrong("{\"commit\":1}"), EXPORTER_INFO_MEDIA_TYPE).await,
            config(),
            Problem::Malformed,
            "column 11",
        ),
        (
            push(big.as_bytes(), EXPORTER_INFO_MEDIA_TYPE).await,
            config(),
            Problem::TooLarge,
            "bytes, over 4194304",
        ),
        (push(b"x", "text/plain").await, required(), Problem::PayloadMissing, "no layer of media type"),
        (push(b"x", "text/plain").await, config(), Problem::Unsupported, "annotate it"),
        (format!("latest@sha256:{}", "0".repeat(64)), config(), Problem::NotFound, "read the manifest"),
        ("latest@sha256:123".to_owned(), config(), Problem::Malformed, "names no artifact"),
        ("latest".to_owned(), config(), Problem::Malformed, "names no artifact"),
        (format!("main@sha1:{}", "0".repeat(40)), config(), Problem::Malformed, "names no artifact"),
    ] {
        let error = finder(config).find(&question(&registry, &revision, &[])).await.unwrap_err();
        assert_eq!(error.problem, problem, "{revision}: {error}");
        assert!(error.to_string().contains(says), "{revision}: {error}");
        assert!(error.problem.is_permanent());
    }
    let mut elsewhere = question(&registry, &format!("a@sha256:{}", "0".repeat(64)), &[]);
    for (url, problem) in [
        ("https://example.org/a", Problem::Unsupported),
        ("oci://registry.example.org/a", Problem::Unsupported),
        ("oci://127.0.0.1:1/a", Problem::Unavailable),
    ] {
        elsewhere.url = url.into();
        assert_eq!(finder(config()).find(&elsewhere).await.unwrap_err().problem, problem, "{url}");
    }
}

#[tokio::test]
async fn of_an_index_the_image_that_flux_takes_is_read() {
    let Some(registry) = registry().await else { return };
    let image = export(&registry, 1, &["amd64"]).await;
    let other = export(&registry, 2, &["arm64"]).await;
    let index = |platforms: &[(&str, &str)]| {
        let manifests: Vec<_> = platforms
            .iter()
            .map(|(revision, architecture)| {
                json!({"mediaType": "application/vnd.oci.image.manifest.v1+json", "size": 1,
                    "digest": revision.split('@').nth(1), "platform": {"os": "linux", "architecture": architecture}})
            })
            .collect();
        json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": manifests})
    };
    let both = registry.push_manifest(NAME, "both", &index(&[(&other, "arm64"), (&image, "amd64")])).await;
    let finder = finder(config());
    let changes = finder.find(&question(&registry, &format!("both@{}", both.unwrap()), &[])).await.unwrap();
    assert_eq!(ids(&changes), ["c1"]);
    assert_eq!(finder.request_count(), 3);
    let odd = registry.push_manifest(NAME, "odd", &index(&[(&other, "arm64")])).await;
    let error = finder.find(&question(&registry, &format!("odd@{}", odd.unwrap()), &[])).await.unwrap_err();
    assert_eq!(error.problem, Problem::Malformed);
    assert!(error.to_string().contains("linux/amd64"), "{error}");
}

#[tokio::test]
async fn a_pull_secret_opens_a_registry() {
    let Some(registry) = Registry::start(RegistryLogin::Password).await.unwrap() else { return };
    let revision = export(&registry, 1, &["latest"]).await;
    let file = |password: &str| {
        let auths =
            json!({"auths": {registry.address(): {"username": registry.user(), "password": password}}});
        auths.to_string()
    };
    let secrets = Given::default()
        .and("right", &[(PULL_SECRET, &file(registry.password()))])
        .and("wrong", &[(PULL_SECRET, &file("hunter2"))])
        .and("broken", &[(PULL_SECRET, "hunter2")])
        .and("other", &[("token", "hunter2")]);
    let finder = OciChanges::new(config(), Arc::new(secrets)).unwrap();
    let mut asked = question(&registry, &revision, &[]);
    for (secret, problem, says) in [
        (None, Problem::Unauthorized, "failed to read the manifest"),
        (Some("missing"), Problem::Unauthorized, "source_secrets"),
        (Some("wrong"), Problem::Unauthorized, "failed to read the manifest"),
        (Some("broken"), Problem::Malformed, "failed to use the Secret"),
        (Some("other"), Problem::Malformed, "has no .dockerconfigjson"),
    ] {
        asked.secret = secret.map(str::to_owned);
        let error = finder.find(&asked).await.unwrap_err();
        assert_eq!(error.problem, problem, "{secret:?}: {error}");
        assert!(error.to_string().contains(says), "{secret:?}: {error}");
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    }
    asked.secret = Some("right".into());
    assert_eq!(ids(&finder.find(&asked).await.unwrap()), ["c1"]);
}

#[tokio::test]
async fn a_secret_of_certificates_opens_a_registry() {
    let Some(registry) = registry().await else { return };
    let revision = export(&registry, 1, &["latest"]).await;
    let front = TlsFront::start(&registry.address(), Admitted::WithCertificate).await.unwrap();
    let (chain, key) = front.client();
    let (ca, chain) = (("ca.crt", front.authority()), ("tls.crt", chain));
    let strangers = TlsFront::start(&registry.address(), Admitted::Anyone).await.unwrap();
    let secrets = Given::default()
        .and("right", &[ca, chain, ("tls.key", key)])
        .and("untrusted", &[chain, ("tls.key", key)])
        .and("unknown", &[ca])
        .and("half", &[ca, chain])
        .and("mixed", &[ca, chain, ("tls.key", strangers.client().1)])
        .and("broken", &[("ca.crt", "hunter2")]);
    let finder = OciChanges::new(config(), Arc::new(secrets)).unwrap();
    let mut asked = question(&registry, &revision, &[]);
    (asked.url, asked.insecure) = (format!("oci://{}/{NAME}", front.address()), false);
    for (secret, problem, says) in [
        (None, Problem::Unavailable, "failed to read the manifest"),
        (Some("missing"), Problem::Unavailable, "source_secrets"),
        (Some("untrusted"), Problem::Unavailable, "failed to read the manifest"),
        (Some("unknown"), Problem::Unavailable, "failed to read the manifest"),
        (Some("half"), Problem::Malformed, "has tls.crt and no tls.key"),
        (Some("mixed"), Problem::Malformed, "do not belong together"),
        (Some("broken"), Problem::Malformed, "has a ca.crt that is of no use"),
    ] {
        asked.cert_secret = secret.map(str::to_owned);
        let error = finder.find(&asked).await.unwrap_err();
        assert_eq!(error.problem, problem, "{secret:?}: {error}");
        assert!(error.to_string().contains(says), "{secret:?}: {error}");
        let all = format!("{error:?}");
        assert!(!all.contains("hunter2") && !all.contains("PRIVATE"), "{all}");
    }
    asked.cert_secret = Some("right".into());
    assert_eq!(ids(&finder.find(&asked).await.unwrap()), ["c1"]);
}

/// A real Git server with commits, from which artifacts were built.
struct Origin {
    folder: TempDir,
    server: Running,
    commits: Vec<String>,
}

impl Origin {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = HttpBackend::new(folder.path()).start().await.unwrap();
        let commit = |number: usize| {
            let edit = Edit::put("a", number.to_string());
            let message = format!("change {number}");
            seed::commit(&folder.path().join("fleet.git"), "main", [edit], &message).unwrap()
        };
        let commits = (0..4).map(commit).collect();
        Self { folder, server, commits }
    }

    fn url(&self) -> String {
        format!("{}/fleet.git", self.server.origin())
    }

    fn git(&self) -> Arc<GitChanges> {
        windlass_git::init_process().unwrap();
        let mut config = GitConfig::new(self.folder.path().join("cache"));
        config.policy = UrlPolicy::default().allow_origin(&self.server.origin()).unwrap();
        Arc::new(GitChanges::new(Git::new(config).unwrap(), Arc::new(Given::default()), 1_000))
    }

    fn revision(&self, number: usize) -> String {
        format!("main@sha1:{}", self.commits[number])
    }

    fn annotations(&self, number: usize) -> BTreeMap<String, String> {
        BTreeMap::from([
            (SOURCE.to_owned(), self.url()),
            (REVISION.to_owned(), self.revision(number)),
            (CREATED.to_owned(), "2026-03-04T10:00:00Z".to_owned()),
        ])
    }
}

#[tokio::test]
async fn without_a_payload_the_repository_that_annotations_name_is_walked() {
    let Some(registry) = registry().await else { return };
    let origin = Origin::new().await;
    let digest =
        registry.push_artifact(NAME, &["latest"], &[("a/b", b"x")], &origin.annotations(3)).await.unwrap();
    let mut asked =
        question(&registry, &format!("latest@{digest}"), &[&format!("latest@sha256:{}", "0".repeat(64))]);
    asked.known[0].origin = Some(origin.revision(1).into());
    let finder = finder(config()).with_git(origin.git());
    let changes = finder.find(&asked).await.unwrap();
    assert_eq!(ids(&changes), [&origin.commits[2], &origin.commits[3]]);
    assert_eq!(changes.commits[1].summary, "change 3");
    assert_eq!(changes.exported, Some("2026-03-04T10:00:00Z".parse().unwrap()));
    assert_eq!(changes.exported_as.as_ref(), Some(&origin.commits[3]));
    assert_eq!(finder.request_count(), 1);

    // Flux told the annotations, and no payload is wanted: the registry is not asked.
    asked.metadata = origin.annotations(3);
    let finder =
        OciChanges::new(OciConfig { payload: PayloadWanted::Never, ..config() }, Arc::new(Given::default()))
            .unwrap();
    let finder = finder.with_git(origin.git());
    assert_eq!(finder.find(&asked).await.unwrap(), changes);
    assert_eq!(finder.request_count(), 0);
}

#[tokio::test]
async fn where_nothing_was_seen_git_says_which_commits_were_skipped() {
    let Some(registry) = registry().await else { return };
    let origin = Origin::new().await;
    let push = async |number: usize, id: &str| {
        let mut payload = payload(number);
        payload["commits_since_last_export"][0]["hash"] = json!(id);
        payload["commits_since_last_export"][0]["time"] = json!("2026-03-04T09:00:00Z");
        export_of(&registry, &payload, &origin.annotations(number), &["latest"]).await
    };
    let first = push(1, &origin.commits[1]).await;
    push(2, &origin.commits[2]).await;
    // Exporters write ids short, too.
    let short = &origin.commits[3][..10];
    let third = push(3, short).await;
    let elsewhere = push(3, "0123456789abcdef").await;
    let gone = format!("latest@sha256:{}", "0".repeat(64));
    let told = async |to: &str, known: &str, known_origin: Option<String>, with_git: bool| {
        let mut finder = finder(config());
        if with_git {
            finder = finder.with_git(origin.git());
        }
        let mut asked = question(&registry, to, &[known]);
        asked.known[0].origin = known_origin.map(Into::into);
        let changes = finder.find(&asked).await.unwrap();
        let mut found: Vec<String> = ids(&changes).into_iter().map(str::to_owned).collect();
        found.sort();
        (found, changes.incomplete)
    };
    let mut all = vec![origin.commits[2].clone(), short.to_owned()];
    all.sort();
    let alone = vec![short.to_owned()];
    assert_eq!(told(&third, &first, None, true).await, (all.clone(), false));
    assert_eq!(told(&third, &first, Some(origin.revision(1)), true).await, (all.clone(), false));
    assert_eq!(told(&third, &first, None, false).await, (alone.clone(), true));
    // The registry does not have any more what Flux applied before: where it came from, Flux says.
    assert_eq!(told(&third, &gone, Some(origin.revision(1)), true).await, (all, false));
    assert_eq!(told(&third, &gone, None, true).await, (alone, true));
    // The payload is about another repository than the artifact: that one's history says nothing of it.
    let other = vec!["0123456789abcdef".to_owned()];
    assert_eq!(told(&elsewhere, &first, None, true).await, (other, true));
}

#[tokio::test]
async fn where_no_repository_can_be_walked_the_annotations_are_one_commit() {
    let Some(registry) = registry().await else { return };
    let origin = Origin::new().await;
    let git = origin.git();
    let mut gone = origin.annotations(3);
    gone.insert(SOURCE.into(), format!("{}/gone.git", origin.server.origin()));
    let mut elsewhere = origin.annotations(3);
    elsewhere.insert(SOURCE.into(), "https://127.0.0.1:1/a.git".into());
    let mut missing = origin.annotations(3);
    missing.remove(SOURCE);
    for annotations in [gone, elsewhere, missing] {
        let digest = registry.push_artifact(NAME, &["latest"], &[("a/b", b"x")], &annotations).await.unwrap();
        let finder = finder(config()).with_git(Arc::<GitChanges>::clone(&git));
        let changes = finder.find(&question(&registry, &format!("latest@{digest}"), &[])).await.unwrap();
        assert_eq!(ids(&changes), [&origin.commits[3]], "{annotations:?}");
        assert_eq!(changes.commits[0].merged, "2026-03-04T10:00:00Z".parse().unwrap());
    }
}
