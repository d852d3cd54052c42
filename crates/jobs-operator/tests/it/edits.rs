//! Edits on both sides at once, drawn at random: they end in agreement, or in a conflict that names the file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use windlass_api::{Dashboard, FileOutcome, Folder, JobState, annotations};
use windlass_git_server::seed::{self, Edit, SeedError};

use crate::kit::{GitServer, World, dashboard, end_of};
use crate::write::{job, writable};

/// Rounds of some seven edits each.
const ROUNDS: usize = 40;
/// The same where the long forms of tests are asked for.
const LONG_ROUNDS: usize = 150;

/// Few enough to get into each other's way: any file may say any name.
const PATHS: [&str; 7] =
    ["a.json", "b.json", "team/a.json", "team/b.json", "team/deep/a.json", "other/c.json", "other/d.json"];
const NAMES: [&str; 6] = ["n0", "n1", "n2", "n3", "n4", "n5"];

/// Numbers that are the same for the same seed: xorshift.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end as u64).unwrap()
    }

    fn path(&mut self) -> &'static str {
        PATHS[self.below(PATHS.len())]
    }

    fn name(&mut self) -> &'static str {
        NAMES[self.below(NAMES.len())]
    }

    fn number(&mut self) -> usize {
        self.below(1_000_000)
    }
}

/// A request to the repository's files: method, path with its query, body.
type Request = (&'static str, String, String);

/// A commit by somebody else's Git, once more where the branch has moved meanwhile.
async fn commit(git: &GitServer, edits: Vec<Edit>) {
    let repository = git.folder().join("sample.git");
    let made = tokio::task::spawn_blocking(move || push(&repository, &edits)).await.unwrap();
    made.unwrap_or_else(|error| panic!("{error}"));
}

fn push(repository: &Path, edits: &[Edit]) -> Result<(), SeedError> {
    let mut tries = 0..50;
    loop {
        match seed::commit(repository, "main", edits.to_vec(), "theirs") {
            Ok(_commit) => return Ok(()),
            Err(SeedError::Refused { .. }) if tries.next().is_some() => {}
            Err(error) => return Err(error),
        }
    }
}

fn git_edits(draw: &mut Draw) -> Vec<Edit> {
    let edit = |draw: &mut Draw| match draw.below(3) {
        0 => Edit::delete(draw.path()),
        _ => Edit::put(draw.path(), dashboard(draw.name(), &format!("git {}", draw.number()))),
    };
    (0..=draw.below(3)).map(|_| edit(draw)).collect()
}

/// Requests, each with the message of its commit.
fn api_edits(draw: &mut Draw, round: usize) -> Vec<(String, Request)> {
    let edit = |draw: &mut Draw, number: usize| {
        let message = format!("edit-{round}-{number}");
        let path = draw.path();
        let to = format!("test6/files/{path}?message={message}");
        let body = dashboard(draw.name(), &format!("api {}", draw.number()));
        let request = match draw.below(4) {
            0 => ("POST", to, body),
            1 => ("DELETE", to, String::new()),
            2 => ("POST", format!("{to}&originalPath={}", draw.path()), String::new()),
            _ => ("PUT", to, body),
        };
        (message, request)
    };
    (0..=draw.below(4)).map(|number| edit(draw, number)).collect()
}

/// Does something to an object, as somebody does who knows of no repository.
async fn by_hand(world: &World, (what, name, number): (usize, &str, usize)) {
    let api = world.api::<Dashboard>();
    let title = format!("hand {number}");
    // Where there is none, or one already, nothing is done.
    let _done = match what {
        0 => api.delete(name, &DeleteParams::default()).await.map(drop),
        1 => {
            let document = serde_json::from_str(&dashboard(name, &title)).unwrap();
            api.create(&PostParams::default(), &document).await.map(drop)
        }
        _ => {
            let patch = json!({"spec": {"title": title}});
            api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.map(drop)
        }
    };
}

/// What is at each path of the branch: the name and the specification.
fn in_git(git: &GitServer) -> BTreeMap<String, (String, Value)> {
    let read = |path: String| {
        let file: Value = serde_json::from_str(&git.file("main", &path)).unwrap();
        (path, (file["metadata"]["name"].as_str().unwrap().to_owned(), file["spec"].clone()))
    };
    git.files("main").into_iter().map(read).collect()
}

/// What the API has of the repository, by path; and the names of what it has beside.
async fn in_api(world: &World) -> (BTreeMap<String, (String, Value)>, BTreeSet<String>) {
    let (mut managed, mut others) = (BTreeMap::new(), BTreeSet::new());
    for object in world.api::<Dashboard>().list(&ListParams::default()).await.unwrap() {
        let name = object.metadata.name.clone().unwrap();
        let path = object.metadata.annotations.clone().unwrap_or_default().remove(annotations::SOURCE_PATH);
        let spec = serde_json::to_value(&object).unwrap()["spec"].take();
        match path {
            Some(path) => {
                let before = managed.insert(path.clone(), (name, spec));
                assert!(before.is_none(), "{path} has two objects");
            }
            None => drop(others.insert(name)),
        }
    }
    (managed, others)
}

/// The version of each object.
async fn versions(world: &World) -> BTreeMap<String, Option<String>> {
    let dashboards = world.api::<Dashboard>().list(&ListParams::default()).await.unwrap();
    let folders = world.api::<Folder>().list(&ListParams::default()).await.unwrap();
    let dashboards = dashboards.items.into_iter().map(|object| object.metadata);
    let all = dashboards.chain(folders.items.into_iter().map(|object| object.metadata));
    all.map(|metadata| (metadata.uid.unwrap(), metadata.resource_version)).collect()
}

/// Holds both sides against each other: a file that is not in the API is named, and for a reason.
async fn agree(git: &GitServer, world: &World, left_out: &[FileOutcome]) {
    let files = in_git(git);
    let (mut managed, others) = in_api(world).await;
    let named: BTreeMap<&str, &FileOutcome> =
        left_out.iter().map(|outcome| (outcome.path.as_str(), outcome)).collect();
    for (path, file) in &files {
        let Some(object) = managed.remove(path) else {
            let said = named.get(path.as_str()).unwrap_or_else(|| panic!("{path} is missing without a word"));
            let elsewhere = files.iter().any(|(other, (name, _))| other != path && *name == file.0);
            // Another file stands for its object, or one is in its way that somebody made by hand.
            let foreign = others.contains(&file.0) && said.reason == "ResourceInvalid";
            assert!(
                foreign || (elsewhere && said.reason == "ResourceManagedByOther"),
                "{said:?} is in nobody's way"
            );
            continue;
        };
        assert_eq!(&object, file, "{path}");
    }
    assert!(managed.is_empty(), "of no file: {managed:?}");
    let mut folders: BTreeSet<String> = BTreeSet::from([String::new()]);
    for file in git.files("main") {
        folders.extend(Path::new(&file).ancestors().skip(1).map(|folder| folder.display().to_string()));
    }
    assert_eq!(world.folders().await, folders.into_iter().collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_edits_on_both_sides_end_in_agreement_or_in_a_conflict_that_is_named() {
    let is_long = std::env::var_os("WINDLASS_LONG_TESTS").is_some();
    let seed = match std::env::var("WINDLASS_SEED") {
        Ok(seed) => seed.parse().unwrap(),
        Err(_unset) => 0x5eed_0001,
    };
    let mut draw = Draw(seed);
    let (git, world, _process) = writable(json!({})).await;
    world.patch_status("test6", json!({"status": {"health": {"healthy": true, "checked": 5}}})).await;
    world.pull("test6", false).await;
    let (mut edits, mut made, mut refused) = (0, BTreeSet::new(), BTreeSet::new());
    for round in 0..if is_long { LONG_ROUNDS } else { ROUNDS } {
        let (theirs, ours) = (git_edits(&mut draw), api_edits(&mut draw, round));
        let hand = (draw.below(3), draw.name(), draw.number());
        let spec = match draw.below(6) {
            0 => Some(job("delete", json!({"paths": [draw.path()]}))),
            1 => Some(job("move", json!({"paths": [draw.path()], "targetPath": "team/deep/"}))),
            2 => Some(job("pull", json!({"incremental": draw.below(2) == 0}))),
            _ => None,
        };
        edits += theirs.len() + ours.len() + 1;
        let api = async {
            for (message, (method, to, body)) in ours {
                let (code, answer) = world.send(method, &to, body).await;
                match code {
                    200 | 206 => made.insert(message),
                    400 | 404 | 409 | 412 => {
                        let said = answer["message"].as_str().unwrap_or_default();
                        assert!(!said.is_empty(), "seed {seed}: {code} {answer}");
                        refused.insert(message)
                    }
                    _ => panic!("seed {seed}: {method} {to}: {code} {answer}"),
                };
            }
        };
        let jobs = async {
            if let Some(spec) = spec {
                let (state, said) = end_of(&world.run(spec).await);
                assert!(state == JobState::Success || !said.trim().is_empty(), "{state:?}");
            }
        };
        tokio::join!(commit(&git, theirs), api, by_hand(&world, hand), jobs);
    }
    // What was answered as made is in the branch's history once, and what was refused is not.
    let subjects = git.git(&["log", "--format=%s", "main"]);
    let mut commits: BTreeMap<&str, usize> = BTreeMap::new();
    for subject in subjects.lines().filter(|line| line.starts_with("edit-")) {
        *commits.entry(subject).or_default() += 1;
    }
    assert_eq!(commits, made.iter().map(|message| (message.as_str(), 1)).collect(), "seed {seed}");
    assert!(made.len() > edits / 10 && refused.len() > edits / 20, "{made:?} {refused:?}");

    world.pull("test6", true).await;
    let whole = world.pull("test6", false).await;
    assert!(matches!(end_of(&whole).0, JobState::Success | JobState::Warning), "seed {seed}: {whole:#?}");
    // What one pull lets go of another file may take with the next.
    let whole = world.pull("test6", false).await;
    agree(&git, &world, &whole.status.files).await;
    // Nothing is left to do.
    let before = (git.commits("main"), versions(&world).await);
    world.pull("test6", false).await;
    assert_eq!((git.commits("main"), versions(&world).await), before, "seed {seed}");
    assert!(edits > ROUNDS * 4, "{edits} edits");
}
