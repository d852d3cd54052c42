//! History that does not go forward only.

use jiff::Timestamp;
use windlass_e2e::flux::NewCommit;

use super::Delivery;
use super::delivery::config_map;

#[tokio::test]
async fn going_back_and_forward_again_counts_nothing_twice() {
    let Some(mut fleet) = Delivery::start().await else { return };
    let tracker = fleet.tracker(&[], &[]).await;
    fleet.deliver(2).await;
    fleet.counted(&tracker, 2).await;
    let (old, new) = (fleet.commits[0].id.clone(), fleet.commits[1].id.clone());
    let baseline = fleet.baseline.clone();
    for commit in [&old, &baseline, &new, &baseline, &new] {
        fleet.apply(commit).await;
    }
    // What comes after it says that all before was looked at.
    fleet.deliver(1).await;
    fleet.counted(&tracker, 3).await;
    fleet.all_told(&[&tracker]).await;
}

#[tokio::test]
async fn after_a_forced_push_only_what_is_new_counts() {
    let Some(mut fleet) = Delivery::start().await else { return };
    let tracker = fleet.tracker(&[], &[]).await;
    fleet.deliver(2).await;
    fleet.counted(&tracker, 2).await;

    // The second commit is amended: its successor has the first for its parent.
    let first = fleet.commits[0].id.clone();
    let merged = Timestamp::from_second(Timestamp::now().as_second() - 3).unwrap();
    let amended = NewCommit::new("change 2, better", merged, "map.yaml", config_map("better")).on(&[&first]);
    let amended = fleet.remote.commit(amended).await.unwrap();
    fleet.commits.push(super::delivery::Commit { id: amended.clone(), merged });
    fleet.apply(&amended).await;
    fleet.counted(&tracker, 3).await;

    // What is unreachable now is gone from the server too.
    fleet.remote.git(&["reflog", "expire", "--expire=now", "--all"]).await.unwrap();
    fleet.remote.git(&["gc", "--quiet", "--prune=now"]).await.unwrap();
    fleet.deliver(2).await;
    fleet.counted(&tracker, 5).await;
    fleet.all_told(&[&tracker]).await;
}
