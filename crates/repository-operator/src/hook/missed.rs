//! Which deliveries did not reach us. Pure. GitHub does not deliver again by itself.

use windlass_github::Delivery;

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
