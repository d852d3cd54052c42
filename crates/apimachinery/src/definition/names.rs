//! Which names of a definition are accepted: those that no other definition of its group has.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Object, condition, is_true, set_condition};

/// The names that the definitions of one group hold.
#[derive(Debug, Default)]
pub struct Used {
    /// Plurals, singulars and short names.
    pub resources: BTreeSet<String>,
    /// Names of kinds and of their lists.
    pub kinds: BTreeSet<String>,
}

impl Used {
    /// Adds the accepted names of a definition.
    pub fn add(&mut self, object: &Object) {
        let names = &object.get("status").map_or(&Value::Null, |status| &status["acceptedNames"]);
        let text = |field: &str| names[field].as_str().filter(|name| !name.is_empty()).map(str::to_owned);
        self.resources.extend(["plural", "singular"].into_iter().filter_map(text));
        self.resources.extend(texts(&names["shortNames"]));
        self.kinds.extend(["kind", "listKind"].into_iter().filter_map(text));
    }
}

fn texts(value: &Value) -> impl Iterator<Item = String> + '_ {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned)
}

/// Sets the accepted names and the conditions `NamesAccepted` and `Established`. Returns whether anything changed.
pub fn accept(object: &mut Object, used: &Used, now: &str) -> bool {
    let before = object.get("status").cloned();
    let requested = object.get("spec").map_or(Value::Null, |spec| spec["names"].clone());
    let mut accepted = before.as_ref().map_or(Value::Null, |status| status["acceptedNames"].clone());
    if requested == accepted && is_true(object, "NamesAccepted") && is_true(object, "Established") {
        return false;
    }
    if !accepted.is_object() {
        accepted = json!({});
    }
    let mut conflict: Option<(&str, String)> = None;
    for (field, reason) in [
        ("plural", "PluralConflict"),
        ("singular", "SingularConflict"),
        ("shortNames", "ShortNamesConflict"),
        ("kind", "KindConflict"),
        ("listKind", "ListKindConflict"),
    ] {
        let taken = if matches!(field, "kind" | "listKind") { &used.kinds } else { &used.resources };
        let problem = if field == "shortNames" {
            short_names_conflict(&requested[field], &accepted[field], taken)
        } else {
            let name = requested[field].as_str().unwrap_or_default();
            let mine = requested[field] == accepted[field];
            (!mine && taken.contains(name)).then(|| in_use(name))
        };
        match problem {
            Some(problem) => conflict = Some((reason, problem)),
            None => take(&requested, &mut accepted, field),
        }
    }
    take(&requested, &mut accepted, "categories");
    let Some(Value::Object(status)) = object.get_mut("status") else { return false };
    status.insert("acceptedNames".to_owned(), accepted);
    match conflict {
        Some((reason, message)) => {
            set_condition(object, "NamesAccepted", "False", reason, &message, now);
            if condition(object, "Established").is_none() {
                let message = "not all names are accepted";
                set_condition(object, "Established", "False", "NotAccepted", message, now);
            }
        }
        None => {
            set_condition(object, "NamesAccepted", "True", "NoConflicts", "no conflicts found", now);
            if !is_true(object, "Established") {
                let message = "the initial names have been accepted";
                set_condition(object, "Established", "True", "InitialNamesAccepted", message, now);
            }
        }
    }
    before.as_ref() != object.get("status")
}

fn take(requested: &Value, accepted: &mut Value, field: &str) {
    let Value::Object(accepted) = accepted else { return };
    match requested.get(field) {
        Some(value) => accepted.insert(field.to_owned(), value.clone()),
        None => accepted.remove(field),
    };
}

fn short_names_conflict(requested: &Value, accepted: &Value, taken: &BTreeSet<String>) -> Option<String> {
    if requested == accepted {
        return None;
    }
    let mine: Vec<String> = texts(accepted).collect();
    let problems: Vec<String> = texts(requested)
        .filter(|name| !mine.contains(name) && taken.contains(name))
        .map(|name| in_use(&name))
        .collect();
    match problems.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        many => Some(format!("[{}]", many.join(", "))),
    }
}

fn in_use(name: &str) -> String {
    format!("{name:?} is already in use")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(short: &str) -> Object {
        json!({ "spec": { "names": { "plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList",
            "shortNames": [short] } }, "status": { "conditions": null, "acceptedNames": { "plural": "", "kind": "" },
            "storedVersions": ["v1"] } })
        .as_object()
        .cloned()
        .unwrap()
    }

    #[test]
    fn free_names_are_accepted_once() {
        let mut object = definition("fo");
        assert!(accept(&mut object, &Used::default(), "1"));
        assert!(is_true(&object, "Established") && is_true(&object, "NamesAccepted"));
        assert_eq!(object["status"]["acceptedNames"], object["spec"]["names"]);
        assert!(!accept(&mut object, &Used::default(), "2"));
    }

    #[test]
    fn a_name_of_another_definition_is_not_accepted_and_the_others_are() {
        let mut other = definition("fo");
        accept(&mut other, &Used::default(), "1");
        let mut used = Used::default();
        used.add(&other);
        let mut object = definition("fo");
        object["spec"]["names"]["plural"] = json!("others");
        object["spec"]["names"]["singular"] = json!("other");
        object["spec"]["names"]["kind"] = json!("Other");
        object["spec"]["names"]["listKind"] = json!("OtherList");
        assert!(accept(&mut object, &used, "1"));
        assert_eq!(object["status"]["conditions"][0]["reason"], "ShortNamesConflict");
        assert_eq!(object["status"]["conditions"][0]["message"], "\"fo\" is already in use");
        assert_eq!(object["status"]["acceptedNames"]["kind"], "Other");
        assert!(!is_true(&object, "Established"));
        assert!(!accept(&mut object, &used, "2"), "nothing changes until the name is free");
        assert!(accept(&mut object, &Used::default(), "3"));
        assert!(is_true(&object, "Established"));
    }
}
