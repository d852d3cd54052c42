//! Mutated deliveries, as many as fit into a given time: whatever comes, nothing panics, nothing is accepted that is not
//! signed, and the API is not written to, or asked for anything but the secret, before the signature holds.
//!
//! It takes seconds as a rule and an hour in the nightly form; `WINDLASS_FUZZ_SECONDS` says otherwise. Each case is drawn
//! from a number of its own, which a failure names: with it as `WINDLASS_SEED` the case is the first one.

mod mutate;

use std::io::Write as _;
use std::time::{Duration, Instant};

use aws_lc_rs::hmac;
use axum::body::Body;
use http::{HeaderMap, HeaderValue, Request};
use secrecy::SecretString;
use serde_json::{Value, json};
use windlass_api::Job;
use windlass_repository::webhook::Announced;

use self::mutate::Draw;
use crate::kit::World;

/// Repositories, each with the secret of its webhook: what one's signs is nothing to the other.
const TARGETS: [(&str, &str); 2] = [("hub", "the hub's s3cret"), ("plain", "the plain one's s3cret")];
/// Cases after which a new world is made, since queued jobs stay.
const CASES_OF_A_WORLD: u64 = 5_000;
/// How often it is said how far it got.
const TOLD_EVERY: Duration = Duration::from_mins(5);
/// How long it may take to come by a case of each kind.
const LONGEST: Duration = Duration::from_mins(1);

/// A payload of a provider: the header that names the event, the event, and the header of the proof.
struct Example {
    event: (&'static str, String),
    proof: &'static str,
    payload: Value,
}

/// A delivery, and what is known of it.
struct Case {
    target: usize,
    headers: Vec<(&'static str, Vec<u8>)>,
    body: Vec<u8>,
    /// Everything but the payload is as the provider makes it.
    intact: bool,
}

/// Names the case when the test fails.
struct Numbered(u64);

impl Drop for Numbered {
    fn drop(&mut self) {
        if std::thread::panicking() {
            say(&format!("the case that failed: WINDLASS_SEED={}", self.0));
        }
    }
}

/// What came of the cases.
#[derive(Debug, Default)]
struct Tally {
    cases: u64,
    unproven: u64,
    wrong: u64,
    signed: u64,
    unreadable: u64,
    queued: u64,
}

impl Tally {
    /// Whether there was a case of each kind.
    fn has_each(&self) -> bool {
        let Self { unproven, wrong, signed, unreadable, queued, .. } = self;
        [unproven, wrong, signed, unreadable, queued].iter().all(|count| **count > 0)
    }
}

/// Says so even where a test's output is kept, as `eprintln!`'s is.
fn say(line: &str) {
    let line = format!("webhook fuzzing: {line}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

fn time() -> Duration {
    let set = std::env::var("WINDLASS_FUZZ_SECONDS").ok().map(|seconds| seconds.parse().unwrap());
    let is_long = std::env::var_os("WINDLASS_LONG_TESTS").is_some();
    Duration::from_secs(set.unwrap_or(if is_long { 3_600 } else { 3 }))
}

/// The number of the first case: the same one each time, but another each night.
fn first() -> u64 {
    match std::env::var("WINDLASS_SEED") {
        Ok(seed) => seed.parse().unwrap(),
        Err(_unset) if time() > Duration::from_mins(1) => {
            std::time::UNIX_EPOCH.elapsed().unwrap().as_secs() << 32
        }
        Err(_unset) => 0x5eed_0000,
    }
}

/// Examples of events that are acted on, and of others.
fn examples() -> [Vec<Example>; 2] {
    let commit = "0d1a26e67d8f5eaf1f6ba5c57fc3c7d91ac0fd1c";
    let github = crate::webhook_examples::published();
    let (mut all, mut others) = (Vec::new(), Vec::new());
    for (event, payloads) in &github {
        for payload in payloads {
            let into = if ["ping", "pull_request", "push"].contains(&event.as_str()) {
                &mut all
            } else {
                &mut others
            };
            let mut add = |name, proof| {
                into.push(Example { event: (name, event.clone()), proof, payload: payload.clone() });
            };
            add("x-github-event", "x-hub-signature-256");
            if event == "push" {
                add("x-gitea-event", "x-gitea-signature");
                add("x-forgejo-event", "x-forgejo-signature");
            }
        }
    }
    let gitlab = json!({"object_kind": "push", "ref": "refs/heads/master", "after": commit, "before": "0".repeat(40),
        "commits": [{"id": commit, "added": ["a.json"], "modified": [], "removed": []}],
        "project": {"id": 15, "path_with_namespace": "Codertocat/Hello-World", "default_branch": "master"}});
    let cloud = json!({"push": {"changes": [
            {"old": {"type": "branch", "name": "gone"}, "new": null},
            {"new": {"type": "branch", "name": "master", "target": {"hash": commit}}}]},
        "repository": {"full_name": "Codertocat/Hello-World", "mainbranch": {"name": "master"}}});
    let server = json!({"changes": [{"refId": "refs/heads/master", "toHash": commit, "type": "UPDATE"}],
        "repository": {"slug": "Hello-World", "project": {"key": "Codertocat"}}});
    for (name, event, proof, payload) in [
        ("x-gitlab-event", "Push Hook", "x-gitlab-token", gitlab),
        ("x-event-key", "repo:push", "x-hub-signature", cloud),
        ("x-event-key", "repo:refs_changed", "x-hub-signature", server),
    ] {
        all.push(Example { event: (name, event.to_owned()), proof, payload });
    }
    [all, others]
}

fn signature(body: &[u8], secret: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    hex::encode(hmac::sign(&key, body).as_ref())
}

/// What somebody who knows the secret sends as the proof.
fn proof(header: &str, body: &[u8], secret: &str) -> String {
    match header {
        "x-gitlab-token" => secret.to_owned(),
        "x-hub-signature-256" | "x-hub-signature" => format!("sha256={}", signature(body, secret)),
        _ => signature(body, secret),
    }
}

impl Case {
    fn draw(draw: &mut Draw, [acted_on, others]: &[Vec<Example>; 2]) -> Self {
        let examples = if draw.one_in(5) { others } else { acted_on };
        let example = &examples[draw.below(examples.len())];
        let mut payload = example.payload.clone();
        for _ in 0..draw.below(4) {
            mutate::document(draw, &mut payload);
        }
        let mut body = payload.to_string().into_bytes();
        if draw.one_in(4) {
            mutate::bytes(draw, &mut body);
        }
        let form = draw.one_in(4);
        if form {
            body = mutate::form(draw, &body);
        }
        let target = draw.below(TARGETS.len());
        let media: &[u8] =
            if form { b"application/x-www-form-urlencoded; charset=utf-8" } else { b"application/json" };
        let good = proof(example.proof, &body, TARGETS[target].1);
        let mut case = Self {
            target,
            headers: vec![
                (example.event.0, example.event.1.clone().into_bytes()),
                (example.proof, good.into_bytes()),
                ("content-type", media.to_vec()),
                ("x-github-delivery", b"72d3162e-cc78-11e3-81ab-4c9367dc0958".to_vec()),
            ],
            body,
            intact: true,
        };
        if draw.one_in(2) {
            case.intact = false;
            case.spoil(draw, example);
        }
        case
    }

    /// Makes something about it that is not as the provider makes it.
    fn spoil(&mut self, draw: &mut Draw, example: &Example) {
        let (_, own) = TARGETS[self.target];
        let (_, others) = TARGETS[1 - self.target];
        let text = match draw.below(14) {
            0 => proof(example.proof, &self.body, others),
            1 => proof(example.proof, b"", own),
            2 => proof(example.proof, &self.body, ""),
            3 => proof(example.proof, &self.body, own).to_uppercase(),
            4 => proof(draw.of(&["x-gitlab-token", "x-hub-signature", "x-gitea-signature"]), &self.body, own),
            5 => String::new(),
            6 => format!("sha1={}", &signature(&self.body, own)[..40]),
            7 => {
                mutate::bytes(draw, &mut self.body);
                return;
            }
            8 => {
                let again = self.headers[draw.below(2)].clone();
                self.headers.push(again);
                return;
            }
            9 => {
                self.headers.remove(draw.below(2));
                return;
            }
            10 => {
                let names = ["x-gitlab-event", "x-gitea-event", "x-event-key", "x-github-event", "x-other"];
                self.headers[0].0 = draw.of(&names);
                return;
            }
            11 => {
                let names = ["x-gitlab-token", "x-gitea-signature", "x-hub-signature", "x-hub-signature-256"];
                self.headers[1].0 = draw.of(&names);
                return;
            }
            12 => {
                let at = draw.below(self.headers.len());
                mutate::bytes(draw, &mut self.headers[at].1);
                return;
            }
            _ => {
                mutate::bytes(draw, &mut self.headers[1].1);
                return;
            }
        };
        self.headers[1].1 = text.into_bytes();
    }

    /// Its headers, without those that HTTP does not know.
    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            if let Ok(value) = HeaderValue::from_bytes(value) {
                headers.append(*name, value);
            }
        }
        headers
    }

    /// Whether some provider's proof is in the headers, whole, once, and right. Worked out without the receiver's code.
    fn is_proven(&self, headers: &HeaderMap) -> bool {
        let secret = TARGETS[self.target].1;
        let only = |name: &str| match &headers.get_all(name).iter().collect::<Vec<_>>()[..] {
            [value] => value.to_str().ok().map(str::to_ascii_lowercase),
            _ => None,
        };
        let signed = signature(&self.body, secret);
        let prefixed = Some(format!("sha256={signed}"));
        let token = headers.get_all("x-gitlab-token").iter().collect::<Vec<_>>();
        (only("x-github-event").is_some() && only("x-hub-signature-256") == prefixed)
            || (only("x-event-key").is_some() && only("x-hub-signature") == prefixed)
            || ((only("x-gitea-event").is_some() || only("x-forgejo-event").is_some())
                && [only("x-gitea-signature"), only("x-forgejo-signature")].contains(&Some(signed)))
            || (only("x-gitlab-event").is_some() && matches!(token[..], [token] if token == secret))
    }
}

/// A world with both repositories. In every other one a pull is under way, so that a push is written down.
async fn world(busy: bool) -> World {
    let world = World::new();
    let sync = json!({"enabled": true, "target": "folder"});
    for ((name, secret), (kind, url)) in
        TARGETS.into_iter().zip([("github", "https://github.com"), ("git", "https://git.example.com")])
    {
        let url = format!("{url}/Codertocat/Hello-World");
        let document = json!({
            "spec": {"type": kind, "sync": sync, kind: {"url": url, "branch": "master"}},
            "secure": {"token": {"create": "t"}, "webhookSecret": {"create": secret}},
        });
        world.create_repository(name, document).await;
        world.patch_status(name, json!({"status": {"health": {"healthy": true, "checked": 1}}})).await;
        if busy {
            let job = world.queue(windlass_api::JobSpec::pull(name, true)).await;
            let claimed = json!({"metadata": {"labels": {"provisioning.grafana.app/claim": "1"}}});
            let patch = kube::api::Patch::Merge(&claimed);
            let name = job.metadata.name.unwrap();
            world.api::<Job>().patch(&name, &kube::api::PatchParams::default(), &patch).await.unwrap();
        }
    }
    world
}

/// Sends one case and holds what happened against what may happen.
async fn check(world: &World, case: &Case, tally: &mut Tally) {
    let (name, secret) = TARGETS[case.target];
    let headers = case.headers();
    let secret = SecretString::from(secret.to_owned());
    let announced = Announced::of(&headers);
    // Parsed whether signed or not: no body may make a parser panic.
    let event = announced.as_ref().map(|announced| announced.event(&case.body));
    let signed = announced.as_ref().is_some_and(|announced| announced.is_signed_with(&case.body, &secret));
    assert!(!signed || case.is_proven(&headers), "accepted without a proof: {headers:?}");
    assert!(signed || !case.intact, "refused although it is signed: {headers:?}");

    let path =
        format!("/apis/provisioning.grafana.app/v0alpha1/namespaces/default/repositories/{name}/webhook");
    let mut request = Request::post(path).body(Body::from(case.body.clone())).unwrap();
    *request.headers_mut() = headers;
    world.requests.clear();
    let response = tower::ServiceExt::oneshot(world.router.clone(), request).await.unwrap();
    let code = response.status().as_u16();
    let (asked, writes) = (world.requests.all(), world.requests.writes());
    tally.cases += 1;
    if announced.is_none() {
        tally.unproven += 1;
        assert_eq!((code, asked.len()), (401, 0), "asked of the API without a proof: {asked:?}");
    } else if !signed {
        tally.wrong += 1;
        assert!(matches!(code, 400 | 401), "{code} for a wrong signature");
        assert!(writes.is_empty(), "written for a wrong signature: {writes:?}");
        let own = format!("/repositories/{name}");
        let few = |path: &str| {
            path.ends_with(&own) || (code == 401 && path.contains("/namespaces/default/secrets/"))
        };
        assert!(asked.iter().all(|request| few(&request.path)), "asked for a wrong signature: {asked:?}");
    } else {
        tally.signed += 1;
        // 422: it asks for a job that the API does not take, such as of a ref with control characters.
        assert!(matches!(code, 200 | 202 | 400 | 422 | 501), "{code} for what is signed");
        if matches!(event, Some(Err(_))) {
            tally.unreadable += 1;
            assert_eq!((code, writes.len()), (400, 0), "written for what cannot be read: {writes:?}");
        }
        tally.queued += u64::from(code == 202);
    }
}

#[tokio::test(start_paused = true)]
async fn no_mutated_delivery_panics_or_is_accepted_or_asks_the_api_before_its_signature_holds() {
    let (began, time, first, examples) = (Instant::now(), time(), first(), examples());
    let mut tally = Tally::default();
    let (mut there, mut told) = (world(false).await, began);
    // A busy machine takes longer to come by one of each.
    while began.elapsed() < time || (!tally.has_each() && began.elapsed() < LONGEST) {
        let number = first.wrapping_add(tally.cases);
        let _named = Numbered(number);
        if tally.cases % CASES_OF_A_WORLD == CASES_OF_A_WORLD - 1 {
            there = world((tally.cases / CASES_OF_A_WORLD).is_multiple_of(2)).await;
        }
        check(&there, &Case::draw(&mut Draw::new(number), &examples), &mut tally).await;
        // On the test's clock: no limit of deliveries a second is met.
        tokio::time::sleep(Duration::from_secs(1)).await;
        if told.elapsed() > TOLD_EVERY {
            told = Instant::now();
            say(&format!("{tally:?} after {:.0?}", began.elapsed()));
        }
    }
    say(&format!(
        "{} cases in {:.0?}, from number {first}, no finding: {tally:?}",
        tally.cases,
        began.elapsed()
    ));
    assert!(tally.has_each(), "{tally:?}");
}
