//! The exchange client against a scripted exchange, under paused time.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::Request,
    response::{IntoResponse as _, Response},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt as _;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};
use tower::util::BoxCloneSyncService;
use windlass_auth::{ExchangeError, SystemToken, TokenExchange, TokenExchangeConfig, exchange_router};

use crate::support::{Wall, in_process, issuer};

const URL: &str = "http://user:canary-5e1f@exchange.example:6481/sign/access-token";
const SYSTEM_TOKEN: &str = "canary-5e1f-system";

/// What the exchange does with a request.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Token,
    Opaque,
    Status(u16, Value),
    Raw(String),
    Never,
}

/// An exchange that follows a script, then hands out tokens; every answer waits for a permit of the gate.
#[derive(Clone)]
pub(crate) struct Script {
    wall: Wall,
    steps: Arc<Mutex<VecDeque<Step>>>,
    requests: Arc<Mutex<Vec<(HeaderMap, Value)>>>,
    gate: Arc<Semaphore>,
    arrived: mpsc::UnboundedSender<()>,
}

impl Script {
    pub(crate) fn new(steps: impl IntoIterator<Item = Step>) -> (Self, mpsc::UnboundedReceiver<()>) {
        let (arrived, arrivals) = mpsc::unbounded_channel();
        let script = Self {
            wall: Wall::new(),
            steps: Arc::new(Mutex::new(steps.into_iter().collect())),
            requests: Arc::default(),
            gate: Arc::new(Semaphore::new(Semaphore::MAX_PERMITS / 2)),
            arrived,
        };
        (script, arrivals)
    }

    fn gated() -> (Self, mpsc::UnboundedReceiver<()>) {
        let (script, arrivals) = Self::new([]);
        script.gate.forget_permits(usize::MAX);
        (script, arrivals)
    }

    pub(crate) fn requests(&self) -> usize {
        self.requests.lock().unwrap().len()
    }

    async fn answer(self, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        assert_eq!(parts.uri.path(), "/sign/access-token");
        let body = body.collect().await.unwrap().to_bytes();
        let serial = {
            let mut requests = self.requests.lock().unwrap();
            requests.push((parts.headers, serde_json::from_slice(&body).unwrap()));
            requests.len()
        };
        self.arrived.send(()).ok();
        self.gate.acquire().await.unwrap().forget();
        let step = self.steps.lock().unwrap().pop_front().unwrap_or(Step::Token);
        match step {
            Step::Token => {
                let claims = json!({"exp": self.wall.seconds() + 600, "serial": serial});
                let token = format!("e30.{}.{serial}", URL_SAFE_NO_PAD.encode(claims.to_string()));
                axum::Json(json!({"data": {"token": token}, "status": "success"})).into_response()
            }
            Step::Opaque => {
                axum::Json(json!({"data": {"token": format!("opaque.{serial}")}})).into_response()
            }
            Step::Status(status, body) => {
                (StatusCode::from_u16(status).unwrap(), axum::Json(body)).into_response()
            }
            Step::Raw(body) => body.into_response(),
            Step::Never => std::future::pending().await,
        }
    }

    pub(crate) fn client(&self) -> TokenExchange {
        let script = self.clone();
        let router = Router::new().fallback(move |request: Request| script.clone().answer(request));
        let config = TokenExchangeConfig::new(URL, SYSTEM_TOKEN.into());
        TokenExchange::with_transport(config, in_process(router), self.wall.now()).unwrap()
    }
}

/// Which answer of the script a token came with.
pub(crate) fn serial(token: &SecretString) -> usize {
    token.expose_secret().rsplit('.').next().unwrap().parse().unwrap()
}

fn clean(error: &ExchangeError) -> String {
    let text = format!("{error} {error:?}");
    assert!(!text.contains("canary-5e1f"), "{text}");
    assert!(error.to_string().contains("http://exchange.example:6481/sign/access-token"), "{text}");
    error.to_string()
}

#[tokio::test(start_paused = true)]
async fn the_request_is_the_wire_of_a_token_exchange() {
    let (script, _) = Script::new([]);
    script.client().token(&["provisioning.grafana.app"]).await.unwrap();
    let (headers, body) = script.requests.lock().unwrap()[0].clone();
    assert_eq!(body, json!({"namespace": "*", "audiences": ["provisioning.grafana.app"]}));
    assert_eq!(headers["authorization"], format!("Bearer {SYSTEM_TOKEN}"));
    assert_eq!(headers["content-type"], "application/json");
    assert_eq!(headers["accept"], "application/json");
    assert_eq!(headers["x-org-id"], "0");
    let realms: Value = serde_json::from_str(headers["x-realms"].to_str().unwrap()).unwrap();
    assert_eq!(realms, json!([{"type": "system", "identifier": "system"}]));
}

#[tokio::test(start_paused = true)]
async fn our_own_exchange_understands_it() {
    let wall = Wall::new();
    let issuer = issuer(&wall, vec![SystemToken::admin("admin", "secret".into())]);
    let config = TokenExchangeConfig::new("http://localhost/sign/access-token", "secret".into());
    let client =
        TokenExchange::with_transport(config, in_process(exchange_router(issuer.clone())), wall.now())
            .unwrap();
    let token = client.token(&["b", "a"]).await.unwrap();
    issuer.verifier().verify(token.expose_secret()).unwrap().may_use("a", "anywhere").unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_token_is_kept_by_its_audiences_in_any_order() {
    let (script, _) = Script::new([]);
    let client = script.client();
    let first = client.token(&["a", "b"]).await.unwrap();
    assert_eq!(serial(&client.clone().token(&["b", "a"]).await.unwrap()), serial(&first));
    assert_eq!(script.requests(), 1);
    assert_ne!(serial(&client.token(&["a"]).await.unwrap()), serial(&first));
    assert_eq!(script.requests(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_token_serves_until_15_s_before_it_expires() {
    let (script, mut arrivals) = Script::new([]);
    let client = script.client();
    client.token(&["a"]).await.unwrap();
    arrivals.recv().await.unwrap();
    // No renewal is asked for before the last quarter, and none succeeds after.
    tokio::time::advance(Duration::from_secs(430)).await;
    assert_eq!(serial(&client.token(&["a"]).await.unwrap()), 1);
    assert_eq!(script.requests(), 1);
    script.gate.forget_permits(usize::MAX);
    tokio::time::advance(Duration::from_secs(154)).await;
    assert_eq!(serial(&client.token(&["a"]).await.unwrap()), 1);
    tokio::time::advance(Duration::from_secs(2)).await;
    script.gate.add_permits(100);
    assert_ne!(serial(&client.token(&["a"]).await.unwrap()), 1);
}

#[tokio::test(start_paused = true)]
async fn a_token_is_renewed_while_the_old_one_is_handed_out() {
    let (script, mut arrivals) = Script::gated();
    script.gate.add_permits(1);
    let client = script.client();
    client.token(&["a"]).await.unwrap();
    arrivals.recv().await.unwrap();
    tokio::time::advance(Duration::from_secs(450)).await;
    // The exchange does not answer, and nobody notices.
    for _ in 0..3 {
        assert_eq!(serial(&client.token(&["a"]).await.unwrap()), 1);
    }
    arrivals.recv().await.unwrap();
    assert_eq!(script.requests(), 2);
    script.gate.add_permits(1);
    let renewed = async {
        while serial(&client.token(&["a"]).await.unwrap()) != 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), renewed).await.expect("the token is renewed");
    assert_eq!(script.requests(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_failed_renewal_leaves_the_old_token_in_use_and_is_not_repeated_at_once() {
    let refusal = Step::Status(403, json!({"error": "no"}));
    let (script, mut arrivals) = Script::new([Step::Token, refusal]);
    let client = script.client();
    client.token(&["a"]).await.unwrap();
    arrivals.recv().await.unwrap();
    tokio::time::advance(Duration::from_secs(450)).await;
    assert_eq!(serial(&client.token(&["a"]).await.unwrap()), 1);
    arrivals.recv().await.unwrap();
    for _ in 0..20 {
        tokio::task::yield_now().await;
        assert_eq!(serial(&client.token(&["a"]).await.unwrap()), 1);
    }
    assert_eq!(script.requests(), 2);
    tokio::time::advance(Duration::from_secs(6)).await;
    assert_eq!(serial(&client.token(&["a"]).await.unwrap()), 1);
    arrivals.recv().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn callers_at_the_same_time_share_one_exchange() {
    let (script, mut arrivals) = Script::gated();
    let client = script.client();
    let callers: Vec<_> = (0..20)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.token(&["a"]).await })
        })
        .collect();
    arrivals.recv().await.unwrap();
    script.gate.add_permits(20);
    for caller in callers {
        assert_eq!(serial(&caller.await.unwrap().unwrap()), 1);
    }
    assert_eq!(script.requests(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_gives_up_leaves_the_exchange_to_the_others() {
    let (script, mut arrivals) = Script::gated();
    let client = script.client();
    let first = tokio::spawn({
        let client = client.clone();
        async move { client.token(&["a"]).await }
    });
    arrivals.recv().await.unwrap();
    let second = tokio::spawn({
        let client = client.clone();
        async move { client.token(&["a"]).await }
    });
    tokio::task::yield_now().await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    script.gate.add_permits(20);
    assert_eq!(serial(&second.await.unwrap().unwrap()), 1);
    assert_eq!(script.requests(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_exchange_that_recovers_within_three_tries_is_not_noticed() {
    for status in [429, 500, 502, 503] {
        let failure = Step::Status(status, json!({"error": "busy"}));
        let (script, _) = Script::new([failure.clone(), failure, Step::Token]);
        assert_eq!(serial(&script.client().token(&["a"]).await.unwrap()), 3, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_exchange_that_stays_broken_is_given_up_after_three_tries_and_asked_again_later() {
    let failure = Step::Status(503, json!({"error": "busy"}));
    let (script, _) = Script::new(vec![failure; 3]);
    let client = script.client();
    let error = client.token(&["a"]).await.unwrap_err();
    let text = clean(&error);
    assert!(text.contains("503") && text.contains("3 tries") && text.contains("busy"), "{text}");
    assert!(error.is_transient());
    assert_eq!(script.requests(), 3);
    assert_eq!(serial(&client.token(&["a"]).await.unwrap()), 4);
}

#[tokio::test(start_paused = true)]
async fn tries_are_apart_by_a_quarter_of_a_second_to_a_second() {
    let failure = Step::Status(503, json!({}));
    let (script, mut arrivals) = Script::new(vec![failure; 3]);
    let client = script.client();
    let asking = tokio::spawn(async move { client.token(&["a"]).await });
    let mut last = None;
    for _ in 0..3 {
        arrivals.recv().await.unwrap();
        let now = tokio::time::Instant::now();
        if let Some(last) = last.replace(now) {
            let pause = now - last;
            assert!(pause >= Duration::from_millis(250) && pause <= Duration::from_millis(1001), "{pause:?}");
        }
    }
    asking.await.unwrap().unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_final_and_says_what_to_do() {
    for (status, words) in
        [(401, "check token in [grpc_client_authentication]"), (403, "provisioning.grafana.app")]
    {
        let (script, _) = Script::new([Step::Status(status, json!({"status": "error", "error": "because"}))]);
        let error = script.client().token(&["provisioning.grafana.app"]).await.unwrap_err();
        let text = clean(&error);
        assert!(text.contains("because") && text.contains(words), "{text}");
        assert!(!error.is_transient());
        assert_eq!(script.requests(), 1);
    }
    let (script, _) = Script::new([Step::Status(404, json!("no such page"))]);
    let text = clean(&script.client().token(&["a"]).await.unwrap_err());
    assert!(text.contains("404") && text.contains("token_exchange_url"), "{text}");
    assert_eq!(script.requests(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_silent_exchange_is_given_up_at_its_deadline() {
    let (script, _) = Script::new(vec![Step::Never; 10]);
    let error = script.client().token(&["a"]).await.unwrap_err();
    assert!(matches!(error, ExchangeError::TimedOut { .. }), "{error}");
    clean(&error);
    assert!(script.requests() <= 3);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_holds_no_token_is_told_apart_and_not_repeated_in_the_error() {
    let endless = "x".repeat(2_000_000);
    for body in [
        "<html>canary-5e1f</html>",
        "{}",
        r#"{"data":{}}"#,
        r#"{"data":{"token":""}}"#,
        "{\"data\":{\"token\":\"a\\nb\"}}",
        &endless,
    ] {
        let (script, _) = Script::new([Step::Raw(body.to_owned())]);
        let error = script.client().token(&["a"]).await.unwrap_err();
        assert!(matches!(error, ExchangeError::Garbage { .. }), "{error}");
        clean(&error);
        assert_eq!(script.requests(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_whose_expiry_cannot_be_read_is_used_once() {
    let (script, _) = Script::new([Step::Opaque, Step::Opaque]);
    let client = script.client();
    assert_eq!(client.token(&["a"]).await.unwrap().expose_secret(), "opaque.1");
    assert_eq!(client.token(&["a"]).await.unwrap().expose_secret(), "opaque.2");
}

#[tokio::test(start_paused = true)]
async fn an_exchange_that_cannot_be_reached_is_named() {
    let transport = BoxCloneSyncService::new(tower::service_fn(|_: http::Request<Body>| async {
        Err::<Response, _>(tower::BoxError::from("connection refused"))
    }));
    let config = TokenExchangeConfig::new(URL, SYSTEM_TOKEN.into());
    let client = TokenExchange::with_transport(config, transport, Wall::new().now());
    let error = client.unwrap().token(&["a"]).await.unwrap_err();
    assert!(matches!(error, ExchangeError::Unreachable { attempts: 3, .. }), "{error}");
    clean(&error);
    assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "connection refused");
}

#[tokio::test(start_paused = true)]
async fn a_client_without_token_url_or_audience_is_refused_locally() {
    let new =
        |url: &str, token: &str| TokenExchange::new(TokenExchangeConfig::new(url, token.into())).unwrap_err();
    assert!(new(URL, "").to_string().starts_with("missing required token:"));
    assert!(new("", "t").to_string().starts_with("missing required token exchange url:"));
    for url in ["exchange", "ftp://exchange/", "/sign", "http://"] {
        assert!(matches!(new(url, "t"), ExchangeError::InvalidUrl { .. }), "{url}");
    }
    assert!(matches!(new(URL, "a\nb"), ExchangeError::InvalidToken));
    let (script, _) = Script::new([]);
    for audiences in [&[][..], &[""][..]] {
        let error = script.client().token::<&str>(audiences).await.unwrap_err();
        assert!(matches!(error, ExchangeError::NoAudience));
    }
    assert_eq!(script.requests(), 0);
    let printed = format!("{:?}", script.client());
    assert!(!printed.contains("canary-5e1f"), "{printed}");
}
