use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_api::SyncTarget;

use super::*;
use crate::objects::created_body;
use crate::{DASHBOARD, Kinds, SyncContext};

fn context() -> SyncContext {
    SyncContext {
        namespace: "default".to_owned(),
        repository: "test6".to_owned(),
        title: "Test".to_owned(),
        target: SyncTarget::Folder,
    }
}

/// What becomes of a file: the object that a server has of it, with everything that a server adds.
fn pulled(path: &str, file: &[u8], context: &SyncContext) -> (ParsedResource, String) {
    let kinds = Kinds::default();
    let of = ParseContext { context, folder: Some("a-folder"), checksum: "abc", kinds: &kinds };
    let resource = parse::file(path, file, &of).unwrap();
    let mut object: Value = serde_json::from_slice(&created_body(&resource, "default")).unwrap();
    for (key, value) in [
        ("uid", json!("1-2-3")),
        ("resourceVersion", json!("7")),
        ("generation", json!(1)),
        ("creationTimestamp", json!("2026-01-01T00:00:00Z")),
        ("managedFields", json!([{ "manager": "windlass" }])),
    ] {
        object["metadata"][key] = value;
    }
    object["status"] = json!({ "conversion": { "storedVersion": "v1beta1" } });
    (resource, object.to_string())
}

fn pushed(path: &str, file: &[u8]) -> Vec<u8> {
    let context = context();
    let (resource, object) = pulled(path, file, &context);
    write(path, file, &resource, &object, &context)
}

fn write(path: &str, file: &[u8], resource: &ParsedResource, object: &str, context: &SyncContext) -> Vec<u8> {
    let kinds = Kinds::default();
    let of = ParseContext { context, folder: None, checksum: "", kinds: &kinds };
    let object = parse::file("object.json", object.as_bytes(), &of).unwrap();
    assert_eq!((&object.kind, &object.version), (&resource.kind, &resource.version));
    updated_file(&object, File { path, content: file, of }).unwrap()
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_filter("JSON has no others", |number| number.is_finite()).prop_map(Value::from),
        "[ -~äß\u{1F600}\\n\\t]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("[a-zA-Z_ -]{0,6}", inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn document(spec: Value, labels: &BTreeMap<String, String>) -> Value {
    let mut spec = spec;
    if !spec.is_object() {
        spec = json!({ "panels": spec });
    }
    let mut metadata = json!({ "name": "cpu" });
    if !labels.is_empty() {
        metadata["labels"] = json!(labels);
        metadata["annotations"] = json!({ "example.org/owner": "team-a" });
    }
    json!({ "kind": "Dashboard", "spec": spec, "apiVersion": "dashboard.grafana.app/v1beta1", "metadata": metadata })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn a_file_whose_object_did_not_change_stays_byte_for_byte(
        spec in any_json(),
        labels in prop::collection::btree_map("[a-z]{1,6}", "[a-z]{0,6}", 0..3),
    ) {
        let document = document(spec, &labels);
        for (path, text) in [
            ("a/cpu.json", document.to_string()),
            ("a/cpu.json", format!("{document:#}\n\n")),
            ("a/cpu.yaml", format!("# a comment\n{}", windlass_api::yaml::to_string(&document).unwrap())),
        ] {
            prop_assert_eq!(String::from_utf8(pushed(path, text.as_bytes())).unwrap(), text);
        }
    }

    #[test]
    fn what_a_new_file_says_is_read_as_the_same_object(spec in any_json()) {
        let context = context();
        let (resource, object) = pulled("x.json", document(spec, &BTreeMap::new()).to_string().as_bytes(), &context);
        let identity = Identity { kind: &DASHBOARD, version: &resource.version, name: "cpu" };
        let text = new_file(&object, identity).unwrap();
        let (again, object) = pulled("x.json", text.as_bytes(), &context);
        prop_assert_eq!((&again.name, &again.labels), (&resource.name, &resource.labels));
        let read = |resource: &ParsedResource| -> Value {
            let Content::Spec(spec) = &resource.content else { panic!("a dashboard has a spec") };
            serde_json::from_str(spec).unwrap()
        };
        prop_assert_eq!(read(&again), read(&resource));
        prop_assert_eq!(new_file(&object, identity).unwrap(), text);
    }
}

#[test]
fn a_new_file_has_nothing_that_a_server_set_and_one_order_of_keys() {
    let object = json!({
        "apiVersion": "dashboard.grafana.app/v1beta1", "kind": "Dashboard",
        "metadata": {
            "name": "cpu", "namespace": "default", "uid": "u", "resourceVersion": "9", "generation": 4,
            "labels": {"team": "a", "windlass.dev/managed-by": "r"},
            "annotations": {"grafana.app/folder": "f", "grafana.app/createdBy": "x", "example.org/y": "z"},
        },
        "spec": {"title": "CPU", "id": 4, "uid": "cpu", "version": 3, "panels": [{"id": 1, "a": {}}]},
        "status": {"x": 1},
    });
    let identity = Identity { kind: &DASHBOARD, version: "v1beta1", name: "other" };
    let text = new_file(&object.to_string(), identity).unwrap();
    insta::assert_snapshot!(text, @r#"
    {
      "apiVersion": "dashboard.grafana.app/v1beta1",
      "kind": "Dashboard",
      "metadata": {
        "annotations": {
          "example.org/y": "z"
        },
        "labels": {
          "team": "a"
        },
        "name": "other"
      },
      "spec": {
        "panels": [
          {
            "a": {},
            "id": 1
          }
        ],
        "title": "CPU"
      }
    }
    "#);
}

#[test]
fn a_json_file_keeps_its_order_indentation_and_digits_when_its_object_changes() {
    let context = context();
    let file = "{\n\t\"kind\": \"Dashboard\",\n\t\"apiVersion\": \"dashboard.grafana.app/v1beta1\",\n\t\"spec\": {\n\t\t\"title\": \"CPU\",\n\t\t\"max\": 1.50,\n\t\t\"axes\": []\n\t},\n\t\"metadata\": {\n\t\t\"name\": \"cpu\"\n\t}\n}";
    let (resource, object) = pulled("cpu.json", file.as_bytes(), &context);
    let object = object.replace("\"CPU\"", "\"CPU by core\"");
    let text = String::from_utf8(write("cpu.json", file.as_bytes(), &resource, &object, &context)).unwrap();
    assert_eq!(
        text,
        file.replace("CPU", "CPU by core").replace("1.50", "1.5"),
        "the server wrote the number so"
    );
}

#[test]
fn a_yaml_file_keeps_its_comments_when_its_object_changes() {
    let context = context();
    let file = "# Ours\napiVersion: dashboard.grafana.app/v1beta1\nkind: Dashboard\nmetadata: {name: cpu}\nspec:\n  title: CPU # by core\n";
    let (resource, object) = pulled("cpu.yaml", file.as_bytes(), &context);
    let text = write("cpu.yaml", file.as_bytes(), &resource, &object.replace("CPU", "Disk"), &context);
    assert_eq!(String::from_utf8(text).unwrap(), file.replace("CPU", "Disk"));
    // What an anchor stands for cannot be changed in one place.
    let file = "# Ours\napiVersion: dashboard.grafana.app/v1beta1\nkind: Dashboard\nmetadata: {name: cpu}\nspec: {title: &t CPU, also: *t}\n";
    let (resource, object) = pulled("cpu.yaml", file.as_bytes(), &context);
    let object = object.replace(r#""also":"CPU""#, r#""also":"Disk""#);
    let text = String::from_utf8(write("cpu.yaml", file.as_bytes(), &resource, &object, &context)).unwrap();
    let spec = &windlass_api::yaml::parse(&text).unwrap()["spec"];
    assert_eq!((spec, text.contains('#')), (&json!({"title": "CPU", "also": "Disk"}), false), "{text}");
}

mod several {
    use super::*;

    const ALL: &str = "# of all\n---\n# the first\napiVersion: dashboard.grafana.app/v1beta1\nkind: Dashboard\nmetadata: {name: a} # its name\nspec:\n  title: A # its title\n--- # the second\napiVersion: dashboard.grafana.app/v1beta1\nkind: Dashboard\nmetadata:\n  name: b\nspec: {title: B}\n---\n# nothing\n---\nvalues: 1\n";

    fn with_file<T>(content: &str, then: impl FnOnce(File<'_>) -> T) -> T {
        let (repository, kinds) = (context(), Kinds::default());
        let of = ParseContext { context: &repository, folder: None, checksum: "", kinds: &kinds };
        then(File { path: "all.yaml", content: content.as_bytes(), of })
    }

    fn updated(content: &str, name: &str, title: &str) -> Result<String, SerialiseError> {
        with_file(content, |file| {
            let object = format!(
                r#"{{"apiVersion":"dashboard.grafana.app/v1beta1","kind":"Dashboard","metadata":{{"name":"{name}"}},"spec":{{"title":"{title}","tags":["t"]}}}}"#
            );
            let object = parse::file("x.json", object.as_bytes(), &file.of).unwrap();
            updated_file(&object, file).map(|bytes| String::from_utf8(bytes).unwrap())
        })
    }

    #[test]
    fn one_document_changes_and_the_others_stay_byte_for_byte() {
        let changed = updated(ALL, "a", "New").unwrap();
        assert_eq!(changed, ALL.replace("title: A # its title", "title: New # its title\n  tags:\n  - t"));
        let changed = updated(ALL, "b", "New").unwrap();
        let (before, after) = ALL.split_once("spec: {title: B}").unwrap();
        assert!(changed.starts_with(before) && changed.ends_with(after), "{changed}");
        assert_eq!(updated(&changed, "b", "New").unwrap(), changed, "what it says already stays");
        let error = updated(ALL, "c", "New").unwrap_err().to_string();
        assert!(error.contains("the file has 3 documents, and none is of this object"), "{error}");
    }

    #[test]
    fn a_document_goes_and_the_others_stay_byte_for_byte() {
        let without =
            |content: &str, name: &str| match with_file(content, |file| without(&DASHBOARD, name, file))
                .unwrap()
            {
                Remainder::File(rest) => String::from_utf8(rest).unwrap(),
                other => format!("{other:?}"),
            };
        let (first, rest) = ALL.split_once("--- # the second").unwrap();
        let (_, end) = rest.split_once("spec: {title: B}\n").unwrap();
        assert_eq!(without(ALL, "b"), format!("{first}{end}"));
        assert_eq!(without(ALL, "a"), format!("# of all\n--- # the second{rest}"));
        assert_eq!(without(ALL, "c"), "Absent");
        assert_eq!(without(first, "a"), "Nothing");
    }
}
