use std::time::Duration;

use serde_json::{Value, json};
use windlass_cluster::{Admitted, Registry, RegistryLogin, TlsFront};
use windlass_oci::{DockerChain, Retries};

use super::*;
use crate::SourceKind;
use crate::changes::git::tests::Scene as Origin;
use crate::changes::given::{self, Given};

const NAME: &str = "team/manifests";
/// Where commits stand in a payload.
const COMMITS: &str = "commits_since_last_export";

type Annotations = BTreeMap<String, String>;

fn config() -> OciConfig {
    let client = ClientConfig {
        chain: Arc::new(DockerChain::new(Vec::new(), None)),
        retries: Retries { times: 2, first: Duration::from_millis(1), ..Retries::default() },
        ..ClientConfig::default()
    };
    OciConfig {
        client,
        payload: ExporterInfoSource::Auto,
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

async fn ask(finder: &OciChanges, registry: &Registry, to: &str, known: &[&str]) -> Changes {
    finder.find(&question(registry, to, known)).await.unwrap()
}

fn annotations(number: usize) -> Annotations {
    let created = (CREATED.to_owned(), format!("2026-03-04T10:{number:02}:00Z"));
    [created, (REVISION.to_owned(), format!("main@sha1:{number:040}"))].into()
}

/// The payload of the export of this number: one commit, `c<number>`.
fn payload(number: usize) -> Value {
    let time = format!("2026-03-04T09:{number:02}:00Z");
    json!({
        "commit": format!("export-{number}"),
        COMMITS: [{"hash": format!("c{number}"), "summary": "a change", "author": "A", "time": time}],
        "export_build_link": "https://ci.example.org/runs/77",
    })
}

/// Puts an artifact there under this tag; answers its revision.
async fn push(registry: &Registry, tag: &str, layers: &[(&str, &[u8])], annotations: &Annotations) -> String {
    format!("{tag}@{}", registry.push_artifact(NAME, &[tag], layers, annotations).await.unwrap())
}

/// The same with this payload.
async fn export_of(registry: &Registry, tag: &str, payload: &Value, annotations: &Annotations) -> String {
    let layers: &[(&str, &[u8])] = &[
        ("application/vnd.cncf.flux.content.v1.tar+gzip", b"manifests"),
        (EXPORTER_INFO_MEDIA_TYPE, &serde_json::to_vec(payload).unwrap()),
        (EXPORTER_INFO_MEDIA_TYPE, b"the first counts"),
    ];
    push(registry, tag, layers, annotations).await
}

/// The export of this number.
async fn export(registry: &Registry, number: usize) -> String {
    export_of(registry, "latest", &payload(number), &annotations(number)).await
}

fn ids(changes: &Changes) -> Vec<&str> {
    changes.commits.iter().map(|commit| commit.id.as_str()).collect()
}

/// The commits, and what else is found.
fn told(changes: &Changes) -> String {
    let Changes { older, incomplete, unrelated, rewritten, truncated, .. } = *changes;
    let found =
        [(older, "older"), (incomplete, "incomplete"), (unrelated, "unrelated"), (rewritten, "rewritten")];
    let found =
        found.into_iter().chain([(truncated, "truncated")]).filter(|(is, _)| *is).map(|(_, name)| name);
    ids(changes).into_iter().chain(found).collect::<Vec<_>>().join(" ")
}

/// An artifact that the registry does not have any more.
fn gone() -> String {
    format!("latest@sha256:{:064}", 0)
}

#[tokio::test]
async fn a_payload_costs_two_requests_however_many_ask() {
    let Some(registry) = registry().await else { return };
    let (first, second) = (export(&registry, 1).await, export(&registry, 2).await);
    let finder = finder(config());
    let changes = ask(&finder, &registry, &first, &[]).await;
    let commit = Commit::new("c1", "2026-03-04T09:01:00Z".parse().unwrap());
    let expected = Changes {
        commits: vec![Commit { summary: "a change".into(), author: "A".into(), ..commit }],
        exported_as: Some("export-1".into()),
        exported: Some("2026-03-04T10:01:00Z".parse().unwrap()),
        build_link: Some("https://ci.example.org/runs/77".into()),
        ..Changes::default()
    };
    assert_eq!((changes, finder.client.request_count()), (expected, 2));
    // Others know other things, and Flux writes a revision in several ways.
    let bare = first.split('@').nth(1).unwrap();
    for (to, known) in [(first.as_str(), &[][..]), (bare, &[]), (&second, &[first.as_str()]), (&second, &[])]
    {
        ask(&finder, &registry, to, known).await;
    }
    assert_eq!(finder.client.request_count(), 4);
}

#[tokio::test]
async fn what_was_asked_about_and_never_applied_is_counted_without_a_request() {
    let Some(registry) = registry().await else { return };
    let finder = finder(config());
    let mut revisions: Vec<String> = Vec::new();
    for number in 1..=4 {
        let revision = export(&registry, number).await;
        let known: Vec<&str> = revisions.first().map(String::as_str).into_iter().collect();
        ask(&finder, &registry, &revision, &known).await;
        revisions.push(revision);
    }
    assert_eq!(finder.client.request_count(), 8);
    let changes = ask(&finder, &registry, &revisions[3], &[&revisions[0]]).await;
    assert_eq!((ids(&changes), finder.client.request_count()), (vec!["c2", "c3", "c4"], 8));
    // Each has the time of its own export.
    let exported: Vec<_> = changes.commits.iter().map(|commit| commit.exported).collect();
    let at = |text: &str| Some(text.parse().unwrap());
    assert_eq!(exported, [at("2026-03-04T10:02:00Z"), at("2026-03-04T10:03:00Z"), None]);
    let skipped: HashSet<&str> = changes.skipped.iter().map(String::as_str).collect();
    assert_eq!(skipped, revisions[1..3].iter().map(|revision| revision.split(':').nth(1).unwrap()).collect());
    // Whoever knew the third has the fourth alone, and a roll-back says that it is one.
    assert_eq!(told(&ask(&finder, &registry, &revisions[3], &[&revisions[2]]).await), "c4 incomplete");
    assert_eq!(told(&ask(&finder, &registry, &revisions[1], &[&revisions[3]]).await), "c2 older");
}

#[tokio::test]
async fn after_a_restart_what_the_known_artifact_had_is_not_counted_again_and_nothing_else_vanishes() {
    let Some(registry) = registry().await else { return };
    let (first, _, third) =
        (export(&registry, 1).await, export(&registry, 2).await, export(&registry, 3).await);
    let dated = |created: &str| Annotations::from([(CREATED.to_owned(), created.to_owned())]);
    let other =
        async |payload: &Value, annotations| export_of(&registry, "other", payload, &annotations).await;
    let mut overlapping = payload(3);
    let old = payload(1)[COMMITS][0].clone();
    overlapping[COMMITS].as_array_mut().unwrap().insert(0, old);
    let again = other(&payload(1), annotations(2)).await;
    let overlapping = other(&overlapping, annotations(3)).await;
    let reproducible = other(&payload(2), dated("1970-01-01T00:00:00Z")).await;
    let earlier = other(&payload(2), dated("2026-03-04T08:00:00Z")).await;
    let (young, old) = (other(&payload(30), dated("")).await, other(&payload(10), dated("")).await);
    let ids = ["0a", "1b", "2c"].map(|id| json!({"hash": id.repeat(20), "time": "2026-03-04T09:00:00Z"}));
    let of_git = other(&json!({"commit": "a", COMMITS: ids}), annotations(1)).await;
    let git = |id: &str| format!("main@sha1:{}", id.repeat(20));
    let [a, b, c] = ["0a", "1b", "2c"].map(|id| id.repeat(20));
    for (known, to, expected) in [
        // Where nothing tells what was skipped, the answer says so; whoever knows nothing misses nothing.
        (vec![&first], &third, "c3 incomplete"),
        (vec![], &third, "c3"),
        // A roll-back to what nobody saw says that it is older.
        (vec![&third], &first, "c1 older"),
        // A build that was run again, and one whose list overlaps.
        (vec![&first], &again, "incomplete"),
        (vec![&first], &overlapping, "c3 incomplete"),
        // The date of a reproducible build is none.
        (vec![&first], &reproducible, "c2 incomplete"),
        (vec![&first], &earlier, "c2 older"),
        // An old commit that was merged late is no roll-back.
        (vec![&young], &old, "c10 incomplete"),
        (vec![&young, &old], &young, ""),
        // Of another source only what continues it is told as related.
        (vec![&git("1b")], &of_git, &c),
        (vec![&git("4e")], &of_git, &format!("{a} {b} {c} unrelated")),
        (vec![&gone()], &of_git, &format!("{a} {b} {c} incomplete unrelated")),
        // What was known last is gone, as moving tags leave it behind; the repository is the same.
        (vec![&third, &gone()], &of_git, &format!("{a} {b} {c} incomplete")),
    ] {
        let known: Vec<&str> = known.into_iter().map(String::as_str).collect();
        let changes = ask(&finder(config()), &registry, to, &known).await;
        assert_eq!(told(&changes), expected, "{to} over {known:?}");
    }
}

#[tokio::test]
async fn what_is_wrong_with_an_artifact_is_told_apart() {
    let Some(registry) = registry().await else { return };
    let with = async |kind: &str, content: &str| {
        push(&registry, "latest", &[(kind, content.as_bytes())], &Annotations::new()).await
    };
    let exported = async |content: &str| with(EXPORTER_INFO_MEDIA_TYPE, content).await;
    let big = format!("{{\"commit\": \"a\"}}{}", " ".repeat(5 << 20));
    let (auto, required) = (ExporterInfoSource::Auto, ExporterInfoSource::Oci);
    for (revision, payload, problem, says) in [
        (exported("{").await, auto, Problem::Malformed, "line 1 column 1"),
        (exported("{\"commit\":1}").await, auto, Problem::Malformed, "column 11"),
        (exported(&big).await, auto, Problem::TooLarge, "bytes, over 4194304"),
        (with("text/plain", "x").await, required, Problem::PayloadMissing, "no layer of media type"),
        (with("text/plain", "x").await, auto, Problem::Unsupported, "annotate it"),
        (gone(), auto, Problem::NotFound, "read the manifest"),
        ("latest@sha256:123".to_owned(), auto, Problem::Malformed, "names no artifact"),
        (format!("main@sha1:{:040}", 0), auto, Problem::Malformed, "names no artifact"),
    ] {
        let finder = finder(OciConfig { payload, ..config() });
        let error = finder.find(&question(&registry, &revision, &[])).await.unwrap_err();
        assert_eq!(error.problem, problem, "{revision}: {error}");
        assert!(error.to_string().contains(says) && problem.is_permanent(), "{revision}: {error}");
    }
    for (url, problem) in [
        ("https://example.org/a", Problem::Unsupported),
        ("oci://registry.example.org/a", Problem::Unsupported),
        ("oci://127.0.0.1:1/a", Problem::Unavailable),
    ] {
        let elsewhere = ChangesQuery { url: url.into(), ..question(&registry, &gone(), &[]) };
        assert_eq!(finder(config()).find(&elsewhere).await.unwrap_err().problem, problem, "{url}");
    }
}

#[tokio::test]
async fn of_an_index_the_image_that_flux_takes_is_read() {
    let Some(registry) = registry().await else { return };
    let (image, other) = (export(&registry, 1).await, export(&registry, 2).await);
    let index = async |tag: &str, images: &[(&str, &String)]| {
        let listed = images.iter().map(|(architecture, revision)| {
            json!({"mediaType": "application/vnd.oci.image.manifest.v1+json", "size": 1,
                "digest": revision.split('@').nth(1), "platform": {"os": "linux", "architecture": architecture}})
        });
        let kind = "application/vnd.oci.image.index.v1+json";
        let index = json!({"schemaVersion": 2, "mediaType": kind, "manifests": listed.collect::<Vec<_>>()});
        format!("{tag}@{}", registry.push_manifest(NAME, tag, &index).await.unwrap())
    };
    let both = index("both", &[("arm64", &other), ("amd64", &image)]).await;
    let finder = finder(config());
    assert_eq!(ids(&ask(&finder, &registry, &both, &[]).await), ["c1"]);
    assert_eq!(finder.client.request_count(), 3);
    let odd = index("odd", &[("arm64", &other)]).await;
    let error = finder.find(&question(&registry, &odd, &[])).await.unwrap_err();
    assert!(error.problem == Problem::Malformed && error.to_string().contains("linux/amd64"), "{error}");
}

#[tokio::test]
async fn secrets_of_passwords_and_of_certificates_open_a_registry() {
    let Some(registry) = Registry::start(RegistryLogin::Password).await.unwrap() else { return };
    let revision = export(&registry, 1).await;
    let front = TlsFront::start(&registry.address(), Admitted::WithCertificate).await.unwrap();
    let strangers = TlsFront::start(&registry.address(), Admitted::Anyone).await.unwrap();
    let file = |password: &str| {
        json!({"auths": {front.address(): {"username": registry.user(), "password": password}}}).to_string()
    };
    let (ca, (chain, key)) = (("ca.crt", front.authority()), front.client());
    let secrets = Given::default()
        .and("login", &[(PULL_SECRET, &file(registry.password()))])
        .and("wrong", &[(PULL_SECRET, &file("hunter2"))])
        .and("broken", &[(PULL_SECRET, "hunter2")])
        .and("other", &[("token", "hunter2")])
        .and("tls", &[ca, ("tls.crt", chain), ("tls.key", key)])
        .and("untrusted", &[("tls.crt", chain), ("tls.key", key)])
        .and("unknown", &[ca])
        .and("mixed", &[ca, ("tls.crt", chain), ("tls.key", strangers.client().1)])
        .and("unread", &[("ca.crt", "hunter2")]);
    let finder = OciChanges::new(config(), Arc::new(secrets)).unwrap();
    let mut asked = question(&registry, &revision, &[]);
    (asked.url, asked.insecure) = (format!("oci://{}/{NAME}", front.address()), false);
    for (login, tls, problem, says) in [
        ("", "tls", Problem::Unauthorized, "failed to read the manifest"),
        ("missing", "tls", Problem::Unauthorized, "source_secrets"),
        ("wrong", "tls", Problem::Unauthorized, "failed to read the manifest"),
        ("broken", "tls", Problem::Malformed, "failed to use the Secret"),
        ("other", "tls", Problem::Malformed, "has no .dockerconfigjson"),
        ("login", "", Problem::Unavailable, "failed to read the manifest"),
        ("login", "missing", Problem::Unavailable, "source_secrets"),
        ("login", "untrusted", Problem::Unavailable, "failed to read the manifest"),
        ("login", "unknown", Problem::Unavailable, "failed to read the manifest"),
        ("login", "mixed", Problem::Malformed, "do not belong together"),
        ("login", "unread", Problem::Malformed, "has a ca.crt that is of no use"),
    ] {
        [asked.secret, asked.cert_secret] =
            [login, tls].map(|name| Some(name.to_owned()).filter(|name| !name.is_empty()));
        let error = finder.find(&asked).await.unwrap_err();
        assert_eq!(error.problem, problem, "{login} {tls}: {error}");
        assert!(error.to_string().contains(says), "{login} {tls}: {error}");
        let all = format!("{error:?}");
        assert!(!all.contains("hunter2") && !all.contains("PRIVATE"), "{all}");
    }
    [asked.secret, asked.cert_secret] = ["login", "tls"].map(|name| Some(name.to_owned()));
    assert_eq!(ids(&finder.find(&asked).await.unwrap()), ["c1"]);
}

impl Origin {
    /// What is said of an artifact that was built from this commit.
    fn annotations(&self, number: usize) -> Annotations {
        let created = "2026-03-04T10:00:00Z".to_owned();
        let revision = format!("main@sha1:{}", self.commits[number]);
        [(SOURCE, self.url()), (REVISION, revision), (CREATED, created)]
            .map(|(key, value)| (key.to_owned(), value))
            .into()
    }

    fn git(&self) -> Arc<dyn FindChanges> {
        Arc::new(self.finder(Arc::new(Given::default())))
    }
}

#[tokio::test]
async fn without_a_payload_the_repository_that_annotations_name_is_walked() {
    let Some(registry) = registry().await else { return };
    let origin = Origin::new(|backend| backend).await;
    let layers: &[(&str, &[u8])] = &[("a/b", b"x")];
    let revision = push(&registry, "latest", layers, &origin.annotations(3)).await;
    let mut asked = question(&registry, &revision, &[&gone()]);
    asked.known[0].origin = Some(origin.annotations(1)[REVISION].as_str().into());
    let auto = finder(config()).with_git(origin.git());
    let changes = auto.find(&asked).await.unwrap();
    assert_eq!(
        (ids(&changes), auto.client.request_count()),
        (vec![&*origin.commits[2], &origin.commits[3]], 1)
    );
    assert_eq!(changes.exported, Some("2026-03-04T10:00:00Z".parse().unwrap()));
    assert_eq!(changes.exported_as.as_ref(), Some(&origin.commits[3]));

    // Flux told the annotations, and no payload is wanted: the registry is not asked.
    asked.metadata = origin.annotations(3);
    let never = finder(OciConfig { payload: ExporterInfoSource::None, ..config() }).with_git(origin.git());
    assert_eq!((never.find(&asked).await.unwrap(), never.client.request_count()), (changes, 0));

    // Where no repository can be walked, the annotations are one commit.
    let elsewhere = [Some(format!("{}/gone.git", origin.url())), Some("https://127.0.0.1:1/a".into()), None];
    for source in elsewhere {
        let mut annotations = origin.annotations(3);
        annotations.remove(SOURCE);
        annotations.extend(source.map(|source| (SOURCE.to_owned(), source)));
        let revision = push(&registry, "latest", layers, &annotations).await;
        let changes = ask(&auto, &registry, &revision, &[]).await;
        assert_eq!(ids(&changes), [&origin.commits[3]], "{annotations:?}");
        assert_eq!(changes.commits[0].merged, "2026-03-04T10:00:00Z".parse().unwrap());
    }
}

#[tokio::test]
async fn where_nothing_was_seen_git_says_which_commits_were_skipped() {
    let Some(registry) = registry().await else { return };
    let origin = Origin::new(|backend| backend).await;
    let export = async |number: usize, id: &str| {
        let mut payload = payload(number);
        payload[COMMITS] = json!([{"hash": id, "time": "2026-03-04T09:00:00Z"}]);
        export_of(&registry, "latest", &payload, &origin.annotations(number)).await
    };
    let first = export(1, &origin.commits[1]).await;
    export(2, &origin.commits[2]).await;
    // Exporters write ids short, too.
    let short = &origin.commits[3][..10];
    let third = export(3, short).await;
    let other = "0123456789abcdef";
    let elsewhere = export(3, other).await;
    let (both, alone) = (vec![origin.commits[2].as_str(), short], vec![short]);
    let (gone, from) = (gone(), Some(origin.annotations(1)[REVISION].clone()));
    for (to, known, known_origin, with_git, told, is_incomplete) in [
        (&third, &first, None, true, &both, false),
        (&third, &first, from.clone(), true, &both, false),
        (&third, &first, None, false, &alone, true),
        // The registry does not have any more what Flux applied before: where it came from, Flux says.
        (&third, &gone, from, true, &both, false),
        (&third, &gone, None, true, &alone, true),
        // The payload is about another repository than the artifact: that one's history says nothing of it.
        (&elsewhere, &first, None, true, &vec![other], true),
    ] {
        let mut finder = finder(config());
        if with_git {
            finder = finder.with_git(origin.git());
        }
        let mut asked = question(&registry, to, &[known]);
        asked.known[0].origin = known_origin.map(Into::into);
        let changes = finder.find(&asked).await.unwrap();
        let found: HashSet<&str> = ids(&changes).into_iter().collect();
        assert_eq!((found, changes.incomplete), (told.iter().copied().collect(), is_incomplete), "{asked:?}");
    }
}
