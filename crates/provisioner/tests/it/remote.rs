//! A second API server over a socket, reached through a kubeconfig that stands in a Secret of the first.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use windlass_auth::Caller;
use windlass_provisioner::{
    Application, Driver, HelmApplicationSpec, HelmApplicationVersion, InMemory, KubeconfigSecret,
    ManagerProvisioner, Node, Outcome, ProvisionError, Reason, Registration, RemoteClusters, RemoteOptions,
    Scope, State, Tree, Unreachable, leaf, remote_cluster, serial,
};
use windlass_runtime::CallOptions;

use crate::managed::{Running, Site};
use crate::server::{Server, map};

/// A server that takes one token.
struct Second {
    server: Server,
    address: SocketAddr,
    token: Arc<Mutex<String>>,
    end: CancellationToken,
}

impl Second {
    async fn start(token: &str) -> Self {
        let server = Server::new();
        let token = Arc::new(Mutex::new(token.to_owned()));
        let known = Arc::clone(&token);
        let router = server.api.router().layer(from_fn(move |mut request: Request, next: Next| {
            let expected = format!("Bearer {}", known.lock().unwrap());
            async move {
                let told = request.headers().get("authorization").and_then(|value| value.to_str().ok());
                if told != Some(expected.as_str()) {
                    return Response::into_response(StatusCode::UNAUTHORIZED.into_response());
                }
                request.extensions_mut().insert(Caller::system("remote"));
                next.run(request).await
            }
        }));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let end = CancellationToken::new();
        let ended = end.clone();
        tokio::spawn(async move {
            let _ = ended.run_until_cancelled(async { axum::serve(listener, router).await }).await;
        });
        Self { server, address, token, end }
    }

    fn kubeconfig(&self, token: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: a\n\
             contexts: [{{name: a, context: {{cluster: a, user: a}}}}]\n\
             clusters: [{{name: a, cluster: {{server: 'http://{}'}}}}]\n\
             users: [{{name: a, user: {{token: {token}}}}}]\n",
            self.address
        )
    }
}

async fn write_kubeconfig(server: &Server, text: &str) {
    write_kubeconfig_of("second", server, text).await;
}

async fn write_kubeconfig_of(cluster: &str, server: &Server, text: &str) {
    let secrets: Api<Secret> = Api::namespaced(server.observer(), "default");
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": cluster}, "stringData": {"kubeconfig": text},
    });
    let params = PatchParams::apply("test").force();
    secrets.patch(cluster, &params, &Patch::Apply(secret)).await.unwrap();
}

fn secret() -> KubeconfigSecret {
    KubeconfigSecret::new("second-uid", "default", "second", "kubeconfig")
}

fn clusters() -> Arc<RemoteClusters> {
    let _ = windlass_auth::install_crypto_provider();
    Arc::new(RemoteClusters::new(CallOptions::new(Duration::from_secs(5))))
}

fn tree(clusters: &Arc<RemoteClusters>, options: RemoteOptions, child: Node<Scope>) -> Tree<Scope> {
    Tree::new(remote_cluster("second", secret(), Arc::clone(clusters), options, child)).unwrap()
}

fn why(outcome: &Outcome) -> (Reason, &str) {
    match outcome {
        Outcome::Ready => panic!("it is ready"),
        Outcome::Yield { reason, message, .. } => (*reason, message),
    }
}

#[tokio::test]
async fn objects_go_to_the_second_cluster_and_a_rotated_token_is_taken_up() {
    let (first, second) = (Server::new(), Second::start("one").await);
    let (clusters, scope) = (clusters(), first.scope("owner"));
    let tree = tree(&clusters, RemoteOptions::default(), leaf(map("a", "value")));
    let waits = tree.provision(&scope).await.unwrap();
    assert_eq!(why(&waits), (Reason::DependencyNotReady, "Secret default/second is not there yet"));
    write_kubeconfig(&first, &second.kubeconfig("one")).await;
    assert!(tree.provision(&scope).await.unwrap().is_ready());
    assert!(first.maps().get_opt("a").await.unwrap().is_none());
    assert!(second.server.maps().get_opt("a").await.unwrap().is_some());

    let one = second.kubeconfig("one").into();
    let refused = clusters.cluster("second-uid", &one).await.unwrap();
    *second.token.lock().unwrap() = "two".to_owned();
    assert_eq!(tree.provision(&scope).await.unwrap_err().reason, Reason::Unauthorized);
    assert!(!clusters.cluster("second-uid", &one).await.unwrap().is_same(&refused), "its client is replaced");
    write_kubeconfig(&first, &second.kubeconfig("two")).await;
    assert!(tree.provision(&scope).await.unwrap().is_ready());
    let scope = scope.deleting(windlass_provisioner::DeletionPolicy::Background);
    assert!(tree.deprovision(&scope).await.unwrap().is_ready());
    assert!(second.server.maps().get_opt("a").await.unwrap().is_none());
    write_kubeconfig(&first, "{[").await;
    assert_eq!(tree.provision(&scope).await.unwrap_err().reason, Reason::InvalidKubeconfig);
}

/// Sites whose one object is on the second cluster.
struct Far(Arc<RemoteClusters>);

impl ManagerProvisioner for Far {
    type Object = Site;

    fn tree(&self, _site: &Site) -> Result<Node<Scope>, ProvisionError> {
        let child = leaf(map("a", "value"));
        Ok(remote_cluster("second", secret(), Arc::clone(&self.0), RemoteOptions::default(), child))
    }
}

#[tokio::test]
async fn what_is_changed_by_hand_on_the_second_cluster_is_set_back_also_after_a_rotation() {
    let (first, second) = (Server::new(), Second::start("one").await);
    write_kubeconfig(&first, &second.kubeconfig("one")).await;
    let running = Running::of(Far(clusters()), first.client.clone(), |_| {});
    first.create_site(json!({})).await;
    first.site_is("Provisioned", "").await;
    let is_set_back = async || {
        let drift = Patch::Merge(json!({"data": {"key": "theirs"}}));
        second.server.maps().patch("a", &PatchParams::default(), &drift).await.unwrap();
        crate::managed::eventually("it is set back", async || {
            let data = second.server.maps().get("a").await.unwrap().data.unwrap();
            if data["key"] == "value" { Ok(()) } else { Err(format!("{data:?}")) }
        })
        .await;
    };
    is_set_back().await;
    second.server.maps().delete("a", &DeleteParams::default()).await.unwrap();
    crate::managed::eventually("it is made again", async || {
        second.server.maps().get_opt("a").await.unwrap().map(drop).ok_or_else(String::new)
    })
    .await;

    "two".clone_into(&mut second.token.lock().unwrap());
    write_kubeconfig(&first, &second.kubeconfig("two")).await;
    first.site_is("Provisioned", "").await;
    is_set_back().await;
    running.stop().await;
}

/// Sites whose one object is on a third cluster, whose kubeconfig stands on the second.
struct Farther(Arc<RemoteClusters>);

impl ManagerProvisioner for Farther {
    type Object = Site;

    fn tree(&self, _site: &Site) -> Result<Node<Scope>, ProvisionError> {
        let third = KubeconfigSecret::new("third-uid", "default", "third", "kubeconfig");
        let on = |name: &str, secret, child| {
            remote_cluster(name, secret, Arc::clone(&self.0), RemoteOptions::default(), child)
        };
        Ok(on("second", secret(), on("third", third, leaf(map("a", "value")))))
    }
}

#[tokio::test]
async fn a_cluster_beyond_the_second_is_reached_as_soon_as_its_kubeconfig_is_there() {
    let (first, second, third) = (Server::new(), Second::start("one").await, Second::start("two").await);
    write_kubeconfig(&first, &second.kubeconfig("one")).await;
    let running = Running::of(Farther(clusters()), first.client.clone(), |_| {});
    first.create_site(json!({})).await;
    first.site_is("Provisioning", "Secret default/third is not there yet (DependencyNotReady)").await;
    let written = std::time::Instant::now();
    write_kubeconfig_of("third", &second.server, &third.kubeconfig("two")).await;
    first.site_is("Provisioned", "").await;
    assert!(
        written.elapsed() < Duration::from_secs(8),
        "less than the default yield: {:?}",
        written.elapsed()
    );
    assert!(third.server.maps().get_opt("a").await.unwrap().is_some());
    assert!(second.server.maps().get_opt("a").await.unwrap().is_none());
    running.stop().await;
}

#[tokio::test]
async fn a_client_is_kept_for_a_cluster_and_a_kubeconfig_until_it_is_forgotten() {
    let (clusters, second) = (clusters(), Second::start("one").await);
    let [one, two] = ["one", "two"].map(|token| second.kubeconfig(token).into());
    let first = clusters.cluster("a", &one).await.unwrap();
    assert!(clusters.cluster("a", &one).await.unwrap().is_same(&first));
    assert!(!clusters.cluster("b", &one).await.unwrap().is_same(&first), "another cluster");
    let rotated = clusters.cluster("a", &two).await.unwrap();
    assert!(!rotated.is_same(&first));
    clusters.forget("a");
    assert!(!clusters.cluster("a", &two).await.unwrap().is_same(&rotated));
}

#[tokio::test]
async fn a_cluster_that_is_gone_for_good_is_waited_for_unless_the_owner_destroys_it() {
    let (first, second) = (Server::new(), Second::start("one").await);
    write_kubeconfig(&first, &second.kubeconfig("one")).await;
    let (clusters, scope) = (clusters(), first.scope("owner"));
    let destroyed = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&destroyed);
    let unreachable = Unreachable::AbandonIf(Box::new(move |_: &Scope| told.load(Ordering::SeqCst)));
    let options = RemoteOptions { unreachable, ..RemoteOptions::default() };
    let tree = tree(&clusters, options, leaf(map("a", "value")));
    assert!(tree.provision(&scope).await.unwrap().is_ready());
    second.end.cancel();
    // Connections that are open end with the client that has them.
    clusters.forget("second-uid");
    let unreached = crate::managed::eventually("it cannot be reached", async || {
        match tree.deprovision(&scope).await.unwrap() {
            Outcome::Ready => panic!("nobody said that it is gone"),
            waits @ Outcome::Yield { .. } => Ok(waits),
        }
    })
    .await;
    assert_eq!(why(&unreached).0, Reason::RemoteUnreachable);
    assert_eq!(tree.provision(&scope).await.unwrap_err().reason, Reason::RemoteUnreachable);
    destroyed.store(true, Ordering::SeqCst);
    assert!(tree.deprovision(&scope).await.unwrap().is_ready());
    assert_eq!(tree.states()["second/on"].state, State::Abandoned);
}

fn catalogue(versions: &[&str]) -> Arc<BTreeMap<String, HelmApplicationSpec>> {
    let versions = versions.iter().map(|version| HelmApplicationVersion {
        version: (*version).to_owned(),
        repo: "https://charts.example.com".to_owned(),
        chart: Some("shop".to_owned()),
        ..HelmApplicationVersion::default()
    });
    let spec = HelmApplicationSpec { versions: versions.collect(), ..HelmApplicationSpec::default() };
    Arc::new(BTreeMap::from([("shop".to_owned(), spec)]))
}

#[tokio::test]
async fn registration_comes_before_the_applications_and_goes_after_the_last_of_them() {
    let (first, second) = (Server::new(), Second::start("one").await);
    write_kubeconfig(&first, &second.kubeconfig("one")).await;
    let (driver, scope, clusters) = (Arc::new(InMemory::default()), first.scope("owner"), clusters());
    let build = |versions: &[&str]| {
        let driver: Arc<dyn Driver> = driver.clone();
        let shop = Application::new("shop", "shop", "1.0.0", catalogue(versions), Arc::clone(&driver));
        let registration = leaf(Registration::new(driver, secret()));
        let options = RemoteOptions { registration: Some(registration), ..RemoteOptions::default() };
        tree(&clusters, options, serial("all", [leaf(map("a", "value")), leaf(shop)]))
    };
    let tree = build(&["v1.0.0"]);
    assert_eq!(why(&tree.provision(&scope).await.unwrap()).0, Reason::NotReady);
    driver.finish("shop");
    assert!(tree.provision(&scope).await.unwrap().is_ready());
    assert_eq!((driver.clusters().len(), driver.applications().len()), (1, 1));

    // The version is taken out of the catalogue.
    let tree = build(&["2.0.0"]);
    let error = tree.provision(&scope).await.unwrap_err();
    assert_eq!(error.message, "the catalogue has no version 1.0.0 of shop");
    let held = json!({"metadata": {"finalizers": ["example.com/theirs"]}});
    second.server.maps().patch("a", &PatchParams::default(), &Patch::Merge(held)).await.unwrap();
    assert_eq!(why(&tree.deprovision(&scope).await.unwrap()).0, Reason::Deleting);
    assert_eq!((driver.clusters().len(), driver.applications().len()), (1, 0), "its object is still there");
    let free = json!({"metadata": {"finalizers": null}});
    second.server.maps().patch("a", &PatchParams::default(), &Patch::Merge(free)).await.unwrap();
    assert!(tree.deprovision(&scope).await.unwrap().is_ready());
    assert!(driver.clusters().is_empty());
    let _ = second.server.maps().delete("a", &DeleteParams::default()).await;
}
