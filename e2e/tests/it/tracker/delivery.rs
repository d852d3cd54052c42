//! A Git repository on its way into a cluster, and what a test knows of each commit's way by its own clock.

use std::ops::Deref;

use anyhow::{Context as _, Result, bail};
use jiff::{Timestamp, ToSpan as _};
use serde_json::{Value, json};
use windlass_e2e::eventually;
use windlass_e2e::flux::{
    FluxScene, GitRemote, Kustomization, NewCommit, Observed, Published, Source, Told, Tracker,
};

/// Kubernetes' times have whole seconds, which the tracker takes at their middle: it is off by so much at most.
pub(super) const CUT: f64 = 0.5;

/// A fleet of one Kustomization.
pub(super) struct Delivery {
    pub(super) scene: FluxScene,
    pub(super) remote: GitRemote,
    pub(super) source: Source,
    pub(super) kustomization: Kustomization,
    /// The commit that was applied before anybody looked.
    pub(super) baseline: String,
    /// Commits in the order they were made.
    pub(super) commits: Vec<Commit>,
    published: Vec<Published>,
}

/// A commit that was made.
#[derive(Clone, Debug)]
pub(super) struct Commit {
    pub(super) id: String,
    pub(super) merged: Timestamp,
}

impl Deref for Delivery {
    type Target = FluxScene;

    fn deref(&self) -> &FluxScene {
        &self.scene
    }
}

impl Delivery {
    /// A fleet whose first commit is two hours old and applied.
    pub(super) async fn start() -> Option<Self> {
        Self::with(json!({})).await
    }

    /// The same with these fields of the Kustomization's specification.
    pub(super) async fn with(spec: Value) -> Option<Self> {
        let scene = FluxScene::shared().await.unwrap()?;
        let remote = GitRemote::new().await.unwrap();
        let two_hours_ago = Timestamp::now().checked_sub(2.hours()).unwrap();
        let first = NewCommit::new("begin", two_hours_ago, "map.yaml", config_map("begin"));
        let baseline = remote.commit(first).await.unwrap();
        let source = scene.git_repository("fleet", &remote).await.unwrap();
        let kustomization = scene.kustomization("fleet", &source, spec).await.unwrap();
        let published = source.publish(&scene.artifacts, &remote, &baseline).await.unwrap();
        let applied = kustomization.applied(&published.revision).await;
        applied.unwrap_or_else(|error| panic!("{error:#}; {}", scene.flux_said()));
        let (commits, published) = (Vec::new(), vec![published]);
        Some(Self { scene, remote, source, kustomization, baseline, commits, published })
    }

    /// Starts a tracker and waits until it is ready.
    pub(super) async fn tracker(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Tracker {
        self.scene.start_tracker(&self.remote.origin(), arguments, environment).await.unwrap()
    }

    /// Makes a commit that was merged some seconds ago.
    pub(super) async fn commit(&mut self) -> String {
        let name = format!("change {}", self.commits.len() + 1);
        self.commit_files(vec![("map.yaml".to_owned(), config_map(&name))]).await
    }

    /// The same with these files.
    pub(super) async fn commit_files(&mut self, files: Vec<(String, String)>) -> String {
        let number = self.commits.len() + 1;
        // Times that differ, so that no commit's figure is another's.
        let age = i64::try_from(20 + 7 * number).unwrap();
        let merged = Timestamp::from_second(Timestamp::now().as_second() - age).unwrap();
        let commit =
            NewCommit { message: format!("change {number}"), committed: merged, parents: Vec::new(), files };
        let id = self.remote.commit(commit).await.unwrap();
        self.commits.push(Commit { id: id.clone(), merged });
        id
    }

    /// Says that the source's newest revision is this commit, and answers the revision.
    pub(super) async fn publish(&mut self, commit: &str) -> String {
        let published = self.source.publish(&self.scene.artifacts, &self.remote, commit).await.unwrap();
        let revision = published.revision.clone();
        self.published.push(published);
        revision
    }

    /// Publishes a commit and waits until it is applied.
    pub(super) async fn apply(&mut self, commit: &str) -> Observed {
        let revision = self.publish(commit).await;
        let applied = self.kustomization.applied(&revision).await;
        applied.unwrap_or_else(|error| panic!("{error:#}; {}", self.scene.flux_said()))
    }

    /// Makes so many commits and publishes the last of them, until it is applied.
    pub(super) async fn deliver(&mut self, commits: usize) -> Observed {
        let mut last = String::new();
        for _ in 0..commits {
            last = self.commit().await;
        }
        self.apply(&last).await
    }

    /// Makes so many commits and publishes each, one right after the other, until the last of them is applied.
    pub(super) async fn rush(&mut self, commits: usize) -> Observed {
        let mut ids = Vec::new();
        for _ in 0..commits {
            ids.push(self.commit().await);
        }
        let mut revision = String::new();
        for id in &ids {
            revision = self.publish(id).await;
        }
        self.kustomization.applied(&revision).await.unwrap()
    }

    /// The place of a revision in the order of commits.
    fn place(&self, revision: &str) -> Option<usize> {
        self.commits.iter().position(|commit| revision.ends_with(&commit.id))
    }

    /// The revision that brought a commit: the first that was seen to be applied with it, or a later one, in it.
    pub(super) fn brought(&self, commit: usize) -> Result<Observed> {
        let observed = self.kustomization.observed();
        let with_it = |seen: &&Observed| self.place(&seen.revision).is_some_and(|place| place >= commit);
        observed
            .iter()
            .find(with_it)
            .cloned()
            .with_context(|| format!("commit {commit} was not seen: {observed:#?}"))
    }

    /// How many revisions of commits were seen to be applied.
    pub(super) fn revisions(&self) -> usize {
        self.kustomization.observed().iter().filter(|seen| self.place(&seen.revision).is_some()).count()
    }

    /// The least and the most that a commit's way may have taken, in seconds.
    ///
    /// The truth is the moment at which kustomize-controller called the revision applied. The test does not know it, but
    /// its own clock was read before the revision was published and after its status was seen, so the truth is between
    /// these. What the controller writes down of it is cut to the second, so a figure may be half a second off.
    pub(super) fn bounds(&self, commit: usize) -> Result<(f64, f64)> {
        let brought = self.brought(commit)?;
        let published = self.published.iter().find(|published| published.revision == brought.revision);
        let published = published.context("what was applied was never published")?;
        let merged = self.commits[commit].merged;
        let since = |time: Timestamp| time.duration_since(merged).as_secs_f64();
        Ok((since(published.begun) - CUT, since(brought.seen) + CUT))
    }

    /// Holds what trackers told of commits against the test's own clock. Answers the numbers of the commits that nobody
    /// told of.
    pub(super) fn check_told(&self, trackers: &[&Tracker]) -> Result<Vec<usize>> {
        let told: Vec<Told> = trackers.iter().flat_map(|tracker| tracker.told()).collect();
        let mut untold = Vec::new();
        for (number, commit) in self.commits.iter().enumerate() {
            let of_it: Vec<&Told> = told.iter().filter(|told| told.commit == commit.id).collect();
            let (least, most) = self.bounds(number)?;
            match of_it[..] {
                [] => untold.push(number),
                [one] if (least..=most).contains(&one.end_to_end) => {}
                _ => bail!("commit {number} took {least} to {most} s, and was told as {of_it:#?}"),
            }
        }
        let stranger = told.iter().find(|told| self.commits.iter().all(|commit| commit.id != told.commit));
        if let Some(stranger) = stranger {
            bail!("a commit was told that nobody made: {stranger:?}");
        }
        Ok(untold)
    }

    /// The least and the most that all ways together may have taken, in seconds.
    pub(super) fn all_bounds(&self) -> Result<(f64, f64)> {
        let mut sum = (0.0, 0.0);
        for number in 0..self.commits.len() {
            let (least, most) = self.bounds(number)?;
            sum = (sum.0 + least, sum.1 + most);
        }
        Ok(sum)
    }

    /// Waits until trackers have told of every commit, and holds it against the test's own clock: a line comes a moment
    /// after its commit is counted.
    pub(super) async fn all_told(&self, trackers: &[&Tracker]) {
        let told = eventually("every commit is told", || async {
            match &self.check_told(trackers)?[..] {
                [] => Ok(Some(())),
                untold => bail!("{untold:?} are not"),
            }
        });
        told.await.unwrap();
    }

    /// Waits until a tracker's `/metrics` has counted so many commits.
    pub(super) async fn counted(&self, tracker: &Tracker, commits: usize) {
        let counted = eventually(&format!("{commits} commits are counted"), || async {
            let found = tracker.metric(super::END_TO_END_COUNT, &[]).await?;
            if found < commits as f64 {
                bail!("{found} are");
            }
            assert!(found <= commits as f64, "{found} of {commits} commits were counted");
            Ok(Some(()))
        })
        .await;
        counted.unwrap_or_else(|error| panic!("{error:#}; it said:\n{}", tracker.process.output()));
    }
}

/// A `ConfigMap` as a file of the fleet.
pub(super) fn config_map(value: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: fleet}}\ndata: {{value: '{value}'}}\n")
}
