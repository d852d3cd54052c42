//! Kinds beside folders and dashboards, on the embedded server and on a real one.

use http::{Method, StatusCode};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use windlass_cluster::{Cluster, Namespace};
use windlass_resources::{Reason, finalize, list_resources};

use crate::finalize::job;
use crate::world::{World, dashboard};

const WIDGETS: &str = "widgets.example.com";

fn definition(scope: &str, kind: &str, plural: &str) -> CustomResourceDefinition {
    let schema = json!({
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "size": {"type": "integer"},
                    "colour": {"type": "string", "default": "grey"},
                    "parts": {"type": "object", "additionalProperties": {"type": "string"}},
                },
            },
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        },
    });
    serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com",
            "names": {
                "kind": kind, "plural": plural, "singular": kind.to_lowercase(),
                "listKind": format!("{kind}List"),
            },
            "scope": scope,
            "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}},
                {"name": "v2", "served": true, "storage": false, "schema": {"openAPIV3Schema": schema}},
            ],
        },
    }))
    .unwrap()
}

/// The server that a test runs against.
enum On {
    Embedded,
    Real(Box<Namespace>, Cluster),
}

/// The real server, if there is one.
async fn real() -> Option<On> {
    let cluster = Cluster::shared().await.unwrap()?;
    let namespace = Box::new(cluster.namespace("further").await.unwrap());
    Some(On::Real(namespace, cluster))
}

impl On {
    /// A world whose settings allow these kinds, and no object in it.
    async fn allowing(&self, kinds: &[&str]) -> World {
        match self {
            Self::Embedded => World::allowing(kinds),
            Self::Real(namespace, cluster) => {
                World::over(cluster.admin().await.unwrap(), namespace.name(), kinds)
            }
        }
    }

    /// A world in which config maps and widgets may be written, and are served.
    async fn world(&self) -> World {
        let world = self.allowing(&["configmaps", WIDGETS]).await;
        define(&world, &definition("Namespaced", "Widget", "widgets")).await;
        world
    }
}

/// Makes two tests of one: on the embedded server, and on a real one.
macro_rules! on_both {
    ($($name:ident)*) => {$(
        mod $name {
            #[tokio::test]
            async fn on_the_embedded_server() {
                super::$name(super::On::Embedded).await;
            }

            #[tokio::test]
            async fn on_a_real_server() {
                if let Some(real) = super::real().await {
                    super::$name(real).await;
                }
            }
        }
    )*};
}

on_both! {
    files_of_allowed_kinds_become_objects_that_are_marked_as_dashboards_are
    what_a_file_drops_goes_and_what_others_set_stays
    what_somebody_else_made_is_reported_and_not_applied_over
    an_object_that_was_deleted_meanwhile_is_not_brought_back_by_a_late_update
    a_file_that_moves_keeps_its_object_and_one_that_goes_takes_it_along
    a_difference_of_two_revisions_knows_every_kind
    kinds_versions_and_scopes_that_will_not_do_are_named
    a_dry_run_applies_nothing
    what_others_changed_is_set_back_by_a_full_comparison
    releasing_and_removing_reach_every_kind
}

/// Defines a kind, unless it is defined already, and waits until it is served.
async fn define(world: &World, definition: &CustomResourceDefinition) {
    let api: Api<CustomResourceDefinition> = Api::all(world.client());
    match api.create(&PostParams::default(), definition).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        other => drop(other.unwrap()),
    }
    let name = definition.metadata.name.as_deref().unwrap();
    let established = kube::runtime::conditions::is_crd_established();
    kube::runtime::wait::await_condition(api, name, established).await.unwrap();
    // A real server serves it a moment after it says so.
    let path = format!("/apis/example.com/v1/{}", definition.spec.names.plural);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    loop {
        let list = http::Request::get(&path).body(Vec::new()).unwrap();
        match world.client().request::<Value>(list).await {
            Ok(_) => break,
            Err(error) => assert!(std::time::Instant::now() < until, "{name} is never served: {error}"),
        }
        tokio::task::yield_now().await;
    }
    world.requests();
}

fn widgets(world: &World) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("example.com", "v1", "Widget");
    let resource = ApiResource::from_gvk_with_plural(&kind, "widgets");
    Api::namespaced_with(world.client(), &world.context.namespace, &resource)
}

fn config_maps(world: &World) -> Api<ConfigMap> {
    Api::namespaced(world.client(), &world.context.namespace)
}

fn widget(name: &str, spec: &Value) -> String {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
        .to_string()
}

fn config_map(name: &str, data: &Value) -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}).to_string()
}

async fn files_of_allowed_kinds_become_objects_that_are_marked_as_dashboards_are(on: On) {
    let mut world = on.world().await;
    world
        .write(
            "app/settings.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: '1'}\nimmutable: false\n",
        )
        .write("app/widget.json", &widget("w", &json!({"size": 2})))
        .write("app/board.json", &dashboard("board", "Board"));
    let synced = world.sync().await;
    assert_eq!(
        (synced.summary.created, synced.summary.warnings, synced.summary.errors),
        (4, 0, 0),
        "{synced:#?}"
    );
    let map = config_maps(&world).get("settings").await.unwrap();
    assert_eq!((json!(map.data), map.immutable), (json!({"a": "1"}), Some(false)));
    let object = widgets(&world).get("w").await.unwrap();
    assert_eq!(object.data["spec"], json!({"size": 2, "colour": "grey"}));
    for metadata in [map.metadata, object.metadata] {
        assert_eq!(metadata.labels.unwrap()["windlass.dev/managed-by"], "test6");
        let annotations = metadata.annotations.unwrap();
        assert_eq!(annotations["grafana.app/managerId"], "test6");
        assert!(annotations["grafana.app/sourcePath"].starts_with("app/"), "{annotations:?}");
        assert_eq!(annotations["grafana.app/sourceChecksum"].len(), 40);
        assert!(annotations["grafana.app/folder"].starts_with("app-"));
    }
    let plan = world.plan().await;
    assert!(plan.is_empty(), "{plan}");
    let listed = list_resources(&world.clients, &world.context.namespace, "test6").await.unwrap();
    let listed: Vec<_> =
        listed.items.iter().map(|item| format!("{} {}", item.group, item.resource)).collect();
    for expected in ["example.com widgets", " configmaps", "dashboard.grafana.app dashboards"] {
        assert!(listed.iter().any(|item| item == expected), "{listed:?}");
    }
}

async fn what_a_file_drops_goes_and_what_others_set_stays(on: On) {
    let mut world = on.world().await;
    let labelled = json!({
        "apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "w", "labels": {"team": "a"}},
        "spec": {"size": 2, "parts": {"ours": "1"}},
        "status": {"never": "written"},
    });
    world.write("w.json", &labelled.to_string());
    world.sync().await;
    let theirs = json!({"metadata": {"labels": {"theirs": "1"}}, "spec": {"parts": {"theirs": "2"}}});
    widgets(&world).patch("w", &PatchParams::default(), &Patch::Merge(theirs)).await.unwrap();
    let before = widgets(&world).get("w").await.unwrap();
    assert_eq!(before.data.get("status"), None);

    world.write("w.json", &widget("w", &json!({"colour": "red", "parts": {}})));
    let synced = world.sync().await;
    if let On::Embedded = on {
        assert_eq!(synced.requests, ["PATCH widgets/w"], "one request under the version that was listed");
    }
    let after = widgets(&world).get("w").await.unwrap();
    assert_eq!(after.metadata.uid, before.metadata.uid);
    assert_eq!(after.data["spec"], json!({"colour": "red", "parts": {"theirs": "2"}}));
    let labels = json!({"theirs": "1", "windlass.dev/managed-by": "test6"});
    assert_eq!(json!(after.metadata.labels), labels);
}

async fn what_somebody_else_made_is_reported_and_not_applied_over(on: On) {
    let mut world = on.world().await;
    let theirs: ConfigMap = serde_json::from_str(&config_map("settings", &json!({"theirs": "1"}))).unwrap();
    config_maps(&world).create(&PostParams::default(), &theirs).await.unwrap();
    world.write("settings.json", &config_map("settings", &json!({"ours": "1"})));
    let synced = world.sync().await;
    let failure = synced.failure("settings.json");
    assert!(failure.warning && failure.message.contains("is not managed by a repository"), "{failure}");
    assert_eq!(json!(config_maps(&world).get("settings").await.unwrap().data), json!({"theirs": "1"}));
}

async fn an_object_that_was_deleted_meanwhile_is_not_brought_back_by_a_late_update(on: On) {
    let mut world = on.world().await;
    world.write("w.json", &widget("w", &json!({"size": 1})));
    world.sync().await;
    world.write("w.json", &widget("w", &json!({"size": 2})));
    let plan = world.plan().await;
    let api = widgets(&world);
    api.delete("w", &kube::api::DeleteParams::default()).await.unwrap();
    let again: DynamicObject = serde_json::from_str(&widget("w", &json!({"size": 9}))).unwrap();
    api.create(&PostParams::default(), &again).await.unwrap();
    let synced = world.apply(plan).await;
    assert!(synced.failure("w.json").message.contains("is not managed"), "{synced:#?}");
    assert_eq!(api.get("w").await.unwrap().data["spec"]["size"], 9);
}

async fn a_file_that_moves_keeps_its_object_and_one_that_goes_takes_it_along(on: On) {
    let mut world = on.world().await;
    world.write("a/w.json", &widget("w", &json!({}))).write("m.json", &config_map("m", &json!({})));
    world.sync().await;
    let before = widgets(&world).get("w").await.unwrap();
    world.rename("a/w.json", "b/w.json").remove("m.json");
    let synced = world.sync().await;
    assert_eq!(synced.outcomes(), ["created b", "deleted a", "deleted m.json", "renamed b/w.json"]);
    assert_eq!(widgets(&world).get("w").await.unwrap().metadata.uid, before.metadata.uid);
    assert!(config_maps(&world).get_opt("m").await.unwrap().is_none());
}

async fn a_difference_of_two_revisions_knows_every_kind(on: On) {
    let mut world = on.world().await;
    world
        .write("gone.json", &config_map("gone", &json!({})))
        .write("turns.json", &dashboard("turns", "A dashboard at first"))
        .write("w.json", &widget("w", &json!({"size": 1})));
    world.sync().await;
    let before = world.files.clone();
    world
        .remove("gone.json")
        .write("turns.json", &config_map("turns", &json!({"k": "v"})))
        .write("w.json", &widget("w", &json!({"size": 2})));
    let synced = world.sync_from(&before).await;
    assert_eq!((synced.summary.errors, synced.summary.warnings), (0, 0), "{synced:#?}");
    assert!(config_maps(&world).get_opt("gone").await.unwrap().is_none());
    assert!(world.dashboards().get_opt("turns").await.unwrap().is_none(), "it is a config map now");
    assert_eq!(json!(config_maps(&world).get("turns").await.unwrap().data), json!({"k": "v"}));
    assert_eq!(widgets(&world).get("w").await.unwrap().data["spec"]["size"], 2);
    let plan = world.plan().await;
    assert!(plan.is_empty(), "{plan}");
}

#[tokio::test]
async fn a_kind_that_is_not_served_is_named_and_found_once_it_is_defined() {
    let mut world = World::allowing(&[WIDGETS]);
    world.write("w.json", &widget("w", &json!({}))).write("fine.json", &dashboard("fine", "Fine"));
    let synced = world.sync().await;
    let failure = synced.failure("w.json");
    assert_eq!((failure.warning, failure.reason), (true, Reason::ResourceInvalid));
    assert!(
        failure.message.contains("widgets.example.com, which the API server does not serve"),
        "{failure}"
    );
    assert_eq!(synced.summary.created, 1);
    define(&world, &definition("Namespaced", "Widget", "widgets")).await;
    assert_eq!(world.sync().await.outcomes(), ["created w.json"]);
}

async fn kinds_versions_and_scopes_that_will_not_do_are_named(on: On) {
    let mut world = on.allowing(&["widgets.example.com", "plants.example.com"]).await;
    define(&world, &definition("Namespaced", "Widget", "widgets")).await;
    define(&world, &definition("Cluster", "Plant", "plants")).await;
    let other = |version: &str, kind: &str| {
        json!({"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": {}}).to_string()
    };
    world
        .write("plant.json", &other("example.com/v1", "Plant"))
        .write("old.json", &other("example.com/v0", "Widget"))
        .write("map.json", &other("v1", "ConfigMap"))
        .write("secret.json", &other("v1", "Secret"))
        .write("v2.json", &other("example.com/v2", "Widget"))
        .write("typo.json", &widget("typo", &json!({"sizes": 1})))
        .write("capitals.json", &widget("CapitalLetters", &json!({})));
    let synced = world.sync().await;
    for (path, expected) in [
        ("plant.json", "plants.example.com are in no namespace"),
        ("old.json", "widgets.example.com of version \"v0\" are not supported; use one of v2, v1"),
        (
            "map.json",
            "a repository manages dashboards and folders, and plants.example.com, widgets.example.com; resource_kinds of \
             [provisioning] allows more",
        ),
        ("secret.json", "kind \"Secret\""),
        ("typo.json", "sizes"),
        ("capitals.json", "CapitalLetters"),
    ] {
        let failure = synced.failure(path);
        assert!(failure.message.contains(expected), "{path}: {failure}");
        assert!(failure.warning, "{path}: the pull goes on: {failure}");
    }
    assert_eq!(synced.summary.created, 1);
    assert!(widgets(&world).get_opt("x").await.unwrap().is_some());
}

#[tokio::test]
async fn a_discovery_that_fails_is_an_error_of_the_files_that_need_it() {
    let mut world = World::allowing(&[WIDGETS]);
    world.write("w.json", &widget("w", &json!({}))).write("fine.json", &dashboard("fine", "Fine"));
    let plan = world.plan().await;
    world.fail(|method, path| {
        (*method == Method::GET && path == "/apis/example.com").then_some(StatusCode::FORBIDDEN)
    });
    let synced = world.apply(plan).await;
    let failure = synced.failure("w.json");
    assert_eq!((failure.warning, failure.reason), (false, Reason::ApiError), "{failure}");
    assert_eq!(synced.outcomes(), ["created fine.json", "created w.json: ApiError"]);
    let error = world.managed().await.complete("test6", |_| true).unwrap_err();
    assert!(error.to_string().contains(WIDGETS), "what is managed is not known: {error}");
}

async fn what_others_changed_is_set_back_by_a_full_comparison(on: On) {
    let mut world = on.world().await;
    world
        .write("w.json", &widget("w", &json!({"size": 1, "parts": {"a": "1"}})))
        .write("m.json", &config_map("m", &json!({"k": "v", "l": "w"})));
    world.sync().await;
    assert!(world.plan().await.is_empty());
    let params = PatchParams { field_manager: Some("somebody".to_owned()), ..PatchParams::default() };
    let edits = Patch::Merge(json!({"spec": {"size": 9, "parts": {"a": null}}}));
    widgets(&world).patch("w", &params, &edits).await.unwrap();
    config_maps(&world).patch("m", &params, &Patch::Merge(json!({"data": {"k": "x"}}))).await.unwrap();
    let synced = world.sync().await;
    assert_eq!(synced.outcomes(), ["updated m.json", "updated w.json"]);
    assert!(synced.results.iter().all(|item| item.drifted), "{synced:#?}");
    let map = config_maps(&world).get("m").await.unwrap();
    assert_eq!(json!(map.data), json!({"k": "v", "l": "w"}));
    let spec = &widgets(&world).get("w").await.unwrap().data["spec"];
    assert_eq!((&spec["size"], &spec["parts"]), (&json!(1), &json!({"a": "1"})));
    // What somebody adds of their own is none of our business, and not reported.
    let theirs = Patch::Merge(json!({"data": {"theirs": "1"}}));
    config_maps(&world).patch("m", &params, &theirs).await.unwrap();
    let synced = world.sync().await;
    assert!(
        synced.outcomes().iter().all(|outcome| outcome.starts_with("ignored")),
        "{:?}",
        synced.outcomes()
    );
    assert_eq!(config_maps(&world).get("m").await.unwrap().data.unwrap()["theirs"], "1");
}

async fn a_dry_run_applies_nothing(on: On) {
    let mut world = on.world().await;
    world.write("w.json", &widget("w", &json!({})));
    world.options.dry_run = true;
    assert_eq!(world.sync().await.outcomes(), ["created w.json"]);
    assert!(widgets(&world).get_opt("w").await.unwrap().is_none());
}

async fn releasing_and_removing_reach_every_kind(on: On) {
    let mut world = on.world().await;
    world.write("w.json", &widget("w", &json!({}))).write("m.json", &config_map("m", &json!({})));
    world.sync().await;
    let (release, _) = job(&world);
    let released = finalize::release(&release).await.unwrap();
    assert!(released.is_complete() && released.found == 2, "{released:?}");
    let map = config_maps(&world).get("m").await.unwrap();
    assert_eq!(map.metadata.annotations, None);
    assert_eq!(map.metadata.labels, None);

    let all = kube::api::DeleteParams::default();
    config_maps(&world).delete("m", &all).await.unwrap();
    widgets(&world).delete("w", &all).await.unwrap();
    world.write("w.json", &widget("w", &json!({}))).write("m.json", &config_map("m", &json!({})));
    world.sync().await;
    let (remove, _) = job(&world);
    assert!(finalize::remove(&remove).await.unwrap().is_complete());
    assert!(widgets(&world).get_opt("w").await.unwrap().is_none());
    assert!(config_maps(&world).get_opt("m").await.unwrap().is_none());
}
