//! Applications through the drivers of Flux and Argo CD; the test writes the status that their controllers would.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::{Api, CustomResourceExt as _};
use serde_json::{Value, json};
use windlass_provisioner::{
    Application, ArgoCd, Disposition, Driver, Flux, Generator, HelmApplication, HelmApplicationSpec,
    HelmApplicationVersion, IDENTITY, Identity, Outcome, Owner, Parameter, ProvisionError, Provisioner as _,
    PublishedCatalogue, Reason, Scope, Visited,
};

use crate::server::{Server, define};

fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    let api_version = format!("{group}/{version}");
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version,
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

fn server() -> Server {
    Server::with(vec![
        define("source.toolkit.fluxcd.io", "v1", "HelmRepository", "helmrepositories"),
        define("source.toolkit.fluxcd.io", "v1", "GitRepository", "gitrepositories"),
        define("helm.toolkit.fluxcd.io", "v2", "HelmRelease", "helmreleases"),
        define("kustomize.toolkit.fluxcd.io", "v1", "Kustomization", "kustomizations"),
        define("argoproj.io", "v1alpha1", "Application", "applications"),
    ])
}

fn api(server: &Server, kind: &ApiResource) -> Api<DynamicObject> {
    Api::namespaced_with(server.observer(), "default", kind)
}

async fn only(api: &Api<DynamicObject>) -> DynamicObject {
    let mut found = api.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(found.len(), 1, "{found:#?}");
    found.remove(0)
}

async fn set_status(api: &Api<DynamicObject>, object: &DynamicObject, status: Value) {
    let name = object.metadata.name.as_deref().unwrap();
    api.patch_status(name, &PatchParams::default(), &Patch::Merge(json!({"status": status}))).await.unwrap();
}

#[derive(Default)]
struct Counted {
    up: AtomicUsize,
    down: AtomicUsize,
    twice: bool,
}

#[async_trait]
impl Generator for Counted {
    async fn parameters(&self, _scope: &Scope, _version: &str) -> Result<Vec<Parameter>, ProvisionError> {
        let parameter =
            |name: &str, value: &str| Parameter { name: name.to_owned(), value: value.to_owned() };
        let last = if self.twice { "image.tag" } else { "replicas" };
        Ok(vec![parameter("image.tag", "2"), parameter(last, "3")])
    }

    async fn after_provision(&self, _scope: &Scope) -> Visited {
        self.up.fetch_add(1, Ordering::SeqCst);
        Ok(Outcome::Ready)
    }

    async fn before_deprovision(&self, _scope: &Scope) -> Visited {
        self.down.fetch_add(1, Ordering::SeqCst);
        Ok(Outcome::Ready)
    }
}

fn application(driver: impl Driver + 'static, generator: &Arc<Counted>, branch: Option<&str>) -> Application {
    let version = HelmApplicationVersion {
        version: "1.0.0".to_owned(),
        repo: "https://example.com/repo".to_owned(),
        chart: branch.is_none().then(|| "shop".to_owned()),
        branch: branch.map(str::to_owned),
        path: Some("deploy".to_owned()),
        kustomize: branch.is_some(),
        parameters: vec![Parameter { name: "image.tag".to_owned(), value: "1".to_owned() }],
        ..HelmApplicationVersion::default()
    };
    let spec = HelmApplicationSpec { versions: vec![version], ..HelmApplicationSpec::default() };
    let catalogue = Arc::new(BTreeMap::from([("shop".to_owned(), spec)]));
    let generator: Arc<Counted> = Arc::clone(generator);
    Application::new("shop", "shop", "1.0.0", catalogue, Arc::new(driver)).generated_by(generator)
}

fn flux() -> Flux {
    Flux { namespace: "default".to_owned(), interval: "10m".to_owned(), labels: BTreeMap::new() }
}

fn reason(outcome: &Outcome) -> Option<Reason> {
    match outcome {
        Outcome::Ready => None,
        Outcome::Yield { reason, .. } => Some(*reason),
    }
}

#[tokio::test]
async fn flux_is_asked_for_a_release_and_believed_when_it_has_seen_it() {
    let (server, generator) = (server(), Arc::new(Counted::default()));
    let scope = server.scope("owner");
    let shop = application(flux(), &generator, None);
    let releases = api(&server, &resource("helm.toolkit.fluxcd.io", "v2", "HelmRelease", "helmreleases"));
    assert_eq!(reason(&shop.provision(&scope).await.unwrap()), Some(Reason::NotReady));
    let release = only(&releases).await;
    assert_eq!(release.data["spec"]["values"], json!({"image": {"tag": "2"}, "replicas": "3"}));
    assert_eq!(release.data["spec"]["chart"]["spec"]["version"], "1.0.0");
    let ready = json!([{"type": "Ready", "status": "True"}]);
    set_status(&releases, &release, json!({"observedGeneration": 0, "conditions": ready})).await;
    assert_eq!(reason(&shop.provision(&scope).await.unwrap()), Some(Reason::NotReady), "of an older spec");
    let generation = release.metadata.generation.unwrap();
    set_status(&releases, &release, json!({"observedGeneration": generation, "conditions": ready})).await;
    for _ in 0..2 {
        assert!(shop.provision(&scope).await.unwrap().is_ready());
    }
    while !shop.deprovision(&scope).await.unwrap().is_ready() {}
    assert!(releases.list(&ListParams::default()).await.unwrap().items.is_empty());
    let hooks = (generator.up.load(Ordering::SeqCst), generator.down.load(Ordering::SeqCst));
    assert_eq!(hooks, (1, 1), "once for the generation");
}

#[tokio::test]
async fn flux_applies_a_kustomization_on_another_cluster_by_its_registered_kubeconfig() {
    let (server, generator) = (server(), Arc::new(Counted::default()));
    let scope = server.scope("owner");
    let remote =
        windlass_provisioner::Cluster::remote("second", server.client.clone(), scope.calls().clone());
    let shop = application(flux(), &generator, Some("main"));
    assert!(flux().register(&scope, "second", &"kubeconfig".to_owned().into()).await.unwrap().is_ready());
    let sources =
        api(&server, &resource("source.toolkit.fluxcd.io", "v1", "GitRepository", "gitrepositories"));
    assert_eq!(reason(&shop.provision(&scope.on(remote.clone())).await.unwrap()), Some(Reason::NotReady));
    let source = only(&sources).await;
    let ready = json!([{"type": "Ready", "status": "True"}]);
    set_status(
        &sources,
        &source,
        json!({"observedGeneration": source.metadata.generation, "conditions": ready}),
    )
    .await;
    let _ = shop.provision(&scope.on(remote)).await.unwrap();
    let kinds = resource("kustomize.toolkit.fluxcd.io", "v1", "Kustomization", "kustomizations");
    let asked = only(&api(&server, &kinds)).await;
    let named = asked.data["spec"]["kubeConfig"]["secretRef"]["name"].as_str().unwrap().to_owned();
    let secrets: Api<k8s_openapi::api::core::v1::Secret> = Api::namespaced(server.observer(), "default");
    assert_eq!(secrets.get(&named).await.unwrap().data.unwrap()["value"].0, b"kubeconfig");
    assert!(flux().unregister(&scope, "second").await.unwrap().is_ready());
    assert!(secrets.get_opt(&named).await.unwrap().is_none());
}

#[tokio::test]
async fn argo_cd_cascades_without_automated_sync_and_its_end_is_awaited() {
    let (server, generator) = (server(), Arc::new(Counted::default()));
    let scope = server.scope("owner");
    let argo = ArgoCd { namespace: "default".to_owned(), project: "default".to_owned() };
    let shop = application(argo, &generator, None);
    let applications = api(&server, &resource("argoproj.io", "v1alpha1", "Application", "applications"));
    assert_eq!(reason(&shop.provision(&scope).await.unwrap()), Some(Reason::NotReady));
    let found = only(&applications).await;
    assert_eq!(found.data["spec"]["destination"], json!({"name": "in-cluster", "namespace": "default"}));
    let source = found.data["spec"]["source"].clone();
    let status = json!({
        "sync": {"status": "Synced", "comparedTo": {"source": source}}, "health": {"status": "Healthy"},
    });
    set_status(&applications, &found, status).await;
    assert!(shop.provision(&scope).await.unwrap().is_ready());

    for _ in 0..2 {
        assert_eq!(reason(&shop.deprovision(&scope).await.unwrap()), Some(Reason::Deleting));
    }
    let going = only(&applications).await;
    assert_eq!(going.metadata.finalizers.clone().unwrap(), ["resources-finalizer.argocd.argoproj.io"]);
    assert_eq!(going.data["spec"]["syncPolicy"]["automated"], Value::Null);
    let done = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    applications
        .patch(going.metadata.name.as_deref().unwrap(), &PatchParams::default(), &done)
        .await
        .unwrap();
    assert!(shop.deprovision(&scope).await.unwrap().is_ready());
}

#[tokio::test]
async fn two_applications_of_one_identity_and_a_parameter_given_twice_are_named() {
    let server = server();
    let scope = server.scope("owner");
    let argo = ArgoCd { namespace: "default".to_owned(), project: "default".to_owned() };
    let cases = [
        (
            application(flux(), &Arc::default(), None),
            resource("helm.toolkit.fluxcd.io", "v2", "HelmRelease", "helmreleases"),
        ),
        (
            application(flux(), &Arc::default(), Some("main")),
            resource("kustomize.toolkit.fluxcd.io", "v1", "Kustomization", "kustomizations"),
        ),
        (
            application(argo, &Arc::default(), None),
            resource("argoproj.io", "v1alpha1", "Application", "applications"),
        ),
    ];
    for (shop, kind) in cases {
        let objects = api(&server, &kind);
        let owner = Owner { uid: kind.kind.clone(), ..Owner::default() };
        let scope = Scope { owner, ..scope.clone() };
        let _ = shop.provision(&scope).await.unwrap();
        let key = Identity::new("shop", [("owner", kind.kind.as_str()), ("cluster", "")]).key;
        let mut copy = DynamicObject::new("copy", &kind).data(json!({"spec": {}}));
        copy.metadata.labels = Some(BTreeMap::from([(IDENTITY.to_owned(), key)]));
        objects.create(&PostParams::default(), &copy).await.unwrap();
        let error = shop.provision(&scope).await.unwrap_err();
        assert_eq!((error.reason, error.disposition), (Reason::AmbiguousIdentity, Disposition::UserAction));
        assert_eq!(error.message, "shop has more than one application: copy", "{}", kind.kind);
        // It lasts no longer than its cause.
        objects.delete("copy", &DeleteParams::default()).await.unwrap();
        assert_eq!(reason(&shop.provision(&scope).await.unwrap()), Some(Reason::NotReady));
    }

    let twice = Arc::new(Counted { twice: true, ..Counted::default() });
    let error = application(flux(), &twice, None).provision(&scope).await.unwrap_err();
    assert_eq!(error.message, "the parameter image.tag is given twice");
}

#[tokio::test]
async fn applications_are_looked_up_where_they_are_published_but_not_to_remove_them() {
    let mut definitions = vec![
        define("source.toolkit.fluxcd.io", "v1", "HelmRepository", "helmrepositories"),
        define("helm.toolkit.fluxcd.io", "v2", "HelmRelease", "helmreleases"),
    ];
    definitions.push(HelmApplication::crd());
    let server = Server::with(definitions);
    let scope = server.scope("owner");
    let catalogue = Arc::new(PublishedCatalogue { namespace: "default".to_owned() });
    let shop = Application::new("shop", "shop", "v1.0.0", catalogue, Arc::new(flux()));
    let error = shop.provision(&scope).await.unwrap_err();
    assert_eq!((error.reason, error.disposition), (Reason::ApplicationNotFound, Disposition::UserAction));
    assert_eq!(error.message, "the catalogue has no application shop");

    let published: Api<HelmApplication> = Api::namespaced(server.observer(), "default");
    let version = HelmApplicationVersion {
        version: "1.0.0".to_owned(),
        repo: "https://example.com/repo".to_owned(),
        chart: Some("shop".to_owned()),
        ..HelmApplicationVersion::default()
    };
    let spec = HelmApplicationSpec { versions: vec![version], ..HelmApplicationSpec::default() };
    published.create(&PostParams::default(), &HelmApplication::new("shop", spec)).await.unwrap();
    assert_eq!(reason(&shop.provision(&scope).await.unwrap()), Some(Reason::NotReady));
    let releases = api(&server, &resource("helm.toolkit.fluxcd.io", "v2", "HelmRelease", "helmreleases"));
    assert_eq!(only(&releases).await.data["spec"]["chart"]["spec"]["version"], "1.0.0");

    published.delete("shop", &DeleteParams::default()).await.unwrap();
    while !shop.deprovision(&scope).await.unwrap().is_ready() {}
    assert!(releases.list(&ListParams::default()).await.unwrap().items.is_empty());
}
