use std::time::Duration;

use serde_json::{Value, json};
use windlass_cluster::{Admitted, Registry, RegistryLogin, TlsFront};
use windlass_oci::{DockerChain, Retries};

use super::*;
use crate::SourceKind;
use crate::changes::git::tests::Scene as Origin;
use crate::given::{self, at, gone, secrets, told};

const NAME: &str = "team/manifests";
/// Where commits stand in a payload.
const COMMITS: &str = "commits_since_last_export";

type Annotations = BTreeMap<String, String>;

fn finder(payload: ExporterInfoSource, secrets: Arc<dyn Secrets>) -> OciChanges {
    let client = ClientConfig {
        chain: Arc::new(DockerChain::new(Vec::new(), None)),
        retries: Retries { times: 2, first: Duration::from_millis(1), ..Retries::default() },
        ..ClientConfig::default()
    };
    let media_type = EXPORTER_INFO_MEDIA_TYPE.to_owned();
    let config = OciConfig { client, payload, media_type, max_payload_bytes: 4 << 20, max_commits: 10_000 };
    OciChanges::new(config, secrets).unwrap()
}

fn auto() -> OciChanges {
    finder(ExporterInfoSource::Auto, secrets(&[]))
}

fn annotations(number: usize) -> Annotations {
    let created = (CREATED.to_owned(), at(&format!("10:{number:02}:00")).to_string());
    [created, (REVISION.to_owned(), format!("main@sha1:{number:040}"))].into()
}

/// The payload of the export of this number: one commit, `c<number>`.
fn payload(number: usize) -> Value {
    let time = at(&format!("09:{number:02}:00"));
    json!({
        "commit": format!("export-{number}"),
        COMMITS: [{"hash": format!("c{number}"), "summary": "a change", "author": "A", "time": time}],
        "export_build_link": "https://ci.example.org/runs/77",
    })
}

/// A registry, and what finds commits in it.
struct Scene {
    registry: Registry,
    finder: OciChanges,
}

impl Scene {
    async fn new() -> Option<Self> {
        let registry = Registry::start(RegistryLogin::Nobody).await.unwrap()?;
        Some(Self { registry, finder: auto() })
    }

    fn question(&self, to: &str, known: &[&str]) -> ChangesQuery {
        let url = self.registry.url(NAME);
        ChangesQuery { insecure: true, ..given::question(SourceKind::OciRepository, &url, to, known) }
    }

    async fn ask(&self, to: &str, known: &[&str]) -> Changes {
        self.finder.find(&self.question(to, known)).await.unwrap()
    }

    fn requests(&self) -> u64 {
        self.finder.client.request_count()
    }

    /// Puts an artifact there; answers its revision.
    async fn push(&self, layers: &[(&str, &[u8])], annotations: &Annotations) -> String {
        let pushed = self.registry.push_artifact(NAME, &["latest"], layers, annotations).await;
        format!("latest@{}", pushed.unwrap())
    }

    async fn export_of(&self, payload: &Value, annotations: &Annotations) -> String {
        let layers: &[(&str, &[u8])] = &[
            ("application/vnd.cncf.flux.content.v1.tar+gzip", b"manifests"),
            (EXPORTER_INFO_MEDIA_TYPE, &serde_json::to_vec(payload).unwrap()),
            (EXPORTER_INFO_MEDIA_TYPE, b"the first counts"),
        ];
        self.push(layers, annotations).await
    }

    async fn export(&self, number: usize) -> String {
        self.export_of(&payload(number), &annotations(number)).await
    }
}

#[tokio::test]
async fn a_payload_costs_two_requests_however_many_ask() {
    let Some(scene) = Scene::new().await else { return };
    let (first, second) = (scene.export(1).await, scene.export(2).await);
    let changes = scene.ask(&first, &[]).await;
    let (summary, author) = ("a change".into(), "A".into());
    let expected = Changes {
        commits: vec![Commit { summary, author, ..Commit::new("c1", at("09:01:00")) }],
        exported_as: Some("export-1".into()),
        exported: Some(at("10:01:00")),
        build_link: Some("https://ci.example.org/runs/77".into()),
        ..Changes::default()
    };
    assert_eq!((changes, scene.requests()), (expected, 2));
    // Others know other things, and Flux writes a revision in several ways.
    let bare = first.split('@').nth(1).unwrap();
    for (to, known) in [(&*first, &[][..]), (bare, &[]), (&second, &[&*first]), (&second, &[])] {
        scene.ask(to, known).await;
    }
    assert_eq!(scene.requests(), 4);
}

#[tokio::test]
async fn what_was_asked_about_and_never_applied_is_counted_without_a_request() {
    let Some(scene) = Scene::new().await else { return };
    let mut revisions: Vec<String> = Vec::new();
    for number in 1..=4 {
        let revision = scene.export(number).await;
        scene.ask(&revision, &Vec::from_iter(revisions.first().map(String::as_str))).await;
        revisions.push(revision);
    }
    let [first, second, third, fourth] = &*revisions else { panic!("{revisions:?}") };
    let changes = scene.ask(fourth, &[first]).await;
    assert_eq!((&*told(&changes), scene.requests()), ("c2 c3 c4 incomplete", 8));
    // Each has the time of its own export.
    let exported: Vec<_> = changes.commits.iter().map(|commit| commit.exported).collect();
    assert_eq!(exported, [Some(at("10:02:00")), Some(at("10:03:00")), None]);
    let skipped: HashSet<&str> = changes.skipped.iter().map(String::as_str).collect();
    assert_eq!(skipped, [second, third].map(|revision| revision.split(':').nth(1).unwrap()).into());
    // Whoever knew the third has the fourth alone, and a roll-back says that it is one.
    assert_eq!(told(&scene.ask(fourth, &[third]).await), "c4 incomplete");
    assert_eq!(told(&scene.ask(second, &[fourth]).await), "c2 older");
}

#[tokio::test]
async fn after_a_restart_what_the_known_artifact_had_is_not_counted_again_and_nothing_else_vanishes() {
    let Some(mut scene) = Scene::new().await else { return };
    let dated = |created: &str| Annotations::from([(CREATED.to_owned(), created.to_owned())]);
    let (first, third) = (scene.export(1).await, scene.export(3).await);
    let mut overlapping = payload(3);
    overlapping[COMMITS].as_array_mut().unwrap().insert(0, payload(1)[COMMITS][0].clone());
    let again = scene.export_of(&payload(1), &annotations(2)).await;
    let overlapping = scene.export_of(&overlapping, &annotations(3)).await;
    let reproducible = scene.export_of(&payload(2), &dated("1970-01-01T00:00:00Z")).await;
    let earlier = scene.export_of(&payload(2), &dated("2026-03-04T08:00:00Z")).await;
    let young = scene.export_of(&payload(30), &dated("")).await;
    let old = scene.export_of(&payload(10), &dated("")).await;
    let [a, b, c] = &["0a", "1b", "2c"].map(|id| id.repeat(20));
    let commits = [a, b, c].map(|id| json!({"hash": id, "time": at("09:00:00")}));
    let of_git = scene.export_of(&json!({"commit": "a", COMMITS: commits}), &annotations(1)).await;
    let git = |id: &str| format!("main@sha1:{}", id.repeat(20));
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
        (vec![&git("1b")], &of_git, c),
        (vec![&git("4e")], &of_git, &format!("{a} {b} {c} unrelated")),
        (vec![&gone()], &of_git, &format!("{a} {b} {c} incomplete unrelated")),
        // What was known last is gone, as moving tags leave it behind; the repository is the same.
        (vec![&third, &gone()], &of_git, &format!("{a} {b} {c} incomplete")),
    ] {
        let known: Vec<&str> = known.into_iter().map(String::as_str).collect();
        scene.finder = auto();
        assert_eq!(told(&scene.ask(to, &known).await), expected, "{to} over {known:?}");
    }
}

#[tokio::test]
async fn what_is_wrong_with_an_artifact_is_told_apart() {
    let Some(mut scene) = Scene::new().await else { return };
    let big = format!("{{\"commit\": \"a\"}}{}", " ".repeat(5 << 20));
    let export = EXPORTER_INFO_MEDIA_TYPE;
    let (auto, required) = (ExporterInfoSource::Auto, ExporterInfoSource::Oci);
    for (kind, content, source, problem, says) in [
        (export, "{", auto, Problem::Malformed, "line 1 column 1"),
        (export, "{\"commit\":1}", auto, Problem::Malformed, "column 11"),
        (export, &big, auto, Problem::TooLarge, "bytes, over 4194304"),
        ("text/plain", "x", required, Problem::PayloadMissing, "no layer of media type"),
        ("text/plain", "x", auto, Problem::Unsupported, "annotate it"),
        ("", &gone(), auto, Problem::NotFound, "read the manifest"),
        ("", "latest@sha256:123", auto, Problem::Malformed, "names no artifact"),
        ("", &format!("main@sha1:{:040}", 0), auto, Problem::Malformed, "names no artifact"),
    ] {
        let revision = match kind {
            "" => content.to_owned(),
            _ => scene.push(&[(kind, content.as_bytes())], &Annotations::new()).await,
        };
        scene.finder = finder(source, secrets(&[]));
        let error = scene.finder.find(&scene.question(&revision, &[])).await.unwrap_err();
        assert_eq!(error.problem, problem, "{revision}: {error}");
        assert!(error.to_string().contains(says) && problem.is_permanent(), "{revision}: {error}");
    }
    for (url, problem) in [
        ("https://example.org/a", Problem::Unsupported),
        ("oci://registry.example.org/a", Problem::Unsupported),
        ("oci://127.0.0.1:1/a", Problem::Unavailable),
    ] {
        let elsewhere = ChangesQuery { url: url.into(), ..scene.question(&gone(), &[]) };
        assert_eq!(scene.finder.find(&elsewhere).await.unwrap_err().problem, problem, "{url}");
    }
}

#[tokio::test]
async fn of_an_index_the_image_that_flux_takes_is_read() {
    let Some(scene) = Scene::new().await else { return };
    let (image, other) = (scene.export(1).await, scene.export(2).await);
    let index = async |images: &[(&str, &String)]| {
        let listed = images.iter().map(|(architecture, revision)| {
            json!({"mediaType": "application/vnd.oci.image.manifest.v1+json", "size": 1,
                "digest": revision.split('@').nth(1), "platform": {"os": "linux", "architecture": architecture}})
        });
        let kind = "application/vnd.oci.image.index.v1+json";
        let index = json!({"schemaVersion": 2, "mediaType": kind, "manifests": listed.collect::<Vec<_>>()});
        format!("index@{}", scene.registry.push_manifest(NAME, "index", &index).await.unwrap())
    };
    let both = index(&[("arm64", &other), ("amd64", &image)]).await;
    assert_eq!((&*told(&scene.ask(&both, &[]).await), scene.requests()), ("c1", 3));
    let odd = index(&[("arm64", &other)]).await;
    let error = scene.finder.find(&scene.question(&odd, &[])).await.unwrap_err();
    assert!(error.problem == Problem::Malformed && error.to_string().contains("linux/amd64"), "{error}");
}

#[tokio::test]
async fn secrets_of_passwords_and_of_certificates_open_a_registry() {
    let Some(registry) = Registry::start(RegistryLogin::Password).await.unwrap() else { return };
    let mut scene = Scene { registry, finder: auto() };
    let revision = scene.push(&[("a/b", b"x")], &annotations(1)).await;
    let registry = &scene.registry;
    let front = TlsFront::start(&registry.address(), Admitted::WithCertificate).await.unwrap();
    let strangers = TlsFront::start(&registry.address(), Admitted::Anyone).await.unwrap();
    let file = |password: &str| {
        json!({"auths": {front.address(): {"username": registry.user(), "password": password}}}).to_string()
    };
    let (ca, (chain, key)) = (("ca.crt", front.authority()), front.client());
    let secrets = secrets(&[
        ("login", &[(PULL_SECRET, &file(registry.password()))]),
        ("wrong", &[(PULL_SECRET, &file("hunter2"))]),
        ("broken", &[(PULL_SECRET, "hunter2")]),
        ("other", &[("token", "hunter2")]),
        ("tls", &[ca, ("tls.crt", chain), ("tls.key", key)]),
        ("untrusted", &[("tls.crt", chain), ("tls.key", key)]),
        ("unknown", &[ca]),
        ("mixed", &[ca, ("tls.crt", chain), ("tls.key", strangers.client().1)]),
        ("unread", &[("ca.crt", "hunter2")]),
    ]);
    scene.finder = finder(ExporterInfoSource::Auto, secrets);
    let mut asked = scene.question(&revision, &[]);
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
        let error = scene.finder.find(&asked).await.unwrap_err();
        let all = format!("{error:?}");
        assert!(error.problem == problem && error.to_string().contains(says), "{login} {tls}: {error}");
        assert!(!all.contains("hunter2") && !all.contains("PRIVATE"), "{all}");
    }
    [asked.secret, asked.cert_secret] = ["login", "tls"].map(|name| Some(name.to_owned()));
    assert_eq!(told(&scene.finder.find(&asked).await.unwrap()), format!("{:040}", 1));
}

impl Origin {
    /// What is said of an artifact that was built from this commit.
    fn annotations(&self, number: usize) -> Annotations {
        let revision = format!("main@sha1:{}", self.commits[number]);
        [(SOURCE, self.url()), (REVISION, revision), (CREATED, at("10:00:00").to_string())]
            .map(|(key, value)| (key.to_owned(), value))
            .into()
    }

    fn git(&self) -> Arc<dyn FindChanges> {
        Arc::new(self.finder(secrets(&[])))
    }
}

#[tokio::test]
async fn without_a_payload_the_repository_that_annotations_name_is_walked() {
    let Some(mut scene) = Scene::new().await else { return };
    let origin = Origin::new(|backend| backend).await;
    let [first, second] = [&origin.commits[2], &origin.commits[3]];
    let layers: &[(&str, &[u8])] = &[("a/b", b"x")];
    let revision = scene.push(layers, &origin.annotations(3)).await;
    let mut asked = scene.question(&revision, &[&gone()]);
    asked.known[0].origin = Some(origin.annotations(1)[REVISION].as_str().into());
    scene.finder = auto().with_git(origin.git());
    let changes = scene.finder.find(&asked).await.unwrap();
    assert_eq!((told(&changes), scene.requests()), (format!("{first} {second}"), 1));
    assert_eq!((changes.exported, changes.exported_as.as_ref()), (Some(at("10:00:00")), Some(second)));

    // Flux told the annotations, and no payload is wanted: the registry is not asked.
    asked.metadata = origin.annotations(3);
    let never = finder(ExporterInfoSource::None, secrets(&[])).with_git(origin.git());
    assert_eq!((never.find(&asked).await.unwrap(), never.client.request_count()), (changes, 0));

    // Where no repository can be walked, the annotations are one commit.
    let elsewhere = [Some(format!("{}/gone.git", origin.url())), Some("https://127.0.0.1:1/a".into()), None];
    for source in elsewhere {
        let mut annotations = origin.annotations(3);
        annotations.remove(SOURCE);
        annotations.extend(source.map(|source| (SOURCE.to_owned(), source)));
        let changes = scene.ask(&scene.push(layers, &annotations).await, &[]).await;
        assert_eq!(changes.commits, [Commit::new(second, at("10:00:00"))], "{annotations:?}");
    }
}

#[tokio::test]
async fn where_nothing_was_seen_git_says_which_commits_were_skipped() {
    let Some(mut scene) = Scene::new().await else { return };
    let origin = Origin::new(|backend| backend).await;
    let export = async |number: usize, id: &str| {
        let payload = json!({"commit": "a", COMMITS: [{"hash": id, "time": at("09:00:00")}]});
        scene.export_of(&payload, &origin.annotations(number)).await
    };
    // Exporters write ids short, too.
    let (short, other) = (&origin.commits[3][..10], "0123456789abcdef");
    let first = export(1, &origin.commits[1]).await;
    let (third, elsewhere) = (export(3, short).await, export(3, other).await);
    let both = [&*origin.commits[2], short];
    let (gone, from) = (gone(), Some(origin.annotations(1)[REVISION].clone()));
    for (to, known, known_origin, with_git, told, is_incomplete) in [
        (&third, &first, &None, true, &both[..], false),
        (&third, &first, &from, true, &both, false),
        (&third, &first, &None, false, &both[1..], true),
        // The registry does not have any more what Flux applied before: where it came from, Flux says.
        (&third, &gone, &from, true, &both, false),
        (&third, &gone, &None, true, &both[1..], true),
        // The payload is about another repository than the artifact: that one's history says nothing of it.
        (&elsewhere, &first, &None, true, &[other], true),
    ] {
        scene.finder = if with_git { auto().with_git(origin.git()) } else { auto() };
        let mut asked = scene.question(to, &[known]);
        asked.known[0].origin = known_origin.as_deref().map(Into::into);
        let changes = scene.finder.find(&asked).await.unwrap();
        let found: HashSet<&str> = changes.commits.iter().map(|commit| &*commit.id).collect();
        assert_eq!((found, changes.incomplete), (told.iter().copied().collect(), is_incomplete), "{asked:?}");
    }
}
