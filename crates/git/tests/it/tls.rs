//! Certificates: trusted through the CA bundle or the repository's own authorities, and not otherwise.

use std::path::PathBuf;

use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use windlass_cluster::{Admitted, TlsFront};
use windlass_git::{Git, GitConfig, GitError, Remote, Revision, Tls, UrlPolicy};
use windlass_git_server::seed::{self, Edit};
use windlass_git_server::{HttpBackend, Running};

/// A Git server behind TLS.
struct Scene {
    folder: TempDir,
    _server: Running,
    front: TlsFront,
    tip: String,
}

impl Scene {
    async fn new(admitted: Admitted) -> Self {
        windlass_git::init_process().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let server = HttpBackend::new(folder.path()).start().await.unwrap();
        let tip = seed::commit(&folder.path().join("a.git"), "main", [Edit::put("a", "1")], "begin").unwrap();
        let front = TlsFront::start(server.origin().trim_start_matches("http://"), admitted).await.unwrap();
        Self { folder, _server: server, front, tip }
    }

    fn authority(&self) -> Tls {
        Tls::default().trusting(self.front.authority().as_bytes()).unwrap()
    }

    fn bundle(&self) -> PathBuf {
        let bundle = self.folder.path().join("ca.pem");
        std::fs::write(&bundle, self.front.authority()).unwrap();
        bundle
    }

    async fn resolve(&self, ca_bundle: Option<PathBuf>, tls: Tls) -> Result<Revision, GitError> {
        resolve(&format!("https://{}", self.front.address()), ca_bundle, tls).await
    }
}

async fn resolve(origin: &str, ca_bundle: Option<PathBuf>, tls: Tls) -> Result<Revision, GitError> {
    let folder = tempfile::tempdir().unwrap();
    let mut config = GitConfig::new(folder.path());
    config.policy = UrlPolicy::default().allow_origin(origin).unwrap();
    config.ca_bundle = ca_bundle;
    let remote = Remote { url: format!("{origin}/a.git"), tls, ..Remote::default() };
    Git::new(config)?.remote(remote)?.resolve("main", &CancellationToken::new()).await
}

#[tokio::test]
async fn a_certificate_is_trusted_through_the_bundle_and_not_otherwise() {
    let scene = Scene::new(Admitted::Anyone).await;
    let tip = scene.resolve(Some(scene.bundle()), Tls::default()).await.unwrap();
    assert_eq!(tip.as_str(), scene.tip);
    let error = scene.resolve(None, Tls::default()).await.unwrap_err();
    assert!(matches!(error, GitError::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().contains("certificate"), "{error}");
}

#[tokio::test]
async fn a_bundle_that_is_none_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = folder.path().join("ca.pem");
    std::fs::write(&bundle, "no certificate").unwrap();
    for path in [bundle, folder.path().join("missing.pem")] {
        let error = resolve("https://localhost:1", Some(path.clone()), Tls::default()).await.unwrap_err();
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    }
}

#[tokio::test]
async fn a_repository_may_bring_its_own_authorities() {
    let (scene, other) = (Scene::new(Admitted::Anyone).await, Scene::new(Admitted::Anyone).await);
    assert_eq!(scene.resolve(None, scene.authority()).await.unwrap().as_str(), scene.tip);
    let both = scene.resolve(Some(scene.bundle()), other.authority()).await.unwrap();
    assert_eq!(both.as_str(), scene.tip);
    let error = scene.resolve(None, other.authority()).await.unwrap_err();
    assert!(matches!(error, GitError::Unreachable { .. }), "{error:?}");
}

#[tokio::test]
async fn a_repository_may_bring_a_certificate_of_its_own() {
    let scene = Scene::new(Admitted::WithCertificate).await;
    let (chain, key) = scene.front.client();
    let known = scene.authority().showing(chain.as_bytes(), &key.to_owned().into()).unwrap();
    assert_eq!(scene.resolve(None, known).await.unwrap().as_str(), scene.tip);
    let error = scene.resolve(None, scene.authority()).await.unwrap_err();
    assert!(matches!(error, GitError::Unreachable { .. }), "{error:?}");
}
