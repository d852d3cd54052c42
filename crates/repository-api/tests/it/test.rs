//! `POST …/test`.

use serde_json::json;
use windlass_git_server::HttpBackend;

use crate::kit::{GitServer, World};

#[tokio::test]
async fn a_stored_repository_is_tested_when_the_body_is_empty() {
    let world = World::new();
    let files = world.create_local("test6").await;
    let (code, body) = world.send("POST", "test6/test", "").await;
    assert_eq!(
        (code, &body["kind"], &body["success"], &body["code"]),
        (200, &json!("TestResults"), &json!(true), &json!(200))
    );
    for nothing in ["{}", " {}\n", "\n"] {
        let (code, body) = world.send("POST", "test6/test", nothing).await;
        assert_eq!((code, &body["success"]), (200, &json!(true)), "{nothing:?}: {body}");
    }
    std::fs::remove_dir(files).unwrap();
    let (code, body) = world.send("POST", "test6/test", "").await;
    assert_eq!(body["success"], false);
    assert_eq!(body["code"], code);
    assert!(code >= 400, "{body}");
    assert_eq!(body["errors"][0]["field"], "spec.local.path", "{body}");
    assert_eq!(world.send("POST", "nope/test", "").await.0, 404);
    assert!(world.requests.writes().is_empty());
}

#[tokio::test]
async fn a_proposed_repository_is_tested_before_it_is_there() {
    let git = GitServer::new().await;
    git.put(&[("a.json", "a", "A")]);
    let world = World::with_git(&git);
    let proposal = |branch: &str| {
        json!({"spec": {
            "title": "New", "type": "git", "workflows": [],
            "sync": {"enabled": false, "target": "folder", "intervalSeconds": 60},
            "git": {"url": git.url(), "branch": branch},
        }})
        .to_string()
    };
    let (code, body) = world.send("POST", "new/test", proposal("main")).await;
    assert_eq!((code, &body["success"]), (200, &json!(true)), "{body}");
    let (code, body) = world.send("POST", "new/test", proposal("nope")).await;
    assert_eq!(body["errors"][0]["field"], "spec.git.branch", "{code} {body}");
    for body in ["not json", "[]", "5"] {
        assert_eq!(world.send("POST", "new/test", body).await.0, 400, "{body}");
    }
}

#[tokio::test]
async fn a_stored_token_is_used_for_its_own_url_and_never_sent_to_another() {
    let git = GitServer::with(|backend: HttpBackend| backend.basic_auth("git", "stored-token".into())).await;
    git.put(&[("a.json", "a", "A")]);
    // Another server, which tells what it was sent.
    let (tell, mut sent) = tokio::sync::mpsc::unbounded_channel();
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let thief = format!("http://{}", listener.local_addr().unwrap());
    let app = axum::Router::new().fallback(move |headers: axum::http::HeaderMap| {
        tell.send(headers.get("authorization").cloned()).unwrap();
        async { axum::http::StatusCode::UNAUTHORIZED }
    });
    tokio::spawn(async move { axum::serve(listener, app).await });

    let world = World::with_origins(&[git.origin(), thief.clone()]);
    let document = json!({
        "spec": {"git": {"url": git.url(), "branch": "main", "tokenUser": "git"}},
        "secure": {"token": {"create": "stored-token"}},
    });
    let stored = world.create_repository("test6", document).await;
    let secret = stored.secure.token.name.clone();
    assert!(!secret.is_empty());
    let proposal = |url: String, secure: serde_json::Value| {
        json!({
            "spec": {
                "title": "test6", "type": "git", "workflows": [],
                "sync": {"enabled": false, "target": "folder", "intervalSeconds": 60},
                "git": {"url": url, "branch": "main", "tokenUser": "git"},
            },
            "secure": secure,
        })
        .to_string()
    };
    let (code, body) = world.send("POST", "test6/test", proposal(git.url(), json!({}))).await;
    assert_eq!((code, &body["success"]), (200, &json!(true)), "its own URL: {body}");

    for secure in [json!({}), json!({"token": {"name": secret}})] {
        let (code, body) =
            world.send("POST", "test6/test", proposal(format!("{thief}/sample.git"), secure)).await;
        assert!(code >= 400 && body["success"] == false, "{body}");
        assert_eq!(sent.recv().await.unwrap(), None, "no credentials for another URL");
    }
    // The same by way of a repository that does not exist.
    let named = proposal(format!("{thief}/sample.git"), json!({"token": {"name": secret}}));
    world.send("POST", "other/test", named).await;
    while let Ok(authorization) = sent.try_recv() {
        assert_eq!(authorization, None);
    }
}

#[tokio::test]
async fn a_proposed_token_is_tried() {
    let git = GitServer::with(|backend: HttpBackend| backend.basic_auth("git", "right".into())).await;
    git.put(&[("a.json", "a", "A")]);
    let world = World::with_git(&git);
    let proposal = |token: &str| {
        json!({
            "spec": {
                "title": "new", "type": "git", "workflows": [],
                "sync": {"enabled": false, "target": "folder", "intervalSeconds": 60},
                "git": {"url": git.url(), "branch": "main", "tokenUser": "git"},
            },
            "secure": {"token": {"create": token}},
        })
        .to_string()
    };
    let (code, body) = world.send("POST", "new/test", proposal("wrong")).await;
    assert_eq!((code, &body["errors"][0]["field"]), (401, &json!("secure.token")), "{body}");
    assert!(!body.to_string().contains("wrong"), "{body}");
    let (code, body) = world.send("POST", "new/test", proposal("right")).await;
    assert_eq!((code, &body["success"]), (200, &json!(true)), "{body}");
}

#[tokio::test]
async fn a_proposal_that_is_invalid_is_answered_by_field() {
    let world = World::new();
    let proposal = json!({"spec": {"title": "", "type": "git", "workflows": [], "sync": {"enabled": false}}});
    let (code, body) = world.send("POST", "new/test", proposal.to_string()).await;
    assert_eq!((code, &body["success"]), (422, &json!(false)), "{body}");
    let fields: Vec<&str> =
        body["errors"].as_array().unwrap().iter().map(|error| error["field"].as_str().unwrap()).collect();
    assert!(fields.contains(&"spec.title"), "{fields:?}");
}
