//! `GET …/resources`.

use kube::api::PostParams;
use serde_json::json;
use windlass_api::{Dashboard, annotations, labels};

use crate::kit::World;

#[tokio::test]
async fn what_a_repository_manages_is_listed_by_path() {
    let world = World::new();
    for (name, path, repository) in
        [("b", "x/b.json", "test6"), ("a", "a.json", "test6"), ("c", "c.json", "other")]
    {
        let document: Dashboard = serde_json::from_value(json!({
            "apiVersion": "dashboard.grafana.app/v1beta1", "kind": "Dashboard",
            "metadata": {
                "name": name,
                "labels": {labels::MANAGED_BY_ID: repository},
                "annotations": {
                    annotations::MANAGED_BY: "repo", annotations::MANAGER_ID: repository,
                    annotations::SOURCE_PATH: path, annotations::SOURCE_CHECKSUM: "1234",
                },
            },
            "spec": {"title": name},
        }))
        .unwrap();
        world.api::<Dashboard>().create(&PostParams::default(), &document).await.unwrap();
    }
    let (code, list) = world.send("GET", "test6/resources", "").await;
    assert_eq!((code, &list["kind"]), (200, &json!("ResourceList")), "{list}");
    let items: Vec<(&str, &str, &str)> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| {
            let text = |field: &str| item[field].as_str().unwrap();
            (text("path"), text("name"), text("resource"))
        })
        .collect();
    assert_eq!(items, [("a.json", "a", "dashboards"), ("x/b.json", "b", "dashboards")]);
    assert_eq!(list["items"][0]["hash"], "1234");
    let (code, list) = world.send("GET", "nothing/resources", "").await;
    assert_eq!((code, &list["items"]), (200, &json!([])), "also of a repository that is gone, or never was");
}
