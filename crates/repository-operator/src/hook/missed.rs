//! Which deliveries did not reach us. Pure. GitHub does not deliver again by itself.
//!
//! Of pushes the latest is enough: a pull makes up for all. Each pull request stands for itself, so GitHub is asked to
//! tell of it again, a few times.

use windlass_github::Delivery;

/// How often a delivery is made in all, the first time included.
const TRIES: usize = 3;
/// Deliveries that are asked for again at a time.
const AT_A_TIME: usize = 10;
/// What happens to a pull request that somebody has to look at.
const ACTIONS: [&str; 3] = ["opened", "reopened", "synchronize"];

/// The deliveries about pull requests that are to be made again, the oldest first. `deliveries` are the newest first.
pub(super) fn lost(deliveries: &[Delivery]) -> Vec<&Delivery> {
    // What was refused for what it says is refused again.
    let is_settled = |delivery: &Delivery| matches!(delivery.status, 200..300 | 400 | 413 | 501);
    let tries = |guid: &str| deliveries.iter().filter(|one| one.guid == guid).count();
    let came = |guid: &str| deliveries.iter().any(|one| one.guid == guid && is_settled(one));
    let mut lost: Vec<&Delivery> = Vec::new();
    for delivery in deliveries.iter().filter(|one| one.event == "pull_request") {
        let matters = delivery.action.as_deref().is_some_and(|action| ACTIONS.contains(&action));
        let is_new = !lost.iter().any(|known| known.guid == delivery.guid);
        if matters && is_new && tries(&delivery.guid) < TRIES && !came(&delivery.guid) {
            lost.push(delivery);
        }
    }
    lost.truncate(AT_A_TIME);
    lost.reverse();
    lost
}

/// The latest push that GitHub told nobody of. Earlier ones do not matter: what came later brought what they had.
/// `deliveries` are the newest first.
pub(super) fn missed(deliveries: &[Delivery]) -> Option<&Delivery> {
    let latest = deliveries.iter().find(|delivery| delivery.event == "push")?;
    let reached = |delivery: &Delivery| delivery.guid == latest.guid && (200..300).contains(&delivery.status);
    (!deliveries.iter().any(reached)).then_some(latest)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn delivery(guid: &str, event: &str, status: u16) -> Delivery {
        Delivery {
            id: 1,
            guid: guid.to_owned(),
            at: Timestamp::UNIX_EPOCH,
            event: event.to_owned(),
            action: None,
            status,
            redelivery: false,
        }
    }

    #[test]
    fn each_pull_request_is_told_of_again_and_not_for_ever() {
        let pull = |guid: &str, action: &str, status: u16| Delivery {
            action: Some(action.to_owned()),
            ..delivery(guid, "pull_request", status)
        };
        let guids = |list: &[Delivery]| -> Vec<String> {
            lost(list).into_iter().map(|delivery| delivery.guid.clone()).collect()
        };
        let opened = |guid: &str, status| pull(guid, "opened", status);
        assert_eq!(guids(&[opened("b", 0), delivery("x", "push", 502), opened("a", 502)]), ["a", "b"]);
        assert_eq!(guids(&[opened("a", 202), opened("a", 502)]), [""; 0], "the second time it came");
        assert_eq!(guids(&[opened("a", 502), opened("a", 502)]), ["a"]);
        assert_eq!(guids(&[opened("a", 502), opened("a", 502), opened("a", 502)]), [""; 0], "often enough");
        assert_eq!(
            guids(&[pull("a", "labeled", 502), opened("b", 400)]),
            [""; 0],
            "nobody would do anything"
        );
        let many: Vec<Delivery> = (0..30).map(|number| opened(&number.to_string(), 503)).collect();
        assert_eq!(guids(&many).len(), 10);
    }

    #[test]
    fn the_latest_push_counts_and_a_redelivery_makes_up_for_it() {
        let guid = |list: &[Delivery]| missed(list).map(|delivery| delivery.guid.clone());
        let failed = |guid: &str| delivery(guid, "push", 502);
        let reached = |guid: &str| delivery(guid, "push", 202);
        assert_eq!(guid(&[]), None);
        assert_eq!(guid(&[failed("b"), reached("a")]).as_deref(), Some("b"));
        assert_eq!(guid(&[delivery("c", "push", 0)]).as_deref(), Some("c"), "nobody answered");
        assert_eq!(guid(&[reached("b"), failed("a")]), None, "what came later brought it");
        assert_eq!(guid(&[reached("b"), failed("b")]), None, "it was delivered again");
        assert_eq!(guid(&[delivery("c", "pull_request", 502), reached("b")]), None);
    }
}
