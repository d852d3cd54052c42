use aws_lc_rs::hmac;
use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use serde_json::json;

use super::*;

const SECRET: &str = "s3cret";

fn secret(text: &str) -> SecretString {
    SecretString::from(text.to_owned())
}

fn signature(body: &[u8], secret: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    hex::encode(hmac::sign(&key, body).as_ref())
}

fn headers(list: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in list {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.append(name, HeaderValue::from_str(value).unwrap());
    }
    headers
}

fn github(event: &str, body: &[u8]) -> Announced {
    let signature = format!("sha256={}", signature(body, SECRET));
    let list = [
        ("x-github-event", event),
        ("x-hub-signature-256", &signature),
        ("x-github-delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958"),
        ("content-type", "application/json"),
    ];
    Announced::of(&headers(&list)).unwrap()
}

fn push_body(reference: &str, after: &str) -> Vec<u8> {
    let repository = json!({"id": 35_129_377, "full_name": "baxterthehacker/public-repo", "default_branch": "main",
        "url": "http://169.254.169.254/"});
    json!({"ref": reference, "before": "9049f1265b7d61be4a8904a9a27120d2064dab3b", "after": after, "forced": true,
        "deleted": false, "commits": [], "repository": repository})
    .to_string()
    .into_bytes()
}

const COMMIT: &str = "0d1a26e67d8f5eaf1f6ba5c57fc3c7d91ac0fd1c";

fn pushed(event: &Event) -> &Push {
    match event {
        Event::Push(push) => push,
        other => panic!("no push: {other:?}"),
    }
}

#[test]
fn githubs_own_example_of_a_signature_holds() {
    // https://docs.github.com/webhooks/using-webhooks/validating-webhook-deliveries
    let signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    let list = [("x-github-event", "push"), ("x-hub-signature-256", signature)];
    let announced = Announced::of(&headers(&list)).unwrap();
    assert!(announced.is_signed_with(b"Hello, World!", &secret("It's a Secret to Everybody")));
    assert!(!announced.is_signed_with(b"Hello, World", &secret("It's a Secret to Everybody")));
}

#[test]
fn a_signature_holds_for_its_bytes_and_its_secret_alone() {
    let body = br#"{"a": 1}"#;
    let announced = github("push", body);
    assert!(announced.is_signed_with(body, &secret(SECRET)));
    assert!(!announced.is_signed_with(br#"{"a":1}"#, &secret(SECRET)), "the same JSON in other bytes");
    assert!(!announced.is_signed_with(body, &secret("another tenant's")));
    assert!(!announced.is_signed_with(body, &secret("")));
}

#[test]
fn nothing_is_signed_with_an_empty_secret() {
    let signature = format!("sha256={}", signature(b"{}", ""));
    let list = [("x-github-event", "push"), ("x-hub-signature-256", &*signature)];
    assert!(!Announced::of(&headers(&list)).unwrap().is_signed_with(b"{}", &secret("")));
}

#[test]
fn no_other_proof_is_accepted() {
    let good = format!("sha256={}", signature(b"{}", SECRET));
    let event = ("x-github-event", "push");
    for list in [
        vec![event],
        vec![event, ("x-hub-signature", "sha1=e9b8a9f5a5e1a3b1f3f0bd9cbb1e1f2d3c4b5a69")],
        vec![event, ("x-hub-signature-256", "")],
        vec![event, ("x-hub-signature-256", &good["sha256=".len()..])],
        vec![event, ("x-hub-signature-256", &good[..good.len() - 2])],
        vec![event, ("x-hub-signature-256", "sha1=e9b8a9f5a5e1a3b1f3f0bd9cbb1e1f2d3c4b5a69")],
        vec![event, ("x-hub-signature-256", &good), ("x-hub-signature-256", &good)],
        vec![event, event, ("x-hub-signature-256", &good)],
        vec![("x-hub-signature-256", &good)],
        vec![("x-gitlab-event", "Push Hook")],
        vec![("x-gitlab-event", "Push Hook"), ("x-gitlab-token", "")],
        vec![("x-gitea-event", "push"), ("x-hub-signature", &good)],
        vec![
            ("x-event-key", "repo:push"),
            ("x-hub-signature", "sha1=e9b8a9f5a5e1a3b1f3f0bd9cbb1e1f2d3c4b5a69"),
        ],
    ] {
        assert!(Announced::of(&headers(&list)).is_none(), "{list:?}");
    }
}

#[test]
fn a_signature_with_sha1_is_read_where_somebody_asks_for_it_and_there_is_no_better_one() {
    // GitHub's example of SHA-256 has none of SHA-1: `printf 'Hello, World!' | openssl dgst -sha1 -hmac "It's a Secret to Everybody"`.
    let signature = "sha1=01dc10d0c83e72ed246219cdd91669667fe2ca59";
    let event = ("x-github-event", "push");
    let list = [event, ("x-hub-signature", signature)];
    assert!(Announced::of(&headers(&list)).is_none());
    let announced = Announced::with_sha1(&headers(&list)).unwrap();
    assert!(announced.is_signed_with(b"Hello, World!", &secret("It's a Secret to Everybody")));
    assert!(!announced.is_signed_with(b"Hello, World", &secret("It's a Secret to Everybody")));
    assert!(!announced.is_signed_with(b"Hello, World!", &secret("")));
    let better = [event, ("x-hub-signature", signature), ("x-hub-signature-256", "sha256=00")];
    assert!(Announced::with_sha1(&headers(&better)).is_none());
    let other = [("x-event-key", "repo:push"), ("x-hub-signature", signature)];
    assert!(Announced::with_sha1(&headers(&other)).is_none());
}

#[test]
fn a_number_of_a_delivery_that_is_none_is_dropped() {
    let good = format!("sha256={}", signature(b"{}", SECRET));
    for (shown, kept) in [("72d3162e-cc78", Some("72d3162e-cc78")), ("a b", None), ("a;b", None), ("", None)]
    {
        let list =
            [("x-github-event", "push"), ("x-hub-signature-256", &*good), ("x-github-delivery", shown)];
        assert_eq!(Announced::of(&headers(&list)).unwrap().delivery(), kept);
    }
}

#[test]
fn a_push_to_github_names_its_branch_and_commit() {
    let body = push_body("refs/heads/feature/x", COMMIT);
    let event = github("push", &body).event(&body).unwrap();
    let push = pushed(&event);
    assert_eq!(push.branch("feature/x").unwrap().commit, COMMIT);
    assert!(push.branch("main").is_none() && push.branch("").is_none());
    assert!(push.repository.is_at("https://github.com/BaxterTheHacker/public-repo.git", None));
    assert!(!push.repository.is_at("https://github.com/other/public-repo", None));
    assert!(!push.repository.is_at("https://github.com/evil-baxterthehacker/public-repo", None));
    assert!(push.repository.is_at("https://github.com/old/name", Some(35_129_377)), "it was renamed");
    assert!(
        !push.repository.is_at("https://github.com/baxterthehacker/public-repo", Some(1)),
        "another of its name"
    );
}

#[test]
fn tags_and_deleted_branches_move_nothing() {
    for (reference, after) in [
        ("refs/tags/v1", COMMIT),
        ("refs/heads/main", &*"0".repeat(40)),
        ("refs/heads/", COMMIT),
        ("main", COMMIT),
    ] {
        let body = push_body(reference, after);
        assert!(
            pushed(&github("push", &body).event(&body).unwrap()).branches.is_empty(),
            "{reference} {after}"
        );
    }
}

#[test]
fn a_form_is_read_as_json_is() {
    let payload = String::from_utf8(push_body("refs/heads/main", COMMIT)).unwrap();
    let encoded = |fields: &[(&str, &str)]| {
        url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish().into_bytes()
    };
    let announce = |body: &[u8]| {
        let signature = format!("sha256={}", signature(body, SECRET));
        let media = "application/x-www-form-urlencoded; charset=utf-8";
        let list =
            [("x-github-event", "push"), ("x-hub-signature-256", &*signature), ("content-type", media)];
        Announced::of(&headers(&list)).unwrap()
    };
    let body = encoded(&[("payload", &payload)]);
    let event = announce(&body).event(&body).unwrap();
    assert_eq!(pushed(&event).branch("").unwrap().name, "main");
    for body in [
        encoded(&[("other", &payload)]),
        encoded(&[("payload", &payload), ("payload", &payload)]),
        payload.into_bytes(),
    ] {
        assert!(announce(&body).event(&body).is_err());
    }
}

#[test]
fn a_pull_request_says_what_is_to_be_merged_into_what() {
    let repository = json!({"id": 1, "full_name": "o/r"});
    let pull = json!({"html_url": "https://github.com/o/r/pull/7", "base": {"ref": "main", "sha": COMMIT},
        "head": {"ref": "topic", "sha": COMMIT}});
    let body =
        json!({"action": "opened", "number": 7, "pull_request": pull, "repository": repository}).to_string();
    let event = github("pull_request", body.as_bytes()).event(body.as_bytes()).unwrap();
    let Event::PullRequest(pull) = event else { panic!("{event:?}") };
    assert_eq!((pull.number, &*pull.action, &*pull.base, &*pull.head), (7, "opened", "main", "topic"));
    assert_eq!((&*pull.commit, &*pull.url), (COMMIT, "https://github.com/o/r/pull/7"));
}

#[test]
fn the_other_providers_say_the_same_in_their_own_words() {
    let gitlab = json!({"object_kind": "push", "ref": "refs/heads/main", "after": COMMIT,
        "project": {"id": 15, "path_with_namespace": "group/sub/name", "default_branch": "main"}});
    let gitea = json!({"ref": "refs/heads/main", "after": COMMIT, "repository": {"id": 140, "full_name": "group/sub/name"}});
    let cloud = json!({"push": {"changes": [
            {"old": {"type": "branch", "name": "gone"}, "new": null},
            {"new": {"type": "tag", "name": "main", "target": {"hash": COMMIT}}},
            {"new": {"type": "branch", "name": "main", "target": {"hash": COMMIT}}}]},
        "repository": {"full_name": "group/sub/name"}});
    let server = json!({"changes": [{"refId": "refs/heads/main", "toHash": COMMIT, "type": "UPDATE"}],
        "repository": {"slug": "name", "project": {"key": "sub"}}});
    for (event, signs, document, provider) in [
        (("x-gitlab-event", "Push Hook"), ("x-gitlab-token", false), gitlab, Provider::Gitlab),
        (("x-gitea-event", "push"), ("x-gitea-signature", false), gitea.clone(), Provider::Gitea),
        (("x-forgejo-event", "push"), ("x-forgejo-signature", false), gitea, Provider::Gitea),
        (("x-event-key", "repo:push"), ("x-hub-signature", true), cloud, Provider::Bitbucket),
        (("x-event-key", "repo:refs_changed"), ("x-hub-signature", true), server, Provider::Bitbucket),
    ] {
        let body = document.to_string().into_bytes();
        let proof = match (signs, provider) {
            (_, Provider::Gitlab) => SECRET.to_owned(),
            ((_, true), _) => format!("sha256={}", signature(&body, SECRET)),
            ((_, false), _) => signature(&body, SECRET),
        };
        let announced = Announced::of(&headers(&[event, (signs.0, &proof)])).unwrap();
        assert_eq!(announced.provider(), provider);
        assert!(announced.is_signed_with(&body, &secret(SECRET)), "{event:?}");
        assert!(!announced.is_signed_with(&body, &secret("s3creT")), "{event:?}");
        let event = announced.event(&body).unwrap();
        let push = pushed(&event);
        assert_eq!(push.branch("main").unwrap().commit, COMMIT);
        assert!(push.repository.is_at("https://git.example.com/group/sub/name.git", None), "{push:?}");
    }
}

#[test]
fn a_provider_tells_its_own_repositories_and_plain_ones() {
    assert!(
        Provider::Github.serves(RepositoryType::GithubEnterprise)
            && Provider::Gitea.serves(RepositoryType::Git)
    );
    assert!(!Provider::Gitlab.serves(RepositoryType::Github), "a token in a header signs no body");
    assert!(!Provider::Github.serves(RepositoryType::Local));
}

/// Payloads that GitHub itself publishes, of every event that there is.
#[test]
fn githubs_own_examples_are_understood() {
    let packed = flate2::read::GzDecoder::new(&include_bytes!("examples.json.gz")[..]);
    let examples: serde_json::Value = serde_json::from_reader(packed).unwrap();
    let (mut moved, mut actions, mut others) = (0, std::collections::BTreeSet::new(), 0);
    for (name, payloads) in examples["events"].as_object().unwrap() {
        for payload in payloads.as_array().unwrap() {
            let body = payload.to_string().into_bytes();
            let announced = github(name, &body);
            assert!(announced.is_signed_with(&body, &secret(SECRET)));
            let url = payload["repository"]["html_url"].as_str().unwrap_or_default();
            match announced.event(&body).unwrap() {
                Event::Push(push) => {
                    let id = payload["repository"]["id"].as_i64();
                    assert!(push.repository.is_at(url, id), "{push:?}");
                    assert!(!push.repository.is_at(&format!("{url}x"), id.map(|id| id + 1)), "{push:?}");
                    for branch in &push.branches {
                        let reference = format!("refs/heads/{}", branch.name);
                        assert_eq!(payload["ref"].as_str(), Some(&*reference));
                        assert_eq!(payload["after"].as_str(), Some(&*branch.commit));
                        moved += 1;
                    }
                }
                Event::PullRequest(pull) => {
                    let told = &payload["pull_request"];
                    assert!(pull.repository.is_at(url, payload["repository"]["id"].as_i64()), "{pull:?}");
                    assert_eq!(told["number"].as_i64(), Some(pull.number));
                    assert_eq!(told["html_url"].as_str(), Some(&*pull.url));
                    assert_eq!(told["head"]["sha"].as_str(), Some(&*pull.commit));
                    assert_eq!(told["head"]["ref"].as_str(), Some(&*pull.head));
                    assert_eq!(told["base"]["ref"].as_str(), Some(&*pull.base));
                    assert_eq!(payload["action"].as_str(), Some(&*pull.action));
                    actions.insert(pull.action);
                }
                Event::Ping => assert_eq!(name, "ping"),
                Event::Other(other) => {
                    assert_eq!(other, *name);
                    others += 1;
                }
            }
        }
    }
    assert!(moved >= 2 && others > 300, "{moved} pushes, {others} others");
    for action in ["opened", "reopened", "synchronize", "closed", "labeled"] {
        assert!(actions.contains(action), "{actions:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    /// Whatever is sent, it is refused or read, and never panics.
    #[test]
    fn any_headers_and_body_are_refused_or_read(
        list in prop::collection::vec((prop::sample::select(vec![
            "x-github-event", "x-hub-signature-256", "x-hub-signature", "x-gitlab-event", "x-gitlab-token",
            "x-gitea-event", "x-gitea-signature", "x-event-key", "content-type", "x-github-delivery",
        ]), "[ -~]{0,80}"), 0..8),
        body in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let list: Vec<_> = list.iter().map(|(name, value)| (*name, value.as_str())).collect();
        if let Some(announced) = Announced::of(&headers(&list)) {
            let _held = announced.is_signed_with(&body, &secret(SECRET));
            let _event = announced.event(&body);
        }
    }

    /// One bit of the body or the signature decides.
    #[test]
    fn a_flipped_bit_breaks_the_signature(body in prop::collection::vec(any::<u8>(), 1..200), at in any::<prop::sample::Index>(), bit in 0..8_u32) {
        let announced = github("push", &body);
        prop_assert!(announced.is_signed_with(&body, &secret(SECRET)));
        let mut other = body.clone();
        other[at.index(body.len())] ^= 1 << bit;
        prop_assert!(!announced.is_signed_with(&other, &secret(SECRET)));
    }

    /// Documents that are nearly right are refused or read as well.
    #[test]
    fn nearly_right_payloads_are_refused_or_read(cut in any::<prop::sample::Index>(), with in any::<u8>(), event in prop::sample::select(vec!["push", "pull_request", "ping", "x"])) {
        let mut body = push_body("refs/heads/main", COMMIT);
        let at = cut.index(body.len());
        body[at] = with;
        let _event = github(event, &body).event(&body);
        body.truncate(at);
        let _event = github(event, &body).event(&body);
    }
}
