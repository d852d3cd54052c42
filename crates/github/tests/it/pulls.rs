//! Pull requests, their files, and comments on them.

use windlass_github::{ChangedFile, ErrorKind, FileChange};

use crate::{at, client, manifests, stand_in, token};

#[tokio::test]
async fn a_pull_request_is_read_with_what_it_changes() {
    let stand_in = stand_in().await;
    let repository = stand_in.repository("grafana/kube-manifests");
    let sha = repository.push("first", at("2026-03-04T09:15:00Z"), &[("a.json", Some(b"1"))]);
    let files = [
        ("a.json", "modified", None),
        ("b.json", "added", None),
        ("c.json", "removed", None),
        ("d/new.json", "renamed", Some("d/old.json")),
        ("e.json", "changed", None),
    ];
    let number = repository.open_pull("Move a dashboard", "move", &files);
    let github = client(&stand_in, token(&stand_in));
    let name = manifests();
    let pull = github.pulls(&name).get(number).await.unwrap();
    assert_eq!((pull.number, pull.title.as_str()), (number, "Move a dashboard"));
    assert_eq!((pull.head.name.as_str(), pull.base.name.as_str()), ("move", "main"));
    assert_eq!(pull.base.sha, sha);
    assert!(pull.open && !pull.merged);

    let changed = github.pulls(&name).files(number, 100).await.unwrap();
    let file = |path: &str, change| ChangedFile { path: path.to_owned(), change };
    assert!(!changed.truncated);
    assert_eq!(
        changed.files,
        [
            file("a.json", FileChange::Modified),
            file("b.json", FileChange::Added),
            file("c.json", FileChange::Removed),
            file("d/new.json", FileChange::Renamed("d/old.json".to_owned())),
            file("e.json", FileChange::Modified),
        ]
    );
    repository.merge_pull(number);
    let pull = github.pulls(&name).get(number).await.unwrap();
    assert!(!pull.open && pull.merged);
    let error = github.pulls(&name).get(999).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotFound { .. }), "{error}");
}

#[tokio::test]
async fn files_beyond_the_limit_are_left_out_and_that_is_said() {
    let stand_in = stand_in().await;
    let repository = stand_in.repository("grafana/kube-manifests");
    let paths: Vec<String> = (0..250).map(|number| format!("{number}.json")).collect();
    let files: Vec<_> = paths.iter().map(|path| (path.as_str(), "added", None)).collect();
    let number = repository.open_pull("Many", "many", &files);
    let github = client(&stand_in, token(&stand_in));
    let name = manifests();
    for (max, listed, truncated) in
        [(1_000, 250, false), (250, 250, false), (249, 249, true), (100, 100, true)]
    {
        let found = github.pulls(&name).files(number, max).await.unwrap();
        assert_eq!((found.files.len(), found.truncated), (listed, truncated), "at most {max}");
    }
}

#[tokio::test]
async fn a_comment_is_written_found_and_edited_beside_one_whose_author_is_gone() {
    let stand_in = stand_in().await;
    let repository = stand_in.repository("grafana/kube-manifests");
    let number = repository.open_pull("One", "one", &[]);
    repository.comment_of_a_ghost(number, "first");
    let github = client(&stand_in, token(&stand_in));
    let name = manifests();
    let pulls = github.pulls(&name);

    let written = pulls.comment(number, "2 dashboards change").await.unwrap();
    assert_eq!(written.author.as_deref(), Some("windlass[bot]"));
    let edited = pulls.edit_comment(written.id, "3 dashboards change").await.unwrap();
    assert_eq!((edited.id, edited.body.as_str()), (written.id, "3 dashboards change"));
    let comments = pulls.comments(number).await.unwrap();
    let [ghost, ours] = &comments[..] else { panic!("{comments:?}") };
    assert_eq!((ghost.author.as_deref(), ghost.body.as_str()), (None, "first"));
    assert_eq!(ours, &edited);
    let error = pulls.edit_comment(999, "nowhere").await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotFound { .. }), "{error}");
}
