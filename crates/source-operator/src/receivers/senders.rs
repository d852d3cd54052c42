//! The types of receivers: how a delivery of each is verified, and what of it filters see. Flux: `receiver_handlers.go`.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value, json};
use windlass_api::flux::ReceiverSpec;
use windlass_repository::webhook::{Announced, Provider, is_signed};

use super::oidc;

/// The type whose senders show tokens that Google has issued to an account.
pub(super) const GOOGLE: &str = "gcr";

/// How it is known who sends.
#[derive(Clone, Copy)]
enum Proof {
    /// Whoever knows the path is believed.
    Path,
    /// By what these providers send.
    Provider(&'static [Provider]),
    /// By `X-Signature`.
    Signature,
    /// By the token itself, in `Authorization`.
    Token,
    /// By `X-Nexus-Webhook-Signature`, which is made with SHA-1.
    Nexus,
    /// By a token of an issuer, which `oidc.rs` judges.
    Issued,
}

/// What a body has to be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Body {
    Any,
    /// An object, whatever is in it.
    Json,
    /// An event of `CDEvents`.
    CdEvent,
    /// A message of Pub/Sub.
    Message,
}

/// Names of types, and how a delivery of each is judged. Gitea sends what GitHub does.
const SENDERS: [(&str, Proof, Body); 13] = [
    ("generic", Proof::Path, Body::Any),
    ("generic-hmac", Proof::Signature, Body::Any),
    (oidc::TYPE, Proof::Issued, Body::Any),
    ("github", Proof::Provider(&[Provider::Github, Provider::Gitea]), Body::Any),
    ("gitlab", Proof::Provider(&[Provider::Gitlab]), Body::Any),
    ("bitbucket", Proof::Provider(&[Provider::Bitbucket]), Body::Any),
    ("harbor", Proof::Token, Body::Any),
    ("dockerhub", Proof::Path, Body::Json),
    ("quay", Proof::Path, Body::Json),
    ("acr", Proof::Path, Body::Json),
    ("nexus", Proof::Nexus, Body::Json),
    (GOOGLE, Proof::Issued, Body::Message),
    ("cdevents", Proof::Path, Body::CdEvent),
];

/// Whether there is this type; else what is wrong.
pub(super) fn judge(spec: &ReceiverSpec) -> Result<(), String> {
    if SENDERS.iter().any(|(name, ..)| *name == spec.kind) {
        return Ok(());
    }
    let names: Vec<&str> = SENDERS.iter().map(|(name, ..)| *name).collect();
    Err(format!("spec.type {:?} is not supported; it may be {}", spec.kind, names.join(", ")))
}

/// Whether its sender knows the token, it is what such a sender sends, and of an event that is heeded; else why not. Of a
/// sender who shows an issuer's token, that has to be judged besides. Answers the body that filters see, where that is not
/// the delivery's own.
pub(super) fn verify(
    spec: &ReceiverSpec,
    headers: &HeaderMap,
    body: &[u8],
    token: &SecretString,
) -> Result<Option<Value>, String> {
    let sender = SENDERS.iter().find(|(name, ..)| *name == spec.kind);
    let (_, proof, wanted) = sender.ok_or("its type is not supported")?;
    match proof {
        Proof::Path | Proof::Issued => {}
        Proof::Signature if is_signed(headers, "x-signature", body, token) => {}
        Proof::Signature => return Err("X-Signature is not the body's".to_owned()),
        Proof::Token if is_shown(headers, token) => {}
        Proof::Token => return Err("Authorization is not the token".to_owned()),
        Proof::Nexus if is_signed_by_nexus(headers, body, token) => {}
        Proof::Nexus => return Err("X-Nexus-Webhook-Signature is not the body's".to_owned()),
        Proof::Provider(providers) => {
            let announced = Announced::of(headers).or_else(|| Announced::with_sha1(headers));
            let announced = announced.filter(|it| providers.contains(&it.provider()));
            let announced = announced.ok_or("its headers are not those of the receiver's type")?;
            if !announced.is_signed_with(body, token) {
                return Err("its signature is not the body's".to_owned());
            }
            heed(spec, announced.event_name())?;
        }
    }
    if *wanted == Body::Any {
        return Ok(None);
    }
    let object = serde_json::from_slice::<Map<String, Value>>(body);
    let object = Value::Object(object.map_err(|_| "its body is no JSON object")?);
    match wanted {
        Body::Message => {
            return message(&object).map(Some).ok_or("its body is no message of Pub/Sub".to_owned());
        }
        Body::CdEvent if !is_cd_event(&object) => return Err("its body is no CDEvent".to_owned()),
        Body::CdEvent => heed(spec, only(headers, "ce-type").unwrap_or_default())?,
        Body::Any | Body::Json => {}
    }
    Ok(None)
}

fn heed(spec: &ReceiverSpec, event: &str) -> Result<(), String> {
    if spec.events.is_empty() || spec.events.iter().any(|wanted| wanted.eq_ignore_ascii_case(event)) {
        return Ok(());
    }
    Err(format!("its event {event:?} is not in spec.events"))
}

fn only<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// Whether the token itself is shown. Comparing hashes takes the same time whatever is shown.
fn is_shown(headers: &HeaderMap, token: &SecretString) -> bool {
    let hashed = |text: &str| digest(&SHA256, text.as_bytes());
    let (shown, token) = (only(headers, AUTHORIZATION.as_str()), token.expose_secret());
    !token.is_empty()
        && shown.is_some_and(|shown| {
            verify_slices_are_equal(hashed(shown).as_ref(), hashed(token).as_ref()).is_ok()
        })
}

fn is_signed_by_nexus(headers: &HeaderMap, body: &[u8], token: &SecretString) -> bool {
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, token.expose_secret().as_bytes());
    let signature = only(headers, "x-nexus-webhook-signature").and_then(|text| hex::decode(text).ok());
    !token.expose_secret().is_empty()
        && signature.is_some_and(|signature| hmac::verify(&key, body, &signature).is_ok())
}

/// What a registry of Google's says in a message: those of its fields that Flux knows.
fn message(body: &Value) -> Option<Value> {
    let text = STANDARD.decode(body["message"]["data"].as_str()?).ok()?;
    let Value::Object(said) = serde_json::from_slice(&text).ok()? else { return None };
    let field = |name: &str| said.get(name).and_then(Value::as_str).unwrap_or_default();
    Some(json!({"action": field("action"), "digest": field("digest"), "tag": field("tag")}))
}

/// Whether it has what every event of `CDEvents` has; what its kind of event has besides is not looked at.
fn is_cd_event(body: &Value) -> bool {
    let context = |name: &str| body["context"][name].as_str().filter(|text| !text.is_empty());
    ["version", "id", "source", "timestamp"].into_iter().all(|name| context(name).is_some())
        && context("type").is_some_and(|kind| kind.starts_with("dev.cdevents."))
        && body["subject"]["id"].as_str().is_some_and(|id| !id.is_empty())
        && body["subject"]["content"].is_object()
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    /// A type, headers and a body.
    type Sent<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str);

    fn judged(kind: &str, headers: &[(&str, &str)], body: &str) -> Result<Option<Value>, String> {
        let spec = ReceiverSpec {
            kind: kind.to_owned(),
            events: vec!["dev.cdevents.artifact.published.0.2.0".to_owned()],
            ..ReceiverSpec::default()
        };
        let header = |(name, value): &(&str, &str)| {
            (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap())
        };
        verify(&spec, &headers.iter().map(header).collect(), body.as_bytes(), &"hidden".to_owned().into())
    }

    #[test]
    fn deliveries_of_registries_are_judged_as_flux_judges_them() {
        let event = |kind: &str| {
            json!({
                "context": {"version": "0.4.1", "id": "1", "source": "ci", "type": kind, "timestamp": "2026-01-01T00:00:00Z"},
                "subject": {"id": "app", "content": {}},
            })
            .to_string()
        };
        let published = "dev.cdevents.artifact.published.0.2.0";
        // `printf '{"action":"CREATED"}' | openssl dgst -sha1 -hmac hidden`
        let nexus = "d4fd8e0ea0bb043d5d626f9c7432f7d0a2971246";
        let good: [Sent<'_>; 6] = [
            ("harbor", &[("authorization", "hidden")], "any"),
            ("dockerhub", &[], r#"{"push_data": {"tag": "1"}, "repository": {"repo_url": "https://x"}}"#),
            ("quay", &[], r#"{"docker_url": "quay.io/me/app", "updated_tags": ["1"]}"#),
            ("acr", &[], r#"{"action": "push", "target": {"repository": "app", "tag": "1"}}"#),
            ("nexus", &[("x-nexus-webhook-signature", nexus)], r#"{"action":"CREATED"}"#),
            ("cdevents", &[("ce-type", published)], &event(published)),
        ];
        for (kind, headers, body) in good {
            assert_eq!(judged(kind, headers, body), Ok(None), "{kind}");
        }
        let bad: [Sent<'_>; 14] = [
            ("harbor", &[], "any"),
            ("harbor", &[("authorization", "Bearer hidden")], "any"),
            ("harbor", &[("authorization", "hidden"), ("authorization", "hidden")], "any"),
            ("dockerhub", &[], "not JSON"),
            ("quay", &[], "[]"),
            ("acr", &[], ""),
            ("nexus", &[], r#"{"action":"CREATED"}"#),
            ("nexus", &[("x-nexus-webhook-signature", nexus)], r#"{"action":"DELETED"}"#),
            ("nexus", &[("x-nexus-webhook-signature", "00")], r#"{"action":"CREATED"}"#),
            ("cdevents", &[("ce-type", published)], "{}"),
            ("cdevents", &[("ce-type", published)], &event("org.example.published")),
            ("cdevents", &[("ce-type", "dev.cdevents.artifact.deleted.0.1.0")], &event(published)),
            ("gcr", &[], "{}"),
            ("absent", &[], "{}"),
        ];
        for (kind, headers, body) in bad {
            assert!(judged(kind, headers, body).is_err(), "{kind} {headers:?} {body}");
        }
        let absent = ReceiverSpec { kind: "absent".to_owned(), ..ReceiverSpec::default() };
        assert!(judge(&absent).unwrap_err().contains("generic, generic-hmac, generic-oidc, github"));
    }

    #[test]
    fn filters_see_what_is_in_a_message_of_googles() {
        let said = STANDARD.encode(r#"{"action": "INSERT", "tag": "app:1", "other": "x"}"#);
        let body = json!({"message": {"data": said, "messageId": "1"}, "subscription": "s"}).to_string();
        let seen = json!({"action": "INSERT", "digest": "", "tag": "app:1"});
        assert_eq!(judged("gcr", &[], &body), Ok(Some(seen)));
    }
}
