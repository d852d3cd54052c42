//! An operator that is told to keep to one namespace.

use serde_json::json;
use windlass_api::{HistoricJob, Repository};
use windlass_jobs_operator::PROVISIONING_JOBS;
use windlass_repository_operator::{PROVISIONING_REPO, register};

use crate::kit::{World, dashboard, eventually};

#[tokio::test]
async fn operators_of_one_namespace_ask_for_nothing_outside_it() {
    let world = World::new().set("operator.namespace", "default").set("operator.history_expiration", "1h");
    let files = world.create_local("here").await;
    std::fs::write(files.join("a.json"), dashboard("a", "A")).unwrap();
    world.patch_repository("here", json!({"spec": {"sync": {"enabled": true}}})).await;
    let elsewhere: kube::Api<Repository> = kube::Api::namespaced(world.client.clone(), "elsewhere");
    let mut other = Repository::clone(&world.repository("here").await);
    other.metadata = kube::api::ObjectMeta { name: Some("there".to_owned()), ..Default::default() };
    elsewhere.create(&kube::api::PostParams::default(), &other).await.unwrap();

    let _repositories = world.start(register, PROVISIONING_REPO);
    let _jobs = world.start(windlass_jobs_operator::register, PROVISIONING_JOBS);
    world.repository_when("it is synced", "here", |found| !found.status.sync.last_ref.is_empty()).await;

    let asked = eventually("all kinds are asked for", || async {
        let asked = world.requests.all();
        let is_asked = |kind: &&str| asked.iter().any(|it| it.path.ends_with(&format!("/default/{kind}")));
        if ["repositories", "jobs", "historicjobs"].iter().all(is_asked) { Ok(asked) } else { Err(asked) }
    })
    .await;
    let outside: Vec<_> =
        asked.iter().filter(|request| !request.path.contains("/namespaces/default/")).collect();
    assert!(outside.is_empty(), "{outside:#?}");
    assert_eq!(elsewhere.get("there").await.unwrap().status, windlass_api::RepositoryStatus::default());
    let history: kube::Api<HistoricJob> = kube::Api::namespaced(world.client.clone(), "elsewhere");
    assert!(history.list(&kube::api::ListParams::default()).await.unwrap().items.is_empty());
}
