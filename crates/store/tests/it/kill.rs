//! A process that is killed in the middle of its commits.

use std::env;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use windlass_store::{Key, Page, Range, StoreOptions, Write, open_file};

const CHILD: &str = "WINDLASS_TEST_STORE_CHILD";
const CLIENTS: usize = 8;

/// Commits until it is killed, and says of each commit when it was answered: `client object revision`.
async fn commit_until_killed(path: &Path, round: &str) {
    let store = open_file(path, &StoreOptions::default()).unwrap();
    let clients = (0..CLIENTS).map(|client| {
        let (store, round) = (store.clone(), round.to_owned());
        tokio::spawn(async move {
            for object in 0_u64.. {
                let name = format!("{round}-{client}-{object}");
                let key = Key::new("g", "r", "default", &name).unwrap();
                let other = Key::new("g", "r", "other", &name).unwrap();
                let value = vec![b'x'; usize::try_from(object % 97).unwrap() * 100];
                let writes = vec![Write::create(key, value), Write::create(other, "pair")];
                let revision = store.commit(writes).await.unwrap().revision;
                // One write a line: a line is there whole or not at all.
                std::io::stdout().write_all(format!("\nanswered {name} {revision}\n").as_bytes()).unwrap();
            }
        })
    });
    futures::future::join_all(clients.collect::<Vec<_>>()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_process_leaves_every_answered_commit_and_no_half_of_one() {
    if let Some(child) = env::var_os(CHILD) {
        let child = PathBuf::from(child);
        let (folder, round) = (child.parent().unwrap(), child.file_name().unwrap().to_str().unwrap());
        return commit_until_killed(&folder.join("store"), round).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut answered: Vec<(String, u64)> = Vec::new();
    // Each round finds what those before it left.
    for (round, commits) in [0, 1, 60, 333].into_iter().enumerate() {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "kill::a_killed_process_leaves_every_answered_commit_and_no_half_of_one"])
            .arg("--nocapture")
            .env(CHILD, folder.path().join(round.to_string()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let parse = |line: String| {
            let mut words = line.strip_prefix("answered ")?.split(' ');
            Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
        };
        answered.extend(lines.by_ref().filter_map(parse).take(commits));
        child.kill().unwrap();
        // What was answered before the kill arrived counts as well.
        answered.extend(lines.filter_map(parse));
        child.wait().unwrap();

        let store = open_file(&folder.path().join("store"), &StoreOptions::default()).unwrap();
        for (name, revision) in &answered {
            let other = store.get(&Key::new("g", "r", "other", name).unwrap()).await.unwrap();
            assert_eq!(other.map(|object| object.revision), Some(*revision), "{name} of round {round}");
        }
        let list = async |namespace: &str| {
            let range = Range::new("g", "r", Some(namespace)).unwrap();
            let page = store.list(&range, Page::default()).await.unwrap();
            page.objects
                .into_iter()
                .map(|object| (object.key.name().to_owned(), object.revision))
                .collect::<Vec<_>>()
        };
        let (first, second) = (list("default").await, list("other").await);
        let pairs: Vec<_> = first.into_iter().map(|(name, revision)| (name, revision + 1)).collect();
        assert_eq!(pairs, second, "both writes of a commit are there, or none");
        assert_eq!(store.revision(), 1 + 2 * pairs.len() as u64, "no revision was lost or used twice");
    }
    assert!(answered.len() >= 394, "{} commits were answered", answered.len());
}
