use std::mem::ManuallyDrop;
use std::os::unix::fs::PermissionsExt as _;

use super::*;

struct Scene {
    folder: tempfile::TempDir,
    store: Arc<Store>,
    place: Place,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("data"), Algorithm::Sha256).unwrap();
        Self { folder, store, place: Place::new("gitrepository", "default", "app").unwrap() }
    }

    fn keep(&self, content: &[u8]) -> Kept {
        let mut draft = self.store.draft().unwrap();
        draft.write_all(content).unwrap();
        self.store.keep(draft).unwrap()
    }

    fn publish(&self, content: &[u8]) -> (ArtifactPath, Kept) {
        let kept = self.keep(content);
        (self.store.publish(&kept, &self.place).unwrap(), kept)
    }

    /// Every file whose path could be asked for.
    fn served(&self) -> Vec<Vec<u8>> {
        let directory = self.folder.path().join("data/gitrepository/default/app");
        let files = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
        let named = files.filter(|path| !path.file_name().unwrap().to_string_lossy().starts_with('.'));
        named.map(|path| fs::read(path).unwrap()).collect()
    }
}

#[test]
fn whatever_step_of_a_publication_a_process_dies_at_no_torn_file_is_served() {
    let scene = Scene::new();
    scene.publish(b"old");
    let content = vec![7; 100_000];
    // Dead while it writes, and before it says that it has: what a killed process leaves is what is not dropped.
    let mut torn = ManuallyDrop::new(scene.store.draft().unwrap());
    torn.write_all(&content[..50_000]).unwrap();
    assert_eq!(scene.served(), [b"old"]);
    torn.write_all(&content[50_000..]).unwrap();
    assert_eq!(scene.served(), [b"old"]);
    // Dead once it is kept, and not published.
    let kept = scene.keep(&content);
    assert_eq!(scene.served(), [b"old"]);
    // Dead between the link and the rename.
    let directory = scene.folder.path().join("data/gitrepository/default/app");
    fs::hard_link(scene.store.content_path(&kept.digest), directory.join(".half")).unwrap();
    assert_eq!(scene.served(), [b"old"]);
    // Whoever comes next completes it.
    let store = Store::open(scene.folder.path().join("data"), Algorithm::Sha256).unwrap();
    let path = store.publish(&scene.keep(&content), &scene.place).unwrap();
    assert_eq!(store.verify(&path, &kept.digest), Verdict::Good);
    let mut served = scene.served();
    served.sort();
    assert_eq!(served, [content, b"old".to_vec()]);
}

#[test]
fn two_processes_that_publish_at_once_serve_the_same_whole_file() {
    let scene = Scene::new();
    let other = Store::open(scene.folder.path().join("data"), Algorithm::Sha256).unwrap();
    let content = vec![3; 1 << 20];
    std::thread::scope(|scope| {
        for store in [&scene.store, &other, &scene.store, &other] {
            let (content, place) = (&content, &scene.place);
            scope.spawn(move || {
                for _ in 0..20 {
                    let mut draft = store.draft().unwrap();
                    draft.write_all(content).unwrap();
                    let kept = store.keep(draft).unwrap();
                    let path = store.publish(&kept, place).unwrap();
                    assert_eq!(fs::read(store.path(&path)).unwrap(), *content);
                }
            });
        }
    });
    assert_eq!(scene.served(), [content]);
}

#[test]
fn what_is_damaged_or_cut_off_is_noticed_and_replaced() {
    let scene = Scene::new();
    let (path, kept) = scene.publish(b"content");
    assert_eq!(scene.store.verify(&path, &kept.digest), Verdict::Good);
    let file = scene.store.path(&path);
    for damage in [&b"conTent"[..], b"cont", b""] {
        fs::write(&file, damage).unwrap();
        assert_eq!(scene.store.verify(&path, &kept.digest), Verdict::Damaged, "{damage:?}");
        assert!(!scene.store.has(&kept), "it is one file with the content");
        scene.store.discard(&path, &kept.digest).unwrap();
        assert_eq!(scene.store.verify(&path, &kept.digest), Verdict::Missing);
        scene.publish(b"content");
        assert_eq!(scene.store.verify(&path, &kept.digest), Verdict::Good);
    }
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert_eq!(scene.store.verify(&path, &kept.digest), Verdict::Damaged);
}

#[test]
fn a_write_that_fails_leaves_nothing_behind_and_the_old_artifact_in_place() {
    let scene = Scene::new();
    scene.publish(b"old");
    let mut draft = scene.store.draft().unwrap();
    draft.write_all(b"begun").unwrap();
    // The device that is always full.
    draft.file = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let error = draft.write_all(b"more").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    drop(draft);
    let drafts = fs::read_dir(scene.folder.path().join("data/.drafts")).unwrap().count();
    assert_eq!((drafts, scene.served()), (0, vec![b"old".to_vec()]));
}

#[test]
fn artifacts_go_by_age_and_number_and_the_current_one_stays() {
    let scene = Scene::new();
    let published: Vec<_> = (0..5).map(|n| scene.publish(&[n]).0).collect();
    for (age, path) in published.iter().rev().enumerate() {
        let at = SystemTime::now() - Duration::from_secs(10 * age as u64);
        File::open(scene.store.path(path)).unwrap().set_modified(at).unwrap();
    }
    let collect = |current: usize, time: u64, records: usize| {
        let retention = Retention { time: Duration::from_secs(time), records };
        scene.store.collect(&scene.place, Some(&published[current]), retention).unwrap()
    };
    assert_eq!(collect(0, 1_000, 10), 0);
    assert_eq!(collect(0, 25, 10), 1, "1 is 30 s old, and 0, which is older, is current");
    assert_eq!(collect(0, 1_000, 2), 2);
    let there: Vec<bool> = published.iter().map(|path| scene.store.path(path).exists()).collect();
    assert_eq!(there, [true, false, false, false, true]);
    scene.store.sweep(Duration::ZERO).unwrap();
    scene.store.remove(&scene.place).unwrap();
    assert_eq!(collect(0, 0, 0), 0, "a place that is gone has nothing");
}

#[test]
fn contents_that_nobody_serves_go_and_others_stay() {
    let scene = Scene::new();
    let (_, served) = scene.publish(b"served");
    let unused = scene.keep(b"unused");
    scene.store.sweep(Duration::from_mins(1)).unwrap();
    assert!(scene.store.has(&unused), "it was used just now");
    // The time that counts is one that nobody can set, in whole seconds.
    let until = std::time::Instant::now() + Duration::from_secs(5);
    while scene.store.has(&unused) && std::time::Instant::now() < until {
        scene.store.sweep(Duration::ZERO).unwrap();
    }
    assert!(!scene.store.has(&unused));
    assert!(scene.store.has(&served));
}

#[test]
fn artifacts_are_their_owners_alone() {
    let scene = Scene::new();
    let (path, _) = scene.publish(b"x");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let file = scene.store.path(&path);
    assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
}

#[test]
fn paths_that_lead_elsewhere_are_none() {
    let digest = "a".repeat(64);
    assert!(
        ArtifactPath::parse(&format!("gitrepository/default/app/{digest}.tar.gz")).unwrap().hex().is_some()
    );
    for bad in [
        "",
        "a",
        "a/b/c",
        "a/b/c/",
        "a/b/c/d/e",
        "../b/c/d",
        "a/../c/d",
        "a/b/c/..",
        "a/b/c/.hidden",
        ".content/b/c/d",
        "/a/b/c/d",
        "a//c/d",
        "a/b/c/d\0",
        "a/b/c/d\\e",
        "a/b/c/ä",
    ] {
        assert_eq!(ArtifactPath::parse(bad), None, "{bad}");
    }
    assert_eq!(Place::new("k", "..", "n"), None);
}

#[test]
fn what_nobody_has_marked_for_long_is_removed_and_what_another_marks_in_the_same_folder_is_not() {
    let scene = Scene::new();
    let root = scene.folder.path().join("data");
    // Another shard's, over the same folder.
    let other = Store::open(&root, Algorithm::Sha256).unwrap();
    let place = |kind, name| Place::new(kind, "default", name).unwrap();
    let kept = scene.keep(b"same");
    let publish = |place: &Place| scene.store.path(&scene.store.publish(&kept, place).unwrap());
    let all = ["mine", "theirs", "nobodys", "new"].map(|name| place("gitrepository", name));
    let [mine, theirs, nobodys, new] = all.each_ref().map(publish);
    let elsewhere = publish(&place("externalartifact", "app"));
    let foreign = nobodys.with_file_name("5c9fa07.tar.gz");
    fs::write(&foreign, "of another program").unwrap();
    for file in [&mine, &theirs, &nobodys, &elsewhere] {
        let old = SystemTime::now() - Duration::from_hours(48);
        File::open(file.parent().unwrap()).unwrap().set_modified(old).unwrap();
    }
    let day = Duration::from_hours(24);
    let collect = |store: &Store, own: &Place| store.collect_unowned("gitrepository", |it| it == own, day);
    // Who only marks removes nothing.
    assert_eq!(other.collect_unowned("gitrepository", |it| *it == all[1], Duration::MAX).unwrap(), []);
    assert_eq!(collect(&scene.store, &all[0]).unwrap(), [all[2].clone()]);
    assert_eq!(collect(&other, &all[1]).unwrap(), []);
    for file in [&mine, &theirs, &new, &elsewhere, &foreign] {
        assert!(file.exists(), "{}", file.display());
    }
    assert!(!nobodys.exists());
    fs::remove_file(foreign).unwrap();
    File::open(nobodys.parent().unwrap()).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(collect(&other, &all[1]).unwrap(), []);
    assert!(!nobodys.parent().unwrap().exists());
}
