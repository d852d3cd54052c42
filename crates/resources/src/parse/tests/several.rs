//! Files of several YAML documents.

use super::*;

fn yaml(name: &str) -> String {
    format!(
        "apiVersion: dashboard.grafana.app/v1beta1\nkind: Dashboard\nmetadata:\n  name: {name}\nspec:\n  title: {name}\n"
    )
}

fn read_all(path: &str, content: &str) -> Result<Vec<Document>, FileError> {
    let (repository, kinds) = (context(), Kinds::default());
    let of = ParseContext { context: &repository, folder: None, checksum: "abc", kinds: &kinds };
    documents(path, content.as_bytes(), &of)
}

/// Number and name, or what is wrong.
fn outline(content: &str) -> Vec<(Option<usize>, String)> {
    let read = read_all("x.yaml", content).unwrap();
    let said = |content: Result<ParsedResource, FileError>| match content {
        Ok(resource) => resource.name,
        Err(error) => error.to_string(),
    };
    read.into_iter().map(|document| (document.number, said(document.content))).collect()
}

#[test]
fn each_document_is_an_object_and_empty_ones_are_skipped() {
    let content = format!("# all of it\n---\n{}---\n# nothing\n---\n{}...\n", yaml("a"), yaml("b"));
    assert_eq!(outline(&content), [(Some(1), "a".to_owned()), (Some(2), "b".to_owned())]);
    for document in read_all("x.yaml", &content).unwrap() {
        let resource = document.content.unwrap();
        assert_eq!(resource.annotations[annotations::SOURCE_DOCUMENTS], "2");
        assert_eq!(resource.annotations[annotations::SOURCE_PATH], "x.yaml");
        assert_eq!(resource.annotations[annotations::SOURCE_CHECKSUM], "abc", "the whole file's");
    }
}

#[test]
fn one_document_is_what_it_was_and_cannot_say_that_it_is_one_of_several() {
    let content = format!("---\n{}", yaml("a")).replace(
        "  name: a\n",
        "  name: a\n  annotations: {windlass.dev/source-documents: \"7\", mine: x}\n",
    );
    let [document] = &read_all("x.yaml", &content).unwrap()[..] else { panic!("one document") };
    let resource = document.content.as_ref().unwrap();
    assert_eq!(document.number, None);
    assert!(!resource.annotations.contains_key(annotations::SOURCE_DOCUMENTS));
    assert_eq!(resource.annotations["mine"], "x");
}

#[test]
fn a_bad_document_is_named_and_leaves_the_others_alone() {
    let content = format!("{}---\na: [1\n---\nkind: Pod\napiVersion: v1\n---\n{}", yaml("a"), yaml("d"));
    let outline = outline(&content);
    assert_eq!(outline[0], (Some(1), "a".to_owned()));
    assert!(outline[1].1.starts_with("document 2 of 4: failed to parse the document"), "{outline:?}");
    assert!(outline[2].1.starts_with("document 3 of 4: resources of kind \"Pod\""), "{outline:?}");
    assert_eq!(outline[3], (Some(4), "d".to_owned()));
    let error = read_all("x.yaml", &content).unwrap().remove(2).content.unwrap_err();
    assert_eq!(error.reason(), Reason::ResourceInvalid);
}

#[test]
fn what_is_plainly_no_resource_is_left_out_and_not_counted() {
    let content = format!("values: 1\n---\n{}", yaml("a"));
    assert_eq!(outline(&content), [(Some(2), "a".to_owned())]);
    let resource = read_all("x.yaml", &content).unwrap().remove(0).content.unwrap();
    assert!(!resource.annotations.contains_key(annotations::SOURCE_DOCUMENTS), "it is the only object");
    assert_eq!(read_all("x.yaml", "a: 1\n---\nb: [\n"), Err(FileError::NotAResource));
}

#[test]
fn a_file_has_a_bounded_number_of_documents_and_no_aliases_that_make_it_huge() {
    let many = "---\nkind: A\n".repeat(MAX_DOCUMENTS + 1);
    let error = read_all("x.yaml", &many).unwrap_err();
    assert_eq!(error, FileError::TooManyDocuments { count: 257, limit: 256 });
    assert_eq!(read_all("x.yaml", &"---\nkind: A\n".repeat(MAX_DOCUMENTS)).unwrap().len(), 256);

    let ten = |of: &str| [of; 10].join(",");
    let (x, y, z) = (ten("*x"), ten("*y"), ten("*z"));
    let bomb = format!("---\nkind: A\na: &x {}\nb: &y [{x}]\nc: &z [{y}]\nd: [{z}]\n", "z".repeat(40_000));
    let context = context();
    let kinds = Kinds::default();
    let of = ParseContext { context: &context, folder: None, checksum: "", kinds: &kinds };
    let read = documents("x.yaml", bomb.repeat(2).as_bytes(), &of).unwrap();
    let last = read.last().unwrap().content.as_ref().unwrap_err().to_string();
    assert!(last.contains("document 2 of 2") && last.contains("larger than 64 MiB"), "{last}");
}
