//! The ledger in a real cluster, with the rights that `deploy/` grants.

use std::path::Path;

use windlass_cluster::Cluster;

use super::*;

const KUSTOMIZATIONS: usize = 10_000;
const MEASURED: usize = 1000;

#[tokio::test]
async fn a_real_cluster_keeps_ten_thousand_kustomizations_and_a_burst_of_a_thousand_records() {
    let Some(cluster) = Cluster::shared().await.unwrap() else { return };
    let namespace = cluster.namespace("ledger").await.unwrap();
    let role = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/commit-tracker/rbac.yaml");
    let account = namespace.service_account(&role).await.unwrap();
    let client = cluster.client(&account.kubeconfig).await.unwrap();
    let config = World::new().config();
    let open = || Ledger::open(client.clone(), namespace.name(), config.clone());

    let ledger = open().await.unwrap();
    let other = open().await.unwrap();
    assert_eq!(ledger.identity(), other.identity());
    let uid = |number: usize| format!("uid-{number}");
    record_all(&ledger, (0..KUSTOMIZATIONS).map(|number| first(&uid(number)))).await;
    let next = |number: usize| Record { outcome: None, ..step(&uid(number), 2) };
    record_all(&ledger, (0..MEASURED).map(next)).await;
    ledger.forget("uid-9999");
    ledger.taken(&["uid-9999".into()]);
    ledger.record(step("another", 1)).await.unwrap();

    let lost = other.record(step("another", 1)).await.unwrap_err();
    assert!(lost.is_lost(), "{lost}");
    let again = open().await.unwrap();
    assert_eq!(steps(&again, "another"), 1);
    for number in 0..KUSTOMIZATIONS - 1 {
        let entry = again.entry(&uid(number));
        assert_eq!(entry, ledger.entry(&uid(number)));
        assert_eq!(entry.unwrap().commits.counted, u64::from(number < MEASURED));
    }
    let maps: Api<ConfigMap> = Api::namespaced(cluster.admin().await.unwrap(), namespace.name());
    let labelled = ListParams::default().labels("windlass.dev/ledger");
    assert_eq!(maps.list_metadata(&labelled).await.unwrap().items.len(), 129);
}
