//! What Git servers do to jobs that write.

use serde_json::json;
use windlass_api::JobState;
use windlass_jobs_operator::{PROVISIONING_JOBS, register};

use crate::kit::{GitServer, World, end_of};
use crate::write::{create, job, put, writable};

/// Commits something to `main` while a push is under way; the quarantine of the push is left.
const SOMEBODY_ELSE: &str = "unset GIT_QUARANTINE_PATH GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES
export GIT_AUTHOR_NAME=o GIT_AUTHOR_EMAIL=o@example.com GIT_COMMITTER_NAME=o GIT_COMMITTER_EMAIL=o@example.com
date +%s%N > stamp
blob=$(git hash-object -w stamp)
tree=$( (git ls-tree main | grep -v theirs; printf '100644 blob %s\\ttheirs.txt\\n' $blob) | git mktree)
git update-ref refs/heads/main $(git commit-tree $tree -p main -m theirs)";

#[tokio::test]
async fn a_branch_that_moved_while_it_was_written_to_is_written_to_where_it_is_then() {
    let (git, world, _process) = writable(json!({})).await;
    git.hook("pre-receive", &format!("test -f stamp && exit 0\n{SOMEBODY_ELSE}"));
    let (state, said) = end_of(&world.run(job("delete", json!({"paths": ["overview.json"]}))).await);
    assert_eq!(state, JobState::Success, "{said}");
    let subjects = git.git(&["log", "--format=%s", "main"]);
    assert_eq!(
        subjects.lines().collect::<Vec<_>>(),
        ["Delete from Grafana test6-delete", "theirs", "change"]
    );
    let files = git.files("main");
    assert!(
        files.contains(&"theirs.txt".to_owned()) && !files.contains(&"overview.json".to_owned()),
        "{files:?}"
    );
}

#[tokio::test]
async fn a_branch_that_moves_all_the_time_is_a_conflict_that_names_both_commits() {
    let (git, world, _process) = writable(json!({})).await;
    git.hook("pre-receive", SOMEBODY_ELSE);
    let (state, said) = end_of(&world.run(job("delete", json!({"paths": ["overview.json"]}))).await);
    assert_eq!(state, JobState::Error, "{said}");
    let tips = git.git(&["rev-list", "--max-count=2", "main"]);
    assert!(said.contains("it moved each of 4 times"), "{said}");
    assert!(tips.lines().all(|commit| said.contains(commit)), "{tips}\n{said}");
    assert!(git.files("main").contains(&"overview.json".to_owned()));
    assert_eq!(git.commits("main"), 5);
}

#[tokio::test]
async fn what_a_hook_says_reaches_whoever_asked_for_the_job() {
    let (git, world, _process) = writable(json!({})).await;
    git.hook("pre-receive", "echo 'dashboards are frozen until Monday' >&2\nexit 1");
    let record = world.run(job("delete", json!({"paths": ["overview.json"]}))).await;
    let (state, said) = end_of(&record);
    assert_eq!(state, JobState::Error);
    for told in [&record.status.message, &record.status.errors.join("\n")] {
        let is_whole =
            told.contains("dashboards are frozen until Monday") && told.contains("refs/heads/main");
        assert!(is_whole, "{said}");
    }
    assert_eq!(git.commits("main"), 1);
    // Other branches are not protected.
    git.hook("pre-receive", "while read old new ref; do test $ref = refs/heads/main && exit 1; done\nexit 0");
    let options = json!({"ref": "allowed", "paths": ["overview.json"]});
    assert_eq!(end_of(&world.run(job("delete", options)).await).0, JobState::Success);
    let (state, said) = end_of(&world.run(job("delete", json!({"paths": ["overview.json"]}))).await);
    assert_eq!(state, JobState::Error);
    assert!(said.contains("pre-receive hook declined"), "{said}");
}

#[tokio::test]
async fn a_push_whose_answer_is_lost_is_made_once() {
    let (git, world, _process) = writable(json!({})).await;
    git.hook("post-receive", "test -f once || { touch once; kill -9 $PPID; }");
    let (state, said) = end_of(&world.run(job("delete", json!({"paths": ["overview.json"]}))).await);
    assert_eq!(state, JobState::Success, "{said}");
    assert!(std::fs::exists(git.git(&["rev-parse", "--absolute-git-dir"]) + "/once").unwrap(), "it was lost");
    assert_eq!(git.commits("main"), 2);
}

#[tokio::test]
async fn a_branch_that_is_not_there_is_named() {
    let (git, world, _process) = writable(json!({})).await;
    git.git(&["branch", "--move", "main", "other"]);
    let (state, said) = end_of(&world.run(job("delete", json!({"paths": ["overview.json"]}))).await);
    assert_eq!(state, JobState::Error);
    assert!(said.contains("branch \"main\" not found"), "{said}");
}

#[tokio::test]
async fn a_repository_without_commits_gets_its_first_one_and_only_that_one() {
    for action in ["push", "migrate"] {
        let git = GitServer::with(windlass_git_server::HttpBackend::writable).await;
        git.make_empty();
        let world = World::with_git(&git);
        create(&world, &git, json!({})).await;
        put(&world, "Dashboard", "mine", None, "Mine").await;
        let _process = world.start(register, PROVISIONING_JOBS);
        let (state, said) = end_of(&world.pull("test6", true).await);
        assert_eq!(state, JobState::Error);
        assert!(said.contains("is empty; push a first commit"), "{said}");
        let (state, said) = end_of(&world.run(job(action, json!({}))).await);
        assert_eq!(state, JobState::Success, "{action}: {said}");
        assert_eq!((git.commits("main"), git.files("main")), (1, vec!["mine.json".to_owned()]), "{action}");
        git.git(&["fsck", "--strict"]);
        let (state, said) = end_of(&world.run(job(action, json!({}))).await);
        assert_eq!((state, git.commits("main")), (JobState::Success, 1), "{action}: {said}");
    }
}

#[tokio::test]
async fn a_server_that_takes_no_pushes_is_named() {
    let git = GitServer::new().await;
    crate::pull::seed(&git);
    let world = World::with_git(&git);
    create(&world, &git, json!({})).await;
    let _process = world.start(register, PROVISIONING_JOBS);
    let (state, said) = end_of(&world.run(job("delete", json!({"paths": ["overview.json"]}))).await);
    assert_eq!(state, JobState::Error);
    assert!(said.contains("needs write access"), "{said}");
}
