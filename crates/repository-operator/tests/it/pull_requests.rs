//! What a pull request would do, told on it.

use serde_json::json;
use windlass_api::{JobAction, JobSpec, JobState, PullRequestJobOptions};
use windlass_git_server::seed::{self, Edit};
use windlass_jobs_operator::{PROVISIONING_JOBS, register as jobs};

use crate::hooks::Scene;
use crate::kit::{dashboard, end_of};

impl Scene {
    /// A repository that is pulled, and a branch with these files.
    async fn with_branch(&self, edits: impl IntoIterator<Item = Edit>) {
        self.create(json!({})).await;
        self.branch(edits);
        self.titles("A").await;
        self.quiet().await;
    }

    fn branch(&self, edits: impl IntoIterator<Item = Edit>) {
        seed::commit(&self.files, "feature", edits, "change").unwrap();
    }

    async fn look(&self, number: u64, is_fork: Option<bool>) -> (JobState, String) {
        let options = PullRequestJobOptions {
            reference: "feature".to_owned(),
            pr: i64::try_from(number).unwrap(),
            is_fork,
            ..PullRequestJobOptions::default()
        };
        let mut spec = JobSpec::pull("dash", false);
        (spec.action, spec.pull, spec.pr) = (JobAction::PullRequest, None, Some(options));
        end_of(&self.world.run(spec).await)
    }

    fn told(&self, number: u64) -> Vec<String> {
        self.upstream.comments(number).into_iter().map(|comment| comment.body).collect()
    }
}

#[tokio::test]
async fn what_merging_would_do_is_told_in_one_comment_that_follows_the_pull_request() {
    let scene = Scene::new().await;
    let _processes = (scene.start(), scene.world.start(jobs, PROVISIONING_JOBS));
    scene
        .with_branch([
            Edit::put("a.json", dashboard("a", "Another")),
            Edit::put("bad.json", "{"),
            Edit::put("notes.txt", "no object"),
        ])
        .await;
    let files = [("a.json", "modified", None), ("bad.json", "added", None), ("notes.txt", "added", None)];
    let number = scene.upstream.open_pull("Change", "feature", &files);
    scene.upstream.comment_of_a_ghost(number, "Looks good");
    let (state, text) = scene.look(number, None).await;
    assert_eq!(state, JobState::Warning, "{text}");
    let told = scene.told(number);
    let [_, comment] = &told[..] else { panic!("one comment: {told:?}") };
    assert!(comment.contains("| update | Dashboard | [Another]("), "{comment}");
    assert!(comment.contains("| create |  |  |") && comment.contains("What would not be taken"), "{comment}");
    assert!(!comment.contains("notes"), "{comment}");
    assert_eq!(scene.world.dashboards().await["a.json"], "A", "nothing is changed");

    scene.branch([
        Edit::put("a.json", dashboard("a", "Yet another")),
        Edit::put("bad.json", dashboard("b", "B")),
    ]);
    let (state, text) = scene.look(number, None).await;
    assert_eq!(state, JobState::Success, "{text}");
    let told = scene.told(number);
    assert_eq!((told.len(), told[0].as_str()), (2, "Looks good"), "it is the same comment: {told:?}");
    assert!(told[1].contains("Yet another") && !told[1].contains("would not be taken"), "{told:?}");
}

#[tokio::test]
async fn ten_files_are_looked_at_and_the_rest_is_counted() {
    let scene = Scene::new().await;
    let _processes = (scene.start(), scene.world.start(jobs, PROVISIONING_JOBS));
    let paths: Vec<String> = (0..13).map(|n| format!("d{n:02}.json")).collect();
    scene.with_branch(paths.iter().map(|path| Edit::put(path.as_str(), dashboard(&path[..3], path)))).await;
    let files: Vec<_> = paths.iter().map(|path| (path.as_str(), "added", None)).collect();
    let number = scene.upstream.open_pull("Many", "feature", &files);
    scene.look(number, None).await;
    let told = scene.told(number).remove(0);
    assert_eq!(told.matches("| create |").count(), 10, "{told}");
    assert!(told.contains("and 3 more files"), "{told}");
}

#[tokio::test]
async fn nothing_is_read_of_a_fork_and_it_is_told_so() {
    let scene = Scene::new().await;
    let _processes = (scene.start(), scene.world.start(jobs, PROVISIONING_JOBS));
    scene.with_branch([Edit::put("a.json", dashboard("a", "Theirs"))]).await;
    let number = scene.upstream.open_pull("Fork", "feature", &[("a.json", "modified", None)]);
    let (state, text) = scene.look(number, Some(true)).await;
    assert_eq!(state, JobState::Success, "{text}");
    let told = scene.told(number);
    assert!(told.len() == 1 && told[0].contains("forks") && !told[0].contains("Theirs"), "{told:?}");
    let asked = scene.github.requests();
    assert!(!asked.iter().any(|request| request.contains("/files")), "{asked:?}");
}

#[tokio::test]
async fn each_look_is_a_comment_of_its_own_where_the_settings_say_so() {
    let mut scene = Scene::new().await;
    scene.world.settings.push(("operator.pull_request_comment_each".to_owned(), "true".to_owned()));
    let _processes = (scene.start(), scene.world.start(jobs, PROVISIONING_JOBS));
    scene.with_branch([Edit::put("a.json", dashboard("a", "Another"))]).await;
    let number = scene.upstream.open_pull("Change", "feature", &[("a.json", "modified", None)]);
    scene.look(number, None).await;
    scene.look(number, None).await;
    let told = scene.told(number);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains("Merging this will update the dashboard **Another**"), "{told:?}");
}
