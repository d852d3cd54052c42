use serde_json::{Value, json};
use windlass_api::{SyncTarget, labels};

use super::*;
use crate::{Failure, Reason};

fn context() -> SyncContext {
    SyncContext {
        namespace: "default".to_owned(),
        repository: "test6".to_owned(),
        title: "Test".to_owned(),
        target: SyncTarget::Folder,
    }
}

fn read(path: &str, content: impl AsRef<[u8]>) -> Result<ParsedResource, FileError> {
    let repository = context();
    file(
        path,
        content.as_ref(),
        &ParseContext {
            context: &repository,
            folder: Some("apps-1"),
            checksum: "abc",
            kinds: &Kinds::default(),
        },
    )
}

fn spec(resource: &ParsedResource) -> Value {
    let Content::Spec(spec) = &resource.content else { panic!("a dashboard has a spec") };
    serde_json::from_str(spec).expect("a spec is JSON")
}

fn dashboard(metadata: Value) -> String {
    json!({
        "apiVersion": "dashboard.grafana.app/v1beta1",
        "kind": "Dashboard",
        "metadata": metadata,
        "spec": { "title": "CPU", "uid": "x", "version": 3, "id": 7 },
    })
    .to_string()
}

#[test]
fn a_classic_dashboard_is_named_by_its_uid() {
    let content =
        r#"{"uid":"cpu","id":3,"version":9,"title":"CPU","panels":[{"id":1}],"schemaVersion":39,"tags":[]}"#;
    let resource = read("apps/cpu.json", content).unwrap();
    assert_eq!((&resource.kind, &*resource.version, &*resource.name), (&DASHBOARD, "v0alpha1", "cpu"));
    // Panels keep their ids; the dashboard loses what belongs to one instance.
    assert_eq!(
        spec(&resource),
        json!({ "title": "CPU", "panels": [{ "id": 1 }], "schemaVersion": 39, "tags": [] })
    );
}

#[test]
fn an_object_keeps_its_metadata_and_gains_the_managers() {
    let content = dashboard(json!({
        "name": "cpu", "namespace": "default", "uid": "7c", "resourceVersion": "12",
        "labels": { "team": "a", "grafana.app/deprecatedInternalID": "4" },
        "annotations": {
            "note": "kept", "grafana.app/managerId": "somebody", "grafana.app/folder": "elsewhere",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
        },
    }));
    let resource = read("apps/cpu.json", content).unwrap();
    assert_eq!((&*resource.name, &*resource.version), ("cpu", "v1beta1"));
    assert_eq!(spec(&resource), json!({ "title": "CPU" }));
    assert_eq!(json!(resource.labels), json!({ "team": "a", labels::MANAGED_BY_ID: "test6" }));
    assert_eq!(
        json!(resource.annotations),
        json!({
            "note": "kept",
            "grafana.app/managedBy": "repo",
            "grafana.app/managerId": "test6",
            "grafana.app/sourcePath": "apps/cpu.json",
            "grafana.app/sourceChecksum": "abc",
            "grafana.app/folder": "apps-1",
            "windlass.dev/file-metadata": "labels/team annotations/note",
        })
    );
}

#[test]
fn yaml_and_json_give_the_same_object() {
    let yaml = "apiVersion: dashboard.grafana.app/v1beta1\nkind: Dashboard\nmetadata:\n  name: cpu\nspec:\n  title: CPU\n";
    let json = read("cpu.json", dashboard(json!({ "name": "cpu" }))).unwrap();
    let from_yaml = read("cpu.yaml", yaml).unwrap();
    assert_eq!(spec(&from_yaml), spec(&json));
    assert_eq!(from_yaml.name, json.name);
    let with_marker = read("cpu.yml", format!("# a comment\n---\n{yaml}...\n")).unwrap();
    assert_eq!(spec(&with_marker), spec(&json));
}

#[test]
fn a_marker_inside_a_text_is_no_document() {
    let yaml = "apiVersion: dashboard.grafana.app/v1beta1\nkind: Dashboard\nmetadata: {name: cpu}\nspec:\n  text: |\n    a\n    ---\n    b\n";
    assert_eq!(spec(&read("x.yaml", yaml).unwrap()), json!({ "text": "a\n---\nb\n" }));
}

#[test]
fn byte_order_marks_are_dropped_everywhere() {
    let plain = "\u{feff}{\"uid\":\"c\u{feff}pu\",\"title\":\"\\ufeffCPU\",\"panels\":[],\"schemaVersion\":1,\"tags\":[]}";
    let resource = read("x.json", plain).unwrap();
    assert_eq!(resource.name, "cpu");
    assert_eq!(spec(&resource)["title"], "CPU");
    let yaml = "\u{feff}uid: cpu\ntitle: \"\\uFEFFCPU\"\npanels: []\nschemaVersion: 1\ntags: []\n";
    assert_eq!(spec(&read("x.yaml", yaml).unwrap())["title"], "CPU");
}

#[test]
fn a_spec_is_carried_digit_by_digit() {
    let content = r#"{"uid":"n","panels":[],"schemaVersion":1,"tags":[],"big":12345678901234567890123,"exact":1.10,"e":1E5}"#;
    let resource = read("x.json", content).unwrap();
    assert_eq!(
        resource.content,
        Content::Spec(
            r#"{"panels":[],"schemaVersion":1,"tags":[],"big":12345678901234567890123,"exact":1.10,"e":1E5}"#
                .to_owned()
        )
    );
}

#[test]
fn an_unnamed_file_gets_the_same_name_every_time() {
    let classic = r#"{"panels":[],"schemaVersion":1,"tags":[]}"#;
    let name = "cpu-jndhftacyqbw8dhhgm-iizrrs-qypswxfmmx";
    assert_eq!(read("apps/cpu.json", classic).unwrap().name, name);
    assert_eq!(read("apps/cpu.json", dashboard(json!({}))).unwrap().name, name);
    let generated = read("apps/cpu.json", dashboard(json!({ "generateName": "dash-" }))).unwrap().name;
    assert!(generated.starts_with("dash-"), "{generated}");
}

/// Content, the beginning of the message, the reason.
#[test]
fn bad_files_say_what_is_wrong() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let deep =
        format!(r#"{{"panels":{},"schemaVersion":1,"tags":[]}}"#, nested(100_000)).replace("[[", "[ [");
    let deep = &deep[..9_000];
    let folder =
        r#"{"apiVersion":"folder.grafana.app/v1beta1","kind":"Folder","metadata":{"name":"x"},"spec":{}}"#;
    let cases: &[(&str, &str, &str)] = &[
        ("a.json", "", "the file is empty"),
        ("a.yaml", "# nothing\n---\n", "the file is empty"),
        ("a.json", "{", "failed to parse the document: EOF"),
        ("a.json", "hello", "failed to parse the document: expected value"),
        ("a.json", "[1]", "the file is no resource"),
        ("a.json", r#"{"name":"site","tags":[]}"#, "the file is no resource"),
        ("a.yaml", "a: 1\n---\nb: 2\n", "the file is no resource"),
        ("a.json", "{} {}", "failed to parse the document: trailing characters"),
        ("a.json", r#"{"kind":"A","kind":"B"}"#, "failed to parse the document: key \"kind\" appears twice"),
        ("a.json", r#"{"kind":1}"#, "failed to parse kind: invalid type"),
        ("a.yaml", "a: [1", "failed to parse the document"),
        ("a.yaml", "a: 1\na: 2\n", "failed to parse the document"),
        ("a.json", r#"{"apiVersion":1}"#, "failed to parse apiVersion"),
        ("a.json", r#"{"apiVersion":"1","groups":[]}"#, "the file is neither an object with"),
        ("a.json", r#"{"panels":[],"schemaVersion":1}"#, "the file is neither an object with"),
        ("a.json", deep, "the document is nested deeper than 100 levels"),
        ("a.json", folder, "folders are made from directories"),
        (
            "a.json",
            r#"{"apiVersion":"v1","kind":"Secret"}"#,
            "resources of kind \"Secret\" in \"v1\" are not supported",
        ),
        (
            "a.json",
            r#"{"apiVersion":"dashboard.grafana.app/v9","kind":"Dashboard"}"#,
            "dashboards of version \"v9\" are not supported; use one of v0alpha1, v1beta1",
        ),
        ("a.json", r#"{"apiVersion":"dashboard.grafana.app/v1beta1","kind":"Dashboard"}"#, "spec is missing"),
        (
            "a.json",
            r#"{"apiVersion":"dashboard.grafana.app/v1beta1","kind":"Dashboard","spec":[]}"#,
            "spec is not an object",
        ),
        (
            "a.json",
            r#"{"apiVersion":"dashboard.grafana.app/v1beta1","kind":"Dashboard","metadata":{"labels":{"a":1}},"spec":{}}"#,
            "failed to parse metadata: invalid type",
        ),
        (
            "a.json",
            r#"{"apiVersion":"dashboard.grafana.app/v1beta1","kind":"Dashboard","metadata":{"namespace":"other"},"spec":{}}"#,
            "the document is for namespace \"other\", its repository is in \"default\"",
        ),
        (
            "a.json",
            r#"{"apiVersion":"dashboard.grafana.app/v1beta1","kind":"Dashboard","metadata":{"name":"a/b"},"spec":{}}"#,
            "\"a/b\" cannot be the name of a resource",
        ),
    ];
    for (path, content, message) in cases {
        let error = read(path, content).expect_err(content);
        assert!(error.to_string().starts_with(message), "{content}: {error}");
        assert_eq!(error.reason(), Reason::ResourceInvalid, "{content}");
    }
    assert_eq!(read("a.json", b"{\"a\":\"\xff\"}").unwrap_err(), FileError::NotUtf8 { at: 6 });
}

#[test]
fn a_large_file_is_a_warning_of_its_own() {
    let error = FileError::TooLarge { size: 10_001, limit: 10_000 };
    assert_eq!(error.reason(), Reason::ResourceTooLarge);
    assert!(Failure::from(error).warning);
}

#[test]
fn an_alias_bomb_ends_as_an_error() {
    let levels = (1..30).map(|level| {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        format!("a{level}: &a{level} [{aliases}]")
    });
    let first = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]".to_owned();
    let bomb = std::iter::once(first).chain(levels).collect::<Vec<_>>().join("\n");
    let error = read("bomb.yaml", bomb).unwrap_err();
    assert!(matches!(error, FileError::Syntax { .. }), "{error}");
}

#[test]
fn folder_metadata_needs_a_name_and_a_title() {
    let text = |metadata: Value, spec: Value| {
        json!({ "apiVersion": "folder.grafana.app/v1beta1", "kind": "Folder", "metadata": metadata, "spec": spec })
            .to_string()
    };
    let read = |text: String| folder(text.as_bytes(), &context());
    assert_eq!(
        read(text(json!({ "name": "Team_A-1" }), json!({ "title": "Team A" }))).unwrap(),
        FolderDocument { name: "Team_A-1".to_owned(), title: "Team A".to_owned() }
    );
    let bad = [
        (text(json!({}), json!({ "title": "T" })), "metadata.name is missing"),
        (text(json!({ "name": "x" }), json!({ "title": " " })), "spec.title is missing"),
        (text(json!({ "name": "x" }), json!(null)), "spec.title is missing"),
        (text(json!({ "name": "a b" }), json!({ "title": "T" })), "\"a b\" cannot be the name"),
        (text(json!({ "name": "x".repeat(41) }), json!({ "title": "T" })), "the folder name"),
        (text(json!({ "name": "x", "namespace": "other" }), json!({ "title": "T" })), "the document is for"),
        (dashboard(json!({ "name": "x" })), "resources of kind \"Dashboard\""),
        ("{}".to_owned(), "the file is neither"),
    ];
    for (text, message) in bad {
        let error = read(text.clone()).expect_err(&text);
        assert!(error.to_string().starts_with(message), "{text}: {error}");
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]
    #[test]
    fn no_content_makes_a_reader_panic(content in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
        let _ = read("a.json", &content);
        let _ = read("a.yaml", &content);
    }

    #[test]
    fn no_text_makes_a_reader_panic(content in "[-{}\\[\\]:,\"a-c0-2 \n&*|>#%!~\\\\]{0,60}") {
        let _ = read("a.json", &content);
        let _ = read("a.yaml", &content);
    }
}

mod several;
