use windlass_git::ObjectId;
use windlass_resources::DASHBOARD;
use windlass_resources::folders::Folder;
use windlass_resources::plan::{Deletion, Existing, FolderWrite, Target};

use super::*;

const ID: ObjectId = ObjectId::from_bytes([7; 20]);

fn file(path: &str, known: Known) -> FileWrite {
    FileWrite { path: path.to_owned(), previous_path: None, id: ID, size: 1, folder: None, known }
}

fn new_file(path: &str) -> FileWrite {
    file(path, Known::Listed(Vec::new()))
}

fn existing() -> Existing {
    Existing {
        kind: DASHBOARD,
        name: "it".to_owned(),
        resource_version: "1".to_owned(),
        uid: String::new(),
        file_metadata: None,
        generation: Some(1),
        checksum: None,
        drifted: false,
    }
}

fn changed_file(path: &str) -> FileWrite {
    file(path, Known::Listed(vec![existing()]))
}

fn folder(path: &str, action: FolderAction) -> FolderWrite {
    let folder =
        Folder { path: path.to_owned(), id: path.to_owned(), title: None, parent: None, checksum: None };
    FolderWrite { folder, action, previous_path: None }
}

fn deletion(path: &str) -> Deletion {
    Deletion { path: path.to_owned(), target: Target::Listed(existing()) }
}

/// What is let in, folders first, and what is refused.
fn fit(limit: usize, used: usize, plan: Plan) -> (Vec<String>, Vec<String>) {
    let (plan, refused, _) = Quota { limit }.fit(plan, used);
    let folders = plan.folders.iter().map(|write| format!("{}/", write.folder.path));
    let files = plan.files.iter().map(|write| write.path.clone());
    (folders.chain(files).collect(), refused.into_iter().map(|refused| refused.path).collect())
}

#[test]
fn without_a_limit_everything_is_let_in() {
    let plan = Plan { files: vec![new_file("a.json")], ..Plan::default() };
    assert_eq!(fit(0, 1_000_000, plan), (vec!["a.json".to_owned()], vec![]));
}

#[test]
fn new_files_are_let_in_by_their_order_until_there_is_no_room() {
    let plan = Plan { files: vec![new_file("a"), changed_file("b"), new_file("c")], ..Plan::default() };
    let (stays, refused) = fit(3, 2, plan);
    assert_eq!(stays, ["a", "b"]);
    assert_eq!(refused, ["c"]);
}

#[test]
fn a_file_needs_room_for_its_new_folders_too() {
    let create = |path| folder(path, FolderAction::Create);
    let plan = Plan {
        folders: vec![create("x"), create("x/y"), create("z")],
        files: vec![new_file("x/y/a"), new_file("b"), new_file("z/c")],
        ..Plan::default()
    };
    let (stays, refused) = fit(2, 0, plan.clone());
    assert_eq!(stays, ["b"], "x/y/a needs room for three, z/c for two");
    assert_eq!(refused, ["x/y/a", "z/c", "x", "x/y", "z"], "no folder takes the room of its files");
    assert_eq!(fit(6, 0, plan).1, Vec::<String>::new());
}

#[test]
fn what_is_deleted_makes_room() {
    let plan = Plan { delete_files: vec![deletion("old")], files: vec![new_file("new")], ..Plan::default() };
    assert_eq!(fit(1, 1, plan).0, ["new"]);
}

#[test]
fn what_moves_or_changes_keeps_its_place_over_the_limit() {
    let plan = Plan {
        folders: vec![folder("to", FolderAction::Create), folder("old", FolderAction::Update(existing()))],
        renames: vec![FileWrite { previous_path: Some("from/a".to_owned()), ..changed_file("to/a") }],
        files: vec![changed_file("old/b"), new_file("old/c")],
        ..Plan::default()
    };
    let (stays, refused) = fit(1, 5, plan);
    assert_eq!(stays, ["to/", "old/", "old/b"]);
    assert_eq!(refused, ["old/c"]);
}

#[test]
fn an_incremental_plan_is_judged_by_what_it_could_create() {
    let plan = Plan {
        folders: vec![folder("x", FolderAction::Ensure)],
        files: vec![file("x/a", Known::FromContent(None)), file("x/b", Known::FromContent(Some(ID)))],
        ..Plan::default()
    };
    assert_eq!(Quota { limit: 4 }.room(&plan, 2), Some(0));
    assert_eq!(Quota { limit: 3 }.room(&plan, 2), None);
    assert_eq!(Quota { limit: 0 }.room(&plan, 2), Some(usize::MAX));
}

#[test]
fn the_condition_says_how_much_is_used() {
    let says = |limit, used, refused| {
        let condition = Quota { limit }.condition(used, refused, Some(1), Timestamp::UNIX_EPOCH);
        (condition.status == "True", condition.reason, condition.message)
    };
    assert_eq!(
        says(0, 5, false),
        (true, reasons::QUOTA_UNLIMITED.to_owned(), messages::QUOTA_UNLIMITED.to_owned())
    );
    assert_eq!(says(6, 5, false).1, reasons::WITHIN_QUOTA);
    assert_eq!(
        says(5, 5, false),
        (true, reasons::QUOTA_REACHED.to_owned(), "resource quota reached: 5/5 resources".to_owned())
    );
    assert_eq!(says(5, 6, false).1, reasons::QUOTA_EXCEEDED);
    assert_eq!(
        says(6, 5, true).1,
        reasons::QUOTA_EXCEEDED,
        "a file of two objects may not fit where one would"
    );
}
