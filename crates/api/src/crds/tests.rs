use serde_json::Value;

use super::*;

/// Calls `visit` with the path and schema of everything in a schema.
fn walk(path: &str, schema: &Value, visit: &mut impl FnMut(&str, &Value)) {
    visit(path, schema);
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        walk(&format!("{path}.{name}"), property, visit);
    }
    if let Some(items) = schema.get("items") {
        walk(&format!("{path}[]"), items, visit);
    }
}

fn every_schema(mut visit: impl FnMut(&str, &Value)) {
    for crd in all().into_iter().chain(flux()) {
        for version in &crd.spec.versions {
            let schema = version.schema.as_ref().unwrap().open_api_v3_schema.as_ref().unwrap();
            let schema = serde_json::to_value(schema).unwrap();
            let root = format!("{}/{}", crd.spec.names.kind, version.name);
            assert!(schema["properties"].as_object().unwrap().len() >= 4, "{root} has no fields");
            walk(&root, &schema, &mut visit);
        }
    }
}

#[test]
fn every_field_is_described() {
    let mut fields = 0;
    every_schema(|path, schema| {
        fields += 1;
        let described = schema["description"].as_str().is_some_and(|text| !text.trim().is_empty());
        // The server describes metadata itself.
        let described = described || path.ends_with(".metadata") || path.ends_with(".metadata.name");
        assert!(described || path.ends_with("[]"), "{path} has no description");
    });
    assert!(fields > 200, "only {fields} fields were looked at");
}

/// The rules of kube-apiserver's structural schemas that ours could break.
#[test]
fn every_schema_is_structural() {
    every_schema(|path, schema| {
        let object = schema.as_object().unwrap();
        let free = object.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
        let kind = object.get("type").and_then(Value::as_str);
        assert!(kind.is_some() || free, "{path} has no type");
        for keyword in ["$ref", "anyOf", "oneOf", "allOf", "not", "definitions"] {
            assert!(!object.contains_key(keyword), "{path} has {keyword}");
        }
        if kind == Some("object") {
            let fields = object.contains_key("properties") || object.contains_key("additionalProperties");
            assert!(fields || free || path.ends_with(".metadata"), "{path} is an object of nothing");
        }
        assert_eq!(kind == Some("array"), object.contains_key("items"), "{path}");
        for key in object.get("required").and_then(Value::as_array).into_iter().flatten() {
            assert!(object["properties"].get(key.as_str().unwrap()).is_some(), "{path} requires {key}");
        }
        if let Some(values) = object.get("enum").and_then(Value::as_array) {
            assert!(values.iter().all(Value::is_string), "{path}: {values:?}");
            assert!(!object.contains_key("nullable"), "{path} may be null and has an enum without null");
        }
    });
}

/// A default is written into every object, and read back by clients that took absence for zero: each is a decision.
#[test]
fn defaults_are_what_the_wire_always_writes() {
    let mut defaults = Vec::new();
    every_schema(|path, schema| {
        if let Some(default) = schema.get("default") {
            defaults.push(format!("{path} = {default}"));
        }
    });
    let branch = |kind: &str| format!("Repository/v0alpha1.spec.{kind}.branch = \"\"");
    let mut expected = ["bitbucket", "git", "github", "githubEnterprise", "gitlab"].map(branch).to_vec();
    for other in [
        "GitRepository/v1.spec.timeout = \"60s\"",
        "GitRepository/v1.spec.verify.mode = \"HEAD\"",
        "GitRepository/v1.status = {\"observedGeneration\":-1}",
        "Receiver/v1.spec.interval = \"10m\"",
        "Receiver/v1.status = {\"observedGeneration\":-1}",
        "HistoricJob/v0alpha1.spec.pull.incremental = false",
        "Job/v0alpha1.spec.pull.incremental = false",
        "Repository/v0alpha1.spec.sync = {}",
        "Repository/v0alpha1.spec.sync.enabled = false",
        "Repository/v0alpha1.spec.sync.intervalSeconds = 60",
        "Repository/v0alpha1.spec.workflows = []",
    ] {
        expected.push(other.to_owned());
    }
    let both = expected.iter().filter(|default| default.contains("/v0alpha1."));
    let next: Vec<String> = both.map(|default| default.replace("/v0alpha1.", "/v1beta1.")).collect();
    expected.extend(next);
    expected.sort();
    defaults.sort();
    assert_eq!(defaults, expected);
}

#[test]
fn a_definition_is_written_as_yaml_that_reads_back_as_the_same() {
    for crd in all() {
        let text = yaml(&crd).unwrap();
        assert_eq!(crate::yaml::parse(&text).unwrap(), serde_json::to_value(&crd).unwrap(), "{text}");
        assert_eq!(text, yaml(&crd).unwrap());
    }
}

#[test]
fn jobs_have_no_status_subresource_and_repositories_do() {
    let status = |plural: &str| {
        let crds = all();
        let crd = crds.iter().find(|crd| crd.spec.names.plural == plural).unwrap();
        crd.spec.versions.iter().all(|v| v.subresources.as_ref().is_some_and(|s| s.status.is_some()))
    };
    assert!(status("repositories") && status("connections"));
    assert!(!status("jobs") && !status("historicjobs"));
}

#[test]
fn every_definition_has_one_stored_version_and_unique_names() {
    let mut names = std::collections::BTreeSet::new();
    for crd in all() {
        assert_eq!(crd.spec.versions.iter().filter(|version| version.storage).count(), 1);
        let short = crd.spec.names.short_names.clone().unwrap_or_default();
        for name in short.into_iter().chain([crd.spec.names.plural.clone()]) {
            assert!(names.insert(name.clone()), "{name} twice");
        }
    }
    assert_eq!(names.len(), 9);
}

#[test]
fn selectable_fields_point_at_plain_values() {
    for crd in all() {
        for version in &crd.spec.versions {
            let schema = version.schema.as_ref().unwrap().open_api_v3_schema.as_ref().unwrap();
            let schema = serde_json::to_value(schema).unwrap();
            for field in version.selectable_fields.iter().flatten() {
                let mut at = &schema;
                for name in field.json_path.split('.').skip(1) {
                    at = &at["properties"][name];
                }
                assert!(
                    matches!(at["type"].as_str(), Some("string" | "integer" | "boolean")),
                    "{field:?}: {at}"
                );
            }
        }
    }
}

#[test]
fn unknown_actions_are_refused_by_the_schema_and_known_ones_listed() {
    let mut seen = false;
    every_schema(|path, schema| {
        if path == "Job/v0alpha1.spec.action" {
            seen = true;
            let values = schema["enum"].as_array().unwrap();
            assert!(values.contains(&"fixFolderMetadata".into()) && values.len() == 10, "{values:?}");
        }
    });
    assert!(seen);
}
