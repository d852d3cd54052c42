//! Applications over the visits of a manager.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, CustomResourceExt as _};
use serde_json::{Value, json};
use windlass_provisioner::{
    Application, ArgoCd, Catalogue, DeletionPolicy, Disposition, Driver, Generator, HelmApplication,
    HelmApplicationSpec, HelmApplicationVersion, Identity, InMemory, KubeconfigSecret, ManagerProvisioner,
    Node, Outcome, Parameter, ProvisionError, Provisioner as _, PublishedCatalogue, Reason, Registration,
    Scope, Source, Visited, leaf, serial,
};

use crate::managed::{Running, Site, eventually};
use crate::server::{Server, define, thing};

/// How often each hook has run.
#[derive(Default)]
struct Hooks {
    up: AtomicUsize,
    down: AtomicUsize,
}

impl Hooks {
    fn ran(&self) -> (usize, usize) {
        (self.up.load(Ordering::SeqCst), self.down.load(Ordering::SeqCst))
    }
}

#[async_trait]
impl Generator for Hooks {
    async fn after_provision(&self, _scope: &Scope) -> Visited {
        self.up.fetch_add(1, Ordering::SeqCst);
        Ok(Outcome::Ready)
    }

    async fn before_deprovision(&self, _scope: &Scope) -> Visited {
        self.down.fetch_add(1, Ordering::SeqCst);
        Ok(Outcome::Ready)
    }
}

/// A thing, and a shop after it.
struct Shops {
    catalogue: Arc<dyn Catalogue>,
    driver: Arc<InMemory>,
    hooks: Arc<Hooks>,
    /// How many trees were made.
    trees: Arc<AtomicUsize>,
}

impl ManagerProvisioner for Shops {
    type Object = Site;

    fn tree(&self, _site: &Site) -> Result<Node<Scope>, ProvisionError> {
        self.trees.fetch_add(1, Ordering::SeqCst);
        let driver: Arc<InMemory> = Arc::clone(&self.driver);
        let hooks: Arc<Hooks> = Arc::clone(&self.hooks);
        let shop = Application::new("shop", "shop", "1.0.0", Arc::clone(&self.catalogue), driver);
        Ok(serial("site", [leaf(thing("before", json!({}))), leaf(shop.generated_by(hooks))]))
    }

    fn deletion_policy(&self, _site: &Site) -> DeletionPolicy {
        DeletionPolicy::Background
    }
}

fn spec(change: impl FnOnce(&mut HelmApplicationVersion)) -> HelmApplicationSpec {
    let mut version = HelmApplicationVersion {
        version: "1.0.0".to_owned(),
        repo: "https://charts.example.com".to_owned(),
        chart: Some("shop".to_owned()),
        ..HelmApplicationVersion::default()
    };
    change(&mut version);
    HelmApplicationSpec { versions: vec![version], ..HelmApplicationSpec::default() }
}

fn shops(catalogue: Arc<dyn Catalogue>) -> Shops {
    let driver = Arc::new(InMemory::default());
    driver.finish("shop");
    Shops { catalogue, driver, hooks: Arc::default(), trees: Arc::default() }
}

#[tokio::test]
async fn hooks_run_once_for_a_generation_however_often_the_tree_is_made_anew() {
    let server = Server::new();
    let shops = shops(Arc::new(BTreeMap::from([("shop".to_owned(), spec(|_| {}))])));
    let (hooks, trees) = (Arc::clone(&shops.hooks), Arc::clone(&shops.trees));
    let is_made_anew = async |label: &str| {
        let before = trees.load(Ordering::SeqCst);
        server.patch_site(json!({"metadata": {"labels": {"visit": label}}})).await;
        eventually("the tree is made anew", async || {
            let now = trees.load(Ordering::SeqCst);
            if now > before { Ok(()) } else { Err(format!("{now} trees")) }
        })
        .await;
    };
    let running = Running::of(shops, server.client.clone(), |_| {});
    server.create_site(json!({})).await;
    server.site_is("Provisioned", "").await;
    is_made_anew("up").await;
    server.patch_site(json!({"spec": {"more": 1}})).await;
    server.site_is_observed().await;
    assert_eq!(hooks.ran(), (2, 0), "once for each of two generations");

    let finalizers = |names: Value| Patch::Merge(json!({"metadata": {"finalizers": names}}));
    let held = finalizers(json!(["example.com/theirs"]));
    server.things().patch("before", &PatchParams::default(), &held).await.unwrap();
    server.sites().delete("a", &DeleteParams::default()).await.unwrap();
    server.site_is("Deprovisioning", "Thing default/before is being deleted").await;
    is_made_anew("down").await;
    server.things().patch("before", &PatchParams::default(), &finalizers(Value::Null)).await.unwrap();
    server.site_is_gone().await;
    assert_eq!(hooks.ran(), (2, 1));
    running.stop().await;
}

#[tokio::test]
async fn an_application_that_is_published_later_wakes_the_owner_that_asked_for_it() {
    let own = |kind, plural| define("example.com", "v1", kind, plural);
    let server = Server::with(vec![own("Site", "sites"), own("Thing", "things"), HelmApplication::crd()]);
    let catalogue = Arc::new(PublishedCatalogue { namespace: "default".to_owned() });
    let running = Running::of(shops(catalogue), server.client.clone(), |_| {});
    server.create_site(json!({})).await;
    server.site_is("Errored", "the catalogue has no application shop (ApplicationNotFound)").await;
    let published: Api<HelmApplication> = Api::namespaced(server.observer(), "default");
    let older = spec(|version| version.version = "0.9.0".to_owned());
    published.create(&PostParams::default(), &HelmApplication::new("shop", older)).await.unwrap();
    server.site_is("Errored", "the catalogue has no version 1.0.0 of shop (VersionNotFound)").await;
    let newer = Patch::Merge(json!({"spec": spec(|_| {})}));
    published.patch("shop", &PatchParams::default(), &newer).await.unwrap();
    server.site_is("Provisioned", "").await;
    running.stop().await;
}

#[tokio::test]
async fn a_range_of_versions_follows_what_is_published_and_its_end_asks_no_catalogue() {
    let (scope, driver) = (Server::new().scope("owner"), Arc::new(InMemory::default()));
    driver.finish("shop");
    let shop = |versions: &[&str]| {
        let versions = versions.iter().map(|known| {
            let mut spec = spec(|version| (*known).clone_into(&mut version.version));
            spec.versions.remove(0)
        });
        let spec = HelmApplicationSpec { versions: versions.collect(), ..HelmApplicationSpec::default() };
        let catalogue = Arc::new(BTreeMap::from([("shop".to_owned(), spec)]));
        Application::new("shop", "shop", "^1.2", catalogue, Arc::<InMemory>::clone(&driver))
            .generated_by(Arc::new(Everything))
    };
    for (published, expected) in [
        (&["1.2.0", "1.1.9", "2.0.0"][..], "1.2.0"),
        (&["1.2.0", "1.10.0", "1.9.0", "1.11.0-rc.1"], "1.10.0"),
        (&["1.2.0"], "1.2.0"),
    ] {
        assert!(shop(published).provision(&scope).await.unwrap().is_ready());
        let asked = driver.applications().remove("shop").unwrap();
        assert_eq!(
            asked.release.unwrap(),
            format!("shop-of-{expected}"),
            "what hooks and generators are told"
        );
        let Source::Chart { version, .. } = asked.source else { panic!("it is a chart") };
        assert_eq!(version, expected, "{published:?}");
    }
    let gone = shop(&["2.0.0"]);
    let error = gone.provision(&scope).await.unwrap_err();
    assert_eq!((error.reason, error.disposition), (Reason::VersionNotFound, Disposition::UserAction));
    assert_eq!(error.message, "the catalogue has no version ^1.2 of shop");
    assert!(gone.deprovision(&scope).await.unwrap().is_ready());
    assert!(driver.applications().is_empty());
}

/// Visits until one came of which nothing was asked by this name: the watch may still be behind what was just written.
async fn a_visit_asks_nothing_of(server: &Server, name: &str) {
    let mut more = 0;
    eventually("a visit of a settled tree asks for nothing else", async || {
        more += 1;
        server.requests();
        server.patch_site(json!({"spec": {"more": more}})).await;
        server.site_is_observed().await;
        let asked = server.requests();
        if asked.contains(&format!("GET {name}")) { Err(format!("{asked:?}")) } else { Ok(()) }
    })
    .await;
}

#[tokio::test]
async fn a_settled_tree_asks_neither_its_catalogue_nor_for_a_kubeconfig_again() {
    let own = |kind, plural| define("example.com", "v1", kind, plural);
    let server = Server::with(vec![own("Site", "sites"), own("Thing", "things"), HelmApplication::crd()]);
    let published: Api<HelmApplication> = Api::namespaced(server.observer(), "default");
    let shop = spec(|version| version.release = Some("one".to_owned()));
    published.create(&PostParams::default(), &HelmApplication::new("shop", shop)).await.unwrap();
    let secrets: Api<Secret> = Api::namespaced(server.observer(), "default");
    let secret = |server: &str| {
        let kubeconfig = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: a\n\
             contexts: [{{name: a, context: {{cluster: a, user: a}}}}]\n\
             clusters: [{{name: a, cluster: {{server: 'https://{server}'}}}}]\n\
             users: [{{name: a, user: {{token: t}}}}]\n"
        );
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "second"},
            "stringData": {"kubeconfig": kubeconfig},
        })
    };
    let write = async |server: &str| {
        let params = PatchParams::apply("test").force();
        secrets.patch("second", &params, &Patch::Apply(secret(server))).await.unwrap();
    };
    write("one.example.com").await;
    let driver = Arc::new(InMemory::default());
    driver.finish("shop");
    let running = Running::of(Registered(Arc::clone(&driver)), server.client.clone(), |_| {});
    server.create_site(json!({})).await;
    server.site_is("Provisioned", "").await;
    a_visit_asks_nothing_of(&server, "shop").await;
    a_visit_asks_nothing_of(&server, "second").await;

    // What changes is taken up all the same.
    let newer = Patch::Merge(json!({"spec": spec(|version| version.release = Some("two".to_owned()))}));
    published.patch("shop", &PatchParams::default(), &newer).await.unwrap();
    eventually("the newer release is asked for", async || {
        let release = driver.applications()["shop"].release.clone();
        if release.as_deref() == Some("two") { Ok(()) } else { Err(format!("{release:?}")) }
    })
    .await;
    write("two.example.com").await;
    let sealed: Api<Secret> = Api::namespaced(server.observer(), "argocd");
    eventually("the registration follows the kubeconfig", async || {
        let found = sealed.list(&ListParams::default()).await.unwrap().items.remove(0).data.unwrap();
        let told = String::from_utf8(found["server"].0.clone()).unwrap();
        if told == "https://two.example.com" { Ok(()) } else { Err(told) }
    })
    .await;
    secrets.delete("second", &DeleteParams::default()).await.unwrap();
    server.site_is("Provisioning", "Secret default/second is not there yet").await;
    running.stop().await;
}

/// A shop from where it is published, and a cluster that Argo CD is told of.
struct Registered(Arc<InMemory>);

impl ManagerProvisioner for Registered {
    type Object = Site;

    fn tree(&self, _site: &Site) -> Result<Node<Scope>, ProvisionError> {
        let catalogue = Arc::new(PublishedCatalogue { namespace: "default".to_owned() });
        let driver: Arc<InMemory> = Arc::clone(&self.0);
        let argo = ArgoCd { namespace: "argocd".to_owned(), project: "default".to_owned() };
        let second = KubeconfigSecret::new("second", "default", "second", "kubeconfig");
        let registration = Registration::new(Arc::new(argo), second);
        let shop = Application::new("shop", "shop", "1.x", catalogue, driver);
        Ok(serial("site", [leaf(shop), leaf(registration)]))
    }
}

/// Adds everything that can be added.
struct Everything;

fn parameter(name: &str, value: &str) -> Parameter {
    Parameter { name: name.to_owned(), value: value.to_owned() }
}

#[async_trait]
impl Generator for Everything {
    async fn release(&self, _scope: &Scope, version: &str) -> Result<Option<String>, ProvisionError> {
        Ok(Some(format!("shop-of-{version}")))
    }

    async fn parameters(&self, _scope: &Scope, _version: &str) -> Result<Vec<Parameter>, ProvisionError> {
        Ok(vec![parameter("c", "3"), parameter("a", "ours")])
    }

    async fn values(&self, _scope: &Scope, _version: &str) -> Result<Option<Value>, ProvisionError> {
        Ok(Some(json!({"size": 2})))
    }

    async fn namespace_labels(&self, _scope: &Scope) -> Result<BTreeMap<String, String>, ProvisionError> {
        Ok(BTreeMap::from([("team".to_owned(), "a".to_owned())]))
    }

    fn allows_degraded(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn what_a_generator_adds_wins_over_the_catalogue_and_nothing_is_added_without_one() {
    let scope = Server::new().scope("owner");
    let spec = spec(|version| {
        version.release = Some("theirs".to_owned());
        version.parameters = vec![parameter("a", "1"), parameter("b", "2")];
        version.namespace = Some("shops".to_owned());
        (version.create_namespace, version.server_side_apply) = (true, true);
    });
    let catalogue = Arc::new(BTreeMap::from([("shop".to_owned(), spec)]));
    let desired = async |change: fn(Application) -> Application| {
        let driver = Arc::new(InMemory::default());
        let by: Arc<dyn Driver> = Arc::<InMemory>::clone(&driver);
        let shop =
            change(Application::new("shop", "shop", "v1.0.0", Arc::<BTreeMap<_, _>>::clone(&catalogue), by));
        assert!(!shop.provision(&scope).await.unwrap().is_ready());
        driver.applications().remove("shop").unwrap()
    };
    let plain = desired(|shop| shop).await;
    assert_eq!(plain.release.as_deref(), Some("theirs"));
    assert_eq!(plain.parameters, [parameter("a", "1"), parameter("b", "2")]);
    assert_eq!((plain.namespace.as_str(), plain.values.as_ref()), ("shops", None));
    assert!(plain.create_namespace && plain.server_side_apply && !plain.allow_degraded);
    assert!(plain.namespace_labels.is_empty());

    let added = desired(|shop| shop.generated_by(Arc::new(Everything)).in_namespace("mine")).await;
    assert_eq!(added.release.as_deref(), Some("shop-of-1.0.0"));
    let order = [parameter("a", "ours"), parameter("b", "2"), parameter("c", "3")];
    assert_eq!(added.parameters, order, "the catalogue's order, then the generator's");
    assert_eq!((added.namespace.as_str(), added.values), ("mine", Some(json!({"size": 2}))));
    assert!(added.allow_degraded && added.namespace_labels["team"] == "a");
}

#[tokio::test]
async fn two_applications_of_one_identity_are_named_in_memory_as_by_the_other_drivers() {
    let (scope, driver) = (Server::new().scope("owner"), Arc::new(InMemory::default()));
    driver.finish("shop");
    let catalogue = Arc::new(BTreeMap::from([("shop".to_owned(), spec(|_| {}))]));
    let shop = Application::new("shop", "shop", "1.0.0", catalogue, Arc::<InMemory>::clone(&driver));
    assert!(shop.provision(&scope).await.unwrap().is_ready());
    let desired = driver.applications().remove("shop").unwrap();
    let ours = Identity::new("shop", [("owner", "owner"), ("cluster", "")]);
    let copy = Identity { name: "copy".to_owned(), ..ours.clone() };
    // Another owner's is another.
    let other = Identity::new("shop", [("owner", "other"), ("cluster", "")]);
    let _ = driver.apply(&scope, &other, &desired).await.unwrap();
    assert!(shop.provision(&scope).await.unwrap().is_ready());

    let error = driver.apply(&scope, &copy, &desired).await.unwrap_err();
    assert_eq!((error.reason, error.disposition), (Reason::AmbiguousIdentity, Disposition::UserAction));
    assert_eq!(error.message, "copy has more than one application: shop");
    assert!(!driver.applications().contains_key("copy"), "nothing was written");
    assert!(driver.delete(&scope, &ours).await.unwrap().is_ready());
    let _ = driver.apply(&scope, &copy, &desired).await.unwrap();
    let error = shop.provision(&scope).await.unwrap_err();
    assert_eq!(error.message, "shop has more than one application: copy");
}

#[tokio::test]
async fn a_version_with_a_chart_and_a_branch_or_with_neither_is_named() {
    let scope = Server::new().scope("owner");
    for (chart, branch) in [(Some("shop"), Some("main")), (None, None)] {
        let spec = spec(|version| {
            (version.chart, version.branch) = (chart.map(str::to_owned), branch.map(str::to_owned));
        });
        let catalogue = Arc::new(BTreeMap::from([("shop".to_owned(), spec)]));
        let shop = Application::new("shop", "shop", "1.0.0", catalogue, Arc::new(InMemory::default()));
        let error = shop.provision(&scope).await.unwrap_err();
        assert_eq!(error.message, "version 1.0.0 in the catalogue has to have a chart or a branch");
    }
}
