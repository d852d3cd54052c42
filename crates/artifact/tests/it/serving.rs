use std::io::Write as _;
use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;
use windlass_artifact::{Algorithm, ArtifactPath, Kept, Missing, Place, Store, router};

struct Scene {
    _folder: tempfile::TempDir,
    store: Arc<Store>,
    path: String,
    router: Router,
}

fn keep(store: &Store, content: &[u8]) -> Kept {
    let mut draft = store.draft().unwrap();
    draft.write_all(content).unwrap();
    store.keep(draft).unwrap()
}

fn place() -> Place {
    Place::new("gitrepository", "default", "app").unwrap()
}

fn scene(content: &[u8]) -> Scene {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), Algorithm::Sha256).unwrap();
    let path = store.publish(&keep(&store, content), &place()).unwrap().to_string();
    let router = router(Arc::clone(&store), None);
    Scene { _folder: folder, store, path, router }
}

impl Scene {
    async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Response<Body> {
        let mut request = Request::builder().method(method).uri(format!("/{path}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
    }

    async fn get(&self, headers: &[(&str, &str)]) -> (StatusCode, Vec<u8>) {
        let answer = self.ask("GET", &self.path, headers).await;
        (answer.status(), answer.into_body().collect().await.unwrap().to_bytes().to_vec())
    }
}

#[tokio::test]
async fn an_artifact_is_served_whole_in_parts_and_not_again_to_who_has_it() {
    let content: Vec<u8> = (0..1_500_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    let scene = scene(&content);
    assert_eq!(scene.get(&[]).await, (StatusCode::OK, content.clone()));
    let head = scene.ask("HEAD", &scene.path, &[]).await;
    assert_eq!(head.headers()["content-length"], content.len().to_string());
    assert_eq!(head.headers()["accept-ranges"], "bytes");
    let tag = head.headers()["etag"].to_str().unwrap().to_owned();
    let modified = head.headers()["last-modified"].to_str().unwrap().to_owned();
    assert!(head.into_body().collect().await.unwrap().to_bytes().is_empty());

    assert_eq!(scene.get(&[("if-none-match", &tag)]).await.0, StatusCode::NOT_MODIFIED);
    assert_eq!(scene.get(&[("if-none-match", "\"other\"")]).await.0, StatusCode::OK);
    assert_eq!(scene.get(&[("if-modified-since", &modified)]).await.0, StatusCode::NOT_MODIFIED);
    let part = |range: std::ops::Range<usize>| (StatusCode::PARTIAL_CONTENT, content[range].to_vec());
    assert_eq!(scene.get(&[("range", "bytes=0-9")]).await, part(0..10));
    assert_eq!(scene.get(&[("range", "bytes=600000-1400000")]).await, part(600_000..1_400_001));
    assert_eq!(scene.get(&[("range", "bytes=1499999-")]).await, part(1_499_999..1_500_000));
    assert_eq!(scene.get(&[("range", "bytes=-5")]).await, part(1_499_995..1_500_000));
    assert_eq!(scene.get(&[("range", "bytes=5-"), ("if-range", &tag)]).await.0, StatusCode::PARTIAL_CONTENT);
    assert_eq!(scene.get(&[("range", "bytes=5-"), ("if-range", "\"x\"")]).await.0, StatusCode::OK);
    assert_eq!(
        scene.get(&[("range", "bytes=9-5")]).await.0,
        StatusCode::OK,
        "what is no range is not heeded"
    );
    assert_eq!(scene.get(&[("range", "bytes=1500000-")]).await.0, StatusCode::RANGE_NOT_SATISFIABLE);
}

#[tokio::test]
async fn nothing_but_artifacts_can_be_asked_for() {
    let scene = scene(b"secret");
    let hex = scene.path.rsplit('/').next().unwrap().to_owned();
    std::os::unix::fs::symlink("/etc/passwd", scene.store.path(&ArtifactPath::parse("a/b/c/d").unwrap()))
        .unwrap_err();
    let beside = ArtifactPath::parse("gitrepository/default/app/link.tar.gz").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", scene.store.path(&beside)).unwrap();
    for path in [
        "",
        "gitrepository",
        "gitrepository/default/app",
        "gitrepository/default/app/",
        "gitrepository/default/app/..",
        &format!(".content/sha256-{hex}"),
        &format!("gitrepository/../.content/sha256-{hex}"),
        &format!("gitrepository/default/%2e%2e/%2e%2e/.content/sha256-{hex}"),
        "gitrepository%2fdefault%2fapp%2f..%2f..%2f..%2f..%2fetc%2fpasswd",
        "../../../../etc/passwd",
        "gitrepository/default/app/%00",
        &beside.to_string(),
    ] {
        let answer = scene.ask("GET", path, &[]).await;
        assert_eq!(answer.status(), StatusCode::NOT_FOUND, "{path}");
    }
    assert_eq!(scene.ask("POST", &scene.path, &[]).await.status(), StatusCode::METHOD_NOT_ALLOWED);
}

struct Copies {
    from: Arc<Store>,
    to: Arc<Store>,
}

#[async_trait]
impl Missing for Copies {
    async fn bring(&self, path: &ArtifactPath) -> bool {
        let Ok(content) = std::fs::read(self.from.path(path)) else { return false };
        self.to.publish(&keep(&self.to, &content), path.place()).is_ok_and(|published| published == *path)
    }
}

#[tokio::test]
async fn a_replica_brings_what_it_lacks_on_the_first_request() {
    let scene = scene(b"content");
    let folder = tempfile::tempdir().unwrap();
    let to = Store::open(folder.path(), Algorithm::Sha256).unwrap();
    let copies = Copies { from: Arc::clone(&scene.store), to: Arc::clone(&to) };
    let replica = Scene { router: router(to, Some(Arc::new(copies))), ..scene };
    assert_eq!(replica.get(&[]).await, (StatusCode::OK, b"content".to_vec()));
    let absent = replica.ask("GET", &replica.path.replace("app", "other"), &[]).await;
    assert_eq!(absent.status(), StatusCode::NOT_FOUND);
}
