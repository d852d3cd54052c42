//! What an object's status says of its tree.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{Direction, Outcome, ProvisionError, State, TreeView, Visited};

/// The type of the condition.
pub const AVAILABLE: &str = "Available";
/// The greatest number of nodes that a status shows; those that are not settled come before the others.
pub const NODES_SHOWN: usize = 200;
/// The longest message, in bytes.
const MAX_MESSAGE: usize = 1_024;

/// The condition that a pass comes to: whether, why, and in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) available: bool,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Verdict {
    pub(super) fn new(direction: Direction, visited: &Visited, view: Option<&TreeView>) -> Self {
        let (done, under_way) = match direction {
            Direction::Provision => ("Provisioned", "Provisioning"),
            Direction::Deprovision => ("Deprovisioned", "Deprovisioning"),
        };
        let (available, reason, message) = match visited {
            Ok(Outcome::Ready) => (true, done, done.to_owned()),
            Ok(Outcome::Yield { reason, message, .. }) => {
                (false, under_way, explained(reason.as_str(), message, view))
            }
            Err(ProvisionError { reason, message, .. }) => {
                (false, "Errored", explained(reason.as_str(), message, view))
            }
        };
        Self { available, reason, message }
    }
}

/// `path: message (reason)` of the leaf that holds everything up.
fn explained(reason: &str, message: &str, view: Option<&TreeView>) -> String {
    let leaf = view.and_then(|view| {
        let same =
            view.holding_up().find(|node| node.state.message == message && node.state.reason == reason);
        same.or_else(|| view.holding_up().next())
    });
    let mut text = match leaf {
        Some(leaf) => format!("{}: {message} ({reason})", leaf.path),
        None => format!("{message} ({reason})"),
    };
    if text.len() > MAX_MESSAGE {
        let end = (0..=MAX_MESSAGE).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
    }
    text
}

/// The conditions with ours among them, as `metav1.Condition`; others' stay as they are. None when what is there is no
/// list of conditions: it is not ours to overwrite.
pub(super) fn conditions(
    present: &Value,
    verdict: &Verdict,
    generation: Option<i64>,
    now: Timestamp,
) -> Option<Vec<Value>> {
    let mut list = match present {
        Value::Null => Vec::new(),
        Value::Array(list) if list.iter().all(|condition| condition["type"].is_string()) => list.clone(),
        _ => return None,
    };
    let status = if verdict.available { "True" } else { "False" };
    let before = list.iter().position(|condition| condition["type"] == AVAILABLE);
    let since = before
        .map(|index| &list[index])
        .filter(|condition| condition["status"] == status)
        .map(|condition| condition["lastTransitionTime"].clone())
        .filter(Value::is_string);
    let ours = json!({
        "type": AVAILABLE,
        "status": status,
        "reason": verdict.reason,
        "message": verdict.message,
        "lastTransitionTime": since.unwrap_or_else(|| json!(format!("{now:.0}"))),
        "observedGeneration": generation,
    });
    match before {
        Some(index) => list[index] = ours,
        None => list.push(ours),
    }
    Some(list)
}

/// The tree, as a status shows it.
pub(super) fn shown(view: &TreeView) -> Value {
    let mut order: Vec<usize> = (0..view.nodes.len()).collect();
    if order.len() > NODES_SHOWN {
        order.sort_by_key(|index| view.nodes[*index].state.state.is_settled());
        order.truncate(NODES_SHOWN);
        order.sort_unstable();
    }
    let nodes: Vec<Value> = order
        .iter()
        .map(|index| {
            let node = &view.nodes[*index];
            let mut shown = json!(node.state);
            shown["path"] = json!(node.path);
            shown["kind"] = json!(node.kind);
            shown
        })
        .collect();
    let ready = view.nodes.iter().filter(|node| node.state.state == State::Ready).count();
    json!({"nodes": nodes, "total": view.nodes.len(), "ready": ready})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reason;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn the_time_of_a_condition_changes_with_its_status_alone_and_others_stay() {
        let wait = |message: &str| Ok(Outcome::wait(Reason::NotReady, message));
        let verdict = |visited: Visited| Verdict::new(Direction::Provision, &visited, None);
        let present = json!([{"type": "Theirs", "status": "True", "odd": 1}]);
        let first = conditions(&present, &verdict(wait("a")), Some(1), at(10)).unwrap();
        let second = conditions(&json!(first), &verdict(wait("b")), Some(2), at(20)).unwrap();
        assert_eq!(second[0], present[0]);
        assert_eq!(
            second[1],
            json!({
                "type": "Available", "status": "False", "reason": "Provisioning", "message": "b (NotReady)",
                "lastTransitionTime": "1970-01-01T00:00:10Z", "observedGeneration": 2,
            })
        );
        let third = conditions(&json!(second), &verdict(Ok(Outcome::Ready)), Some(2), at(30)).unwrap();
        assert_eq!(
            (&third[1]["reason"], &third[1]["lastTransitionTime"]),
            (&json!("Provisioned"), &json!("1970-01-01T00:00:30Z"))
        );
    }

    #[test]
    fn a_list_of_conditions_of_a_foreign_shape_is_left_alone() {
        let verdict = Verdict::new(Direction::Deprovision, &Ok(Outcome::Ready), None);
        for foreign in
            [json!({"Available": "yes"}), json!(["Available"]), json!("x"), json!([{"kind": "Ready"}])]
        {
            assert_eq!(conditions(&foreign, &verdict, None, at(0)), None, "{foreign}");
        }
    }
}
