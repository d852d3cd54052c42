//! Plans are printed and compared as text: one line a change, in the order of the phases.

use std::collections::BTreeMap;

use insta::assert_snapshot;
use tokio_util::sync::CancellationToken;
use windlass_api::SyncTarget;
use windlass_git::{Change, ChangeKind, Diff, EntryKind, Limits, ObjectId, Rejected, Tree};

use super::*;
use crate::folders::{Metadata, read_metadata};
use crate::test_reader::{self, Files};
use crate::{DASHBOARD, FOLDER, Managed, names};

fn context(target: SyncTarget) -> SyncContext {
    SyncContext {
        namespace: "default".to_owned(),
        repository: "test6".to_owned(),
        title: "Test".to_owned(),
        target,
    }
}

/// A world in which a file's content is its text.
struct World {
    context: SyncContext,
    files: Files,
    managed: Managed,
}

impl World {
    fn new(files: &[(&str, &str)]) -> Self {
        let files =
            files.iter().map(|(path, content)| ((*path).to_owned(), content.as_bytes().to_vec())).collect();
        Self { context: context(SyncTarget::Instance), files, managed: Managed::default() }
    }

    /// As `sync` would have left it.
    fn synced(files: &[(&str, &str)]) -> Self {
        let mut world = Self::new(files);
        let plan = world.plan_value();
        for write in &plan.folders {
            world.managed.folders.push(managed_folder(&write.folder));
        }
        for write in &plan.files {
            let name = names::base(&write.path).split('.').next().unwrap_or_default();
            world.managed.files.push(item(
                DASHBOARD,
                name,
                &write.path,
                Some(write.id),
                write.folder.as_deref(),
            ));
        }
        world.managed.folders.sort_by(|a, b| a.path.cmp(&b.path));
        world
    }

    fn write(&mut self, path: &str, content: &str) -> &mut Self {
        self.files.insert(path.to_owned(), content.as_bytes().to_vec());
        self
    }

    fn remove(&mut self, path: &str) -> &mut Self {
        self.files.remove(path).expect("the file is there");
        self
    }

    fn tree(&self) -> Tree {
        test_reader::tree(&self.files)
    }

    fn metadata(&self, managed: &Managed) -> Metadata {
        let reader = test_reader::reader(&self.files, Limits::default());
        let cancel = CancellationToken::new();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(read_metadata(&*reader, &self.tree(), managed, &self.context, &cancel)).unwrap()
    }

    fn plan_value(&self) -> Plan {
        full(&self.tree(), &self.managed, &self.metadata(&self.managed), &self.context)
    }

    fn plan(&self) -> String {
        self.plan_value().to_string()
    }

    fn incremental(&self, diff: &Diff) -> Incremental {
        let metadata = self.metadata(&Managed::default());
        incremental(diff, &self.tree(), &metadata, &Retry::default(), &self.context)
    }
}

fn managed_folder(folder: &Folder) -> ManagedItem {
    ManagedItem {
        checksum: folder.checksum.clone(),
        ..item(FOLDER, &folder.id, &folder.path, None, folder.parent.as_deref())
    }
}

fn item(kind: Kind, name: &str, path: &str, id: Option<ObjectId>, folder: Option<&str>) -> ManagedItem {
    ManagedItem {
        kind,
        name: name.to_owned(),
        path: path.to_owned(),
        checksum: id.map(|id| id.to_string()),
        documents: 1,
        document: None,
        folder: folder.map(Into::into),
        resource_version: "1".to_owned(),
        uid: String::new(),
        file_metadata: None,
        generation: Some(1),
        drifted: false,
    }
}

fn folder_json(name: &str, title: &str) -> String {
    format!(
        r#"{{"apiVersion":"folder.grafana.app/v1beta1","kind":"Folder","metadata":{{"name":"{name}"}},"spec":{{"title":"{title}"}}}}"#
    )
}

#[test]
fn everything_is_created_and_folders_above_come_first() {
    let world = World::new(&[
        ("a/b/deep.json", "1"),
        ("top.json", "2"),
        ("a.b/x.yaml", "3"),
        ("docs/README.md", "4"),
    ]);
    assert_snapshot!(world.plan(), @r##"
    create folder /a = a-cfp26dwogly56zcvj4e-3szmd8gviiaxvf536y "a"
    create folder /a.b = a.b-w-euvb1i4i7f3pkdq-ty193iyvtiawvike0c "a.b"
    create folder /docs = docs-az9-1mscuisfmpetvuiqov5hobm0lniiulw "docs"
    create folder /a/b = b-u7m6zfr-wmc1ny8u5lqchlmw6kszjpgljrqnxw "b" in a-cfp26dwogly56zcvj4e-3szmd8gviiaxvf536y
    create a.b/x.yaml in a.b-w-euvb1i4i7f3pkdq-ty193iyvtiawvike0c
    create a/b/deep.json in b-u7m6zfr-wmc1ny8u5lqchlmw6kszjpgljrqnxw
    create top.json
    "##);
}

#[test]
fn nothing_changed_means_nothing_to_do() {
    let world = World::synced(&[("a/b/deep.json", "1"), ("top.json", "2")]);
    let plan = world.plan_value();
    assert!(plan.is_empty(), "{plan}");
    assert_eq!(plan.kept.len(), 2);
}

#[test]
fn a_changed_file_is_the_only_change() {
    let mut world = World::synced(&[("a/x.json", "1"), ("a/y.json", "2")]);
    assert_snapshot!(world.write("a/x.json", "new").plan(), @r##"
    update a/x.json = x in a-cfp26dwogly56zcvj4e-3szmd8gviiaxvf536y
    "##);
}

#[test]
fn a_moved_file_keeps_its_object() {
    let mut world = World::synced(&[("a/x.json", "1"), ("b/y.json", "2")]);
    world.remove("a/x.json").write("b/z.json", "1");
    assert_snapshot!(world.plan(), @r##"
    rename a/x.json -> b/z.json = x in b-xuw5-pz7utd1qoe3rbo9rnb-bsp31wo8ctm-2v
    delete folder /a = a-cfp26dwogly56zcvj4e-3szmd8gviiaxvf536y
    "##);
}

#[test]
fn files_of_one_content_are_not_taken_for_a_move() {
    let mut world = World::synced(&[("x.json", "1"), ("y.json", "1")]);
    world.remove("x.json").remove("y.json").write("z.json", "1");
    assert_snapshot!(world.plan(), @r##"
    delete dashboard /x.json = x
    delete dashboard /y.json = y
    create z.json
    "##);
}

#[test]
fn folders_go_from_the_bottom_up() {
    let mut world = World::synced(&[("a/b/c/x.json", "1"), ("d/y.json", "2"), ("d/README.md", "3")]);
    world.remove("a/b/c/x.json").remove("d/y.json");
    assert_snapshot!(world.plan(), @r##"
    delete dashboard /a/b/c/x.json = x
    delete dashboard /d/y.json = y
    delete folder /a/b/c = c-lg2mt-r3hbkpuhjciky1npz5shccvbjtww9j3z
    delete folder /a/b = b-u7m6zfr-wmc1ny8u5lqchlmw6kszjpgljrqnxw
    delete folder /a = a-cfp26dwogly56zcvj4e-3szmd8gviiaxvf536y
    "##);
}

#[test]
fn a_surplus_object_of_a_file_goes_and_the_right_one_stays() {
    let mut world = World::synced(&[("x.json", "1")]);
    world.managed.files.push(item(DASHBOARD, "left-over", "x.json", None, None));
    assert_snapshot!(world.plan(), @r##"
    delete dashboard /x.json = left-over
    "##);
}

#[test]
fn a_file_in_the_wrong_folder_is_put_right() {
    let mut world = World::synced(&[("a/x.json", "1")]);
    world.managed.files[0].folder = Some("elsewhere".into());
    assert_snapshot!(world.plan(), @r##"
    update a/x.json = x in a-cfp26dwogly56zcvj4e-3szmd8gviiaxvf536y
    "##);
}

#[test]
fn a_target_folder_holds_everything_and_is_looked_at_first() {
    let mut world = World::new(&[("a/x.json", "1"), ("y.json", "2")]);
    world.context.target = SyncTarget::Folder;
    assert_snapshot!(world.plan(), @r##"
    ensure folder / = test6 "Test"
    create folder /a = a-cfp26dwogly56zcvj4e-3szmd8gviiaxvf536y "a" in test6
    create a/x.json in a-cfp26dwogly56zcvj4e-3szmd8gviiaxvf536y
    create y.json in test6
    "##);
}

#[test]
fn a_former_root_folder_goes_last() {
    let mut world = World::synced(&[("y.json", "2")]);
    world.managed.folders.push(item(FOLDER, "test6", "", None, None));
    world.managed.files[0].folder = Some("test6".into());
    assert_snapshot!(world.plan(), @r##"
    update y.json = y
    delete replaced folder / = test6
    "##);
}

#[test]
fn metadata_names_a_folder_and_survives_a_move_of_the_directory() {
    let said = folder_json("team-a", "Team A");
    let mut world = World::synced(&[("a/_folder.json", &said), ("a/x.json", "1")]);
    assert!(world.plan_value().is_empty(), "{}", world.plan());
    world.remove("a/_folder.json").remove("a/x.json").write("b/_folder.json", &said).write("b/x.json", "1");
    assert_snapshot!(world.plan(), @r##"
    update folder /b = team-a "Team A", was /a
    rename a/x.json -> b/x.json = x in team-a
    "##);
}

#[test]
fn new_metadata_replaces_the_folder_and_moves_what_it_holds() {
    let mut world = World::synced(&[("a/x.json", "1"), ("a/b/y.json", "2")]);
    world.write("a/_folder.json", &folder_json("team-a", "Team A"));
    assert_snapshot!(world.plan(), @r##"
    create folder /a = team-a "Team A"
    update folder /a/b = b-u7m6zfr-wmc1ny8u5lqchlmw6kszjpgljrqnxw "b" in team-a
    update a/x.json = x in team-a
    delete replaced folder /a = a-cfp26dwogly56zcvj4e-3szmd8gviiaxvf536y
    "##);
}

#[test]
fn bad_metadata_is_reported_and_the_folder_keeps_its_name() {
    let mut world = World::synced(&[("a/_folder.json", &folder_json("team-a", "Team A")), ("a/x.json", "1")]);
    world.write("a/_folder.json", "{");
    assert_snapshot!(world.plan(), @r##"
    notice a/_folder.json: failed to parse the document: EOF while parsing an object at line 1 column 1; until it is mended, the folder keeps its name (InvalidFolderMetadata)
    update folder /a = team-a
    "##);
}

#[test]
fn two_directories_of_one_name_are_reported_and_the_holder_keeps_it() {
    let said = folder_json("team-a", "Team A");
    let mut world = World::synced(&[("b/_folder.json", &said), ("b/x.json", "1")]);
    world.write("a/_folder.json", &said);
    assert_snapshot!(world.plan(), @r##"
    notice a/_folder.json: folder "team-a" is already described by "b/_folder.json" (FolderMetadataConflict)
    create folder /a = a-cfp26dwogly56zcvj4e-3szmd8gviiaxvf536y "a"
    "##);
}

#[test]
fn what_is_left_out_is_reported_and_its_good_folders_stay() {
    let mut world =
        World::new(&[("a/.hidden/x.json", "1"), ("b/c%d/y.json", "2"), ("1/2/3/4/5/6/7/8/z.json", "3")]);
    world.context.target = SyncTarget::Folderless;
    let mut tree = world.tree();
    tree.entries.iter_mut().filter(|e| e.path.starts_with("1/")).for_each(|e| e.kind = EntryKind::File);
    tree.rejected =
        vec![Rejected { path: "a/\\xff.json".to_owned(), reason: "its name is not UTF-8".to_owned() }];
    let plan = full(&tree, &world.managed, &Metadata::default(), &world.context);
    assert_snapshot!(plan, @r##"
    notice a/\xff.json: the file is left out: its name is not UTF-8 (ResourceInvalid)
    notice 1/2/3/4/5/6/7/8/z.json: the path is nested deeper than 8 levels; move the file up to have it synced (ResourceInvalid)
    notice b/c%d/y.json: the path contains characters that are not allowed (control characters, '\', '%', '..'); rename the file (ResourceInvalid)
    create folder /1 = 1-hokjleknoesgh254g-2qok8qcm40x81ovcfok0 "1"
    create folder /a = a-cfp26dwogly56zcvj4e-3szmd8gviiaxvf536y "a"
    create folder /b = b-xuw5-pz7utd1qoe3rbo9rnb-bsp31wo8ctm-2v "b"
    create folder /1/2 = 2-d-hsyshw-cjufb385biyn9vn6dt9bwlmuu1y3z "2" in 1-hokjleknoesgh254g-2qok8qcm40x81ovcfok0
    create folder /1/2/3 = 3-xbvq2hskfbf-x-cp2r2ihatkha-rlkbfqfzaid "3" in 2-d-hsyshw-cjufb385biyn9vn6dt9bwlmuu1y3z
    create folder /1/2/3/4 = 4-nxwsswfnvuuh7zc0j3hpyklty0pbnnvgdzzb2g "4" in 3-xbvq2hskfbf-x-cp2r2ihatkha-rlkbfqfzaid
    create folder /1/2/3/4/5 = 5-n-qfeoay7wjndfuuvymtp7xoj1yf1xqgfojzfc "5" in 4-nxwsswfnvuuh7zc0j3hpyklty0pbnnvgdzzb2g
    create folder /1/2/3/4/5/6 = 6-z2bw9ndl7whmummv-q54tc8-s63a-kuxpmldwe "6" in 5-n-qfeoay7wjndfuuvymtp7xoj1yf1xqgfojzfc
    create folder /1/2/3/4/5/6/7 = 7-1wdhg8pms9pjabixncafy2kq7x1vuomrdp717a "7" in 6-z2bw9ndl7whmummv-q54tc8-s63a-kuxpmldwe
    create folder /1/2/3/4/5/6/7/8 = 8-vre6u-3j9b6ptgr3cbz-muclfbbe8vjnokjj-o "8" in 7-1wdhg8pms9pjabixncafy2kq7x1vuomrdp717a
    "##);
}

fn change(kind: ChangeKind, path: &str, previous_path: Option<&str>) -> Change {
    let id = |digit: u8| ObjectId::from_bytes([digit; 20]);
    Change {
        path: path.to_owned(),
        previous_path: previous_path.map(str::to_owned),
        kind,
        id: (kind != ChangeKind::Deleted).then(|| id(1)),
        previous_id: (kind != ChangeKind::Added).then(|| id(2)),
        entry: EntryKind::File,
        size: 1,
    }
}

fn diff(changes: Vec<Change>) -> Diff {
    Diff { changes, rejected: Vec::new() }
}

#[test]
fn a_difference_touches_what_it_names_and_the_folders_that_it_empties() {
    let world =
        World::new(&[("a/x.json", "1"), ("a/kept.json", "2"), ("n/new.json", "3"), ("m/moved.json", "4")]);
    let plan = world.incremental(&diff(vec![
        change(ChangeKind::Modified, "a/x.json", None),
        change(ChangeKind::Added, "n/new.json", None),
        change(ChangeKind::Deleted, "gone/away/y.json", None),
        change(ChangeKind::Renamed, "m/moved.json", Some("old/moved.json")),
        change(ChangeKind::Modified, "a/README.md", None),
    ]));
    let Incremental::Plan(plan) = plan else { panic!("{plan:?}") };
    assert_eq!(plan.kept.iter().collect::<Vec<_>>(), ["a/kept.json"]);
    assert_snapshot!(plan, @r##"
    delete object of /gone/away/y.json
    ensure folder /m = m-pzdk304cfyolpajr4sl8nituv-m9llmco5cvgi "m"
    ensure folder /n = n-90csgotysbfz3veezct2tilnuaegpbourmjqug "n"
    rename old/moved.json -> m/moved.json in m-pzdk304cfyolpajr4sl8nituv-m9llmco5cvgi
    delete folder /gone/away = away-n-pbfpwsthn2tqo9mz1na57306nrbfabifh
    delete folder /gone = gone-pius7n4cohdrkud-xdgqa5ctibp8tykpbme
    delete folder /old = old-asbcgubjpopli6egwhll1ljrmubodqonrlaq
    update a/x.json in a-cfp26dwogly56zcvj4e-3szmd8gviiaxvf536y
    create n/new.json in n-90csgotysbfz3veezct2tilnuaegpbourmjqug
    "##);
}

#[test]
fn a_file_that_becomes_a_link_loses_its_object() {
    let world = World::new(&[("x.json", "1")]);
    let mut changed = change(ChangeKind::Modified, "x.json", None);
    changed.entry = EntryKind::Symlink;
    let mut tree = world.tree();
    tree.entries[0].kind = EntryKind::Symlink;
    let (metadata, retry) = (Metadata::default(), Retry::default());
    let plan = incremental(&diff(vec![changed]), &tree, &metadata, &retry, &world.context);
    let Incremental::Plan(plan) = plan else { panic!("a plan") };
    assert_snapshot!(plan, @r##"
    notice x.json: symbolic links are not followed; replace the link by the file itself (ResourceInvalid)
    delete object of /x.json
    "##);
}

#[test]
fn changed_metadata_asks_for_a_full_comparison() {
    let world = World::new(&[("a/x.json", "1")]);
    for changed in [
        change(ChangeKind::Deleted, "a/_folder.json", None),
        change(ChangeKind::Renamed, "a/y.json", Some("b/_folder.json")),
    ] {
        let answer = world.incremental(&diff(vec![changed]));
        assert!(matches!(answer, Incremental::NeedsFull(_)), "{answer:?}");
    }
}

#[test]
fn a_plan_is_a_document() {
    let world = World::new(&[("a/x.json", "1")]);
    let plan = serde_json::to_value(world.plan_value()).unwrap();
    let phases: BTreeMap<String, serde_json::Value> = serde_json::from_value(plan).unwrap();
    assert_eq!(phases["files"][0]["path"], "a/x.json");
    assert_eq!(phases["folders"][0]["path"], "a");
}

#[test]
fn a_difference_names_what_is_left_out_of_the_whole_tree() {
    let world = World::new(&[("a/c%d/y.json", "1"), ("x.json", "2")]);
    let changes = vec![change(ChangeKind::Added, "x.json", Some("2"))];
    let Incremental::Plan(plan) = world.incremental(&diff(changes)) else { panic!("a plan") };
    let named: Vec<&str> = plan.notices.iter().map(|notice| notice.path.as_str()).collect();
    assert_eq!(named, ["a/c%d/y.json"], "it did not change, and is left out still");
}

#[test]
fn what_is_tried_again_claims_its_object_after_what_changed() {
    let world = World::new(&[("a.json", "1"), ("b.json", "2"), ("c.json", "3")]);
    let changes = vec![change(ChangeKind::Modified, "c.json", Some("3"))];
    let retry = Retry { files: ["a.json".to_owned(), "gone.json".to_owned()].into(), ..Retry::default() };
    let plan = incremental(&diff(changes), &world.tree(), &Metadata::default(), &retry, &world.context);
    let Incremental::Plan(plan) = plan else { panic!("a plan") };
    let files: Vec<&str> = plan.files.iter().map(|write| write.path.as_str()).collect();
    assert_eq!(files, ["c.json", "a.json"]);
    assert!(plan.kept.contains("b.json") && !plan.kept.contains("a.json"));
}
