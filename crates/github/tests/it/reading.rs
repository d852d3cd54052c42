//! Commits, histories, files; what repeats cost.

use std::time::Duration;

use windlass_github::{Credentials, ErrorKind, Github, Options};

use crate::{at, client, history, manifests, options, stand_in, token};

const INFO: &str = "exporter-info.json";

#[tokio::test]
async fn a_history_has_its_committers_dates() {
    let stand_in = stand_in().await;
    let repository = stand_in.repository("grafana/kube-manifests");
    let first = repository.push("first\n\nmore", at("2026-03-04T09:15:00Z"), &[(INFO, Some(b"1"))]);
    let second = repository.push("second", at("2026-03-04T09:16:00Z"), &[(INFO, Some(b"2"))]);
    let page = history(&client(&stand_in, Credentials::Anonymous), &manifests(), &second).await.unwrap();
    let [newest, oldest] = &page.commits[..] else { panic!("{page:?}") };
    assert_eq!((newest.committed, &newest.parents), (at("2026-03-04T09:16:00Z"), &vec![first]));
    assert_eq!((oldest.summary.as_str(), oldest.author.as_str()), ("first", "A. Writer"));
}

#[tokio::test]
async fn a_history_lists_what_touched_the_path_page_by_page() {
    let stand_in = stand_in().await;
    let repository = stand_in.repository("grafana/kube-manifests");
    let mut touched = Vec::new();
    for minute in 10..20 {
        let time = at(&format!("2026-03-04T09:{minute}:00Z"));
        let content = minute.to_string();
        let file = if minute % 2 == 0 { "deep/info.json" } else { "other" };
        let sha = repository.push("export", time, &[(file, Some(content.as_bytes()))]);
        if minute % 2 == 0 {
            touched.insert(0, sha);
        }
    }
    let github = client(&stand_in, Credentials::Anonymous);

    let mut listed = Vec::new();
    for page in 1.. {
        let found = github.history(&manifests(), "main", "deep/info.json", 2, page).await.unwrap();
        listed.extend(found.commits.into_iter().map(|commit| commit.sha));
        if !found.more {
            break;
        }
    }
    assert_eq!(listed, touched);
    assert_eq!(stand_in.requests().len(), 3);
    let nothing = github.history(&manifests(), "main", "never", 2, 1).await.unwrap();
    assert!(nothing.commits.is_empty() && !nothing.more);
}

#[tokio::test]
async fn a_file_is_read_at_its_commit_with_one_request() {
    let stand_in = stand_in().await;
    let repository = stand_in.repository("grafana/kube-manifests");
    let old = repository.push("old", at("2026-03-04T09:15:00Z"), &[("a/b c%.json", Some(b"old"))]);
    repository.push("new", at("2026-03-04T09:16:00Z"), &[("a/b c%.json", Some(b"new"))]);
    let github = client(&stand_in, Credentials::Anonymous);

    assert_eq!(github.file(&manifests(), "a/b c%.json", &old).await.unwrap(), "old");
    assert_eq!(stand_in.requests().len(), 1);
    assert_eq!(github.file(&manifests(), "a/b c%.json", "main").await.unwrap(), "new");
}

#[tokio::test]
async fn empty_files_and_files_at_and_over_1_mb_are_read_whole() {
    let stand_in = stand_in().await;
    let repository = stand_in.repository("grafana/kube-manifests");
    let github = client(&stand_in, Credentials::Anonymous);
    for (size, requests) in [(0, 1), (1 << 20, 1), ((1 << 20) + 1, 2), (5 << 20, 2)] {
        let bytes: Vec<u8> =
            (0_u32..size).map(|at| at.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
        let sha = repository.push("export", at("2026-03-04T09:15:00Z"), &[(INFO, Some(&bytes))]);
        let before = stand_in.requests().len();
        assert!(github.file(&manifests(), INFO, &sha).await.unwrap() == bytes, "{size} bytes");
        assert_eq!(stand_in.requests().len() - before, requests, "for {size} bytes");
    }
}

#[tokio::test]
async fn a_file_over_the_limit_is_refused_before_it_is_fetched() {
    let stand_in = stand_in().await;
    let repository = stand_in.repository("grafana/kube-manifests");
    let sha = repository.push("big", at("2026-03-04T09:15:00Z"), &[(INFO, Some(&vec![b' '; 3 << 20]))]);
    let limited = Options { max_file: 2 << 20, ..options(&stand_in, Credentials::Anonymous) };
    let github = Github::new(limited).unwrap();

    let error = github.file(&manifests(), INFO, &sha).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TooLarge(2_097_152)), "{error}");
    assert_eq!(stand_in.requests().len(), 1);
}

#[tokio::test]
async fn a_folder_is_no_file_and_a_path_stays_within_the_repository() {
    let stand_in = stand_in().await;
    let repository = stand_in.repository("grafana/kube-manifests");
    repository.push("first", at("2026-03-04T09:15:00Z"), &[("folder/a", Some(b"1"))]);
    let github = client(&stand_in, Credentials::Anonymous);

    let error = github.file(&manifests(), "folder", "main").await.unwrap_err();
    assert!(error.to_string().contains("it is a dir, not a file"), "{error}");
    for path in ["", "../secrets", "a//b", "./a", "/a"] {
        let error = github.file(&manifests(), path, "main").await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Malformed(_)), "{path:?}: {error}");
    }
    assert_eq!(stand_in.requests().len(), 1);
}

#[tokio::test]
async fn what_has_not_changed_costs_no_rate_limit() {
    let stand_in = stand_in().await;
    let repository = stand_in.repository("grafana/kube-manifests");
    let sha = repository.push("export", at("2026-03-04T09:15:00Z"), &[(INFO, Some(b"{}"))]);
    let github = client(&stand_in, token(&stand_in));

    for _ in 0..10 {
        assert_eq!(github.file(&manifests(), INFO, &sha).await.unwrap(), "{}");
    }
    assert_eq!(stand_in.spent(), 1);
    let statuses: Vec<_> =
        stand_in.requests().iter().filter_map(|line| line.rsplit(' ').next().map(str::to_owned)).collect();
    assert_eq!(statuses.join(" "), "200 304 304 304 304 304 304 304 304 304");
}

#[tokio::test]
async fn an_answer_that_still_holds_is_not_asked_for_again() {
    let stand_in = stand_in().await;
    stand_in.let_answers_live(Duration::from_mins(1));
    let repository = stand_in.repository("grafana/kube-manifests");
    let sha = repository.push("export", at("2026-03-04T09:15:00Z"), &[(INFO, Some(b"{}"))]);
    let github = client(&stand_in, token(&stand_in));

    for _ in 0..10 {
        github.file(&manifests(), INFO, &sha).await.unwrap();
    }
    assert_eq!(stand_in.requests().len(), 1);
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(61)).await;
    tokio::time::resume();
    for _ in 0..10 {
        github.file(&manifests(), INFO, &sha).await.unwrap();
    }
    assert_eq!((stand_in.requests().len(), stand_in.spent()), (2, 1));
}

#[tokio::test]
async fn a_branch_that_moved_is_answered_anew() {
    let stand_in = stand_in().await;
    let repository = stand_in.repository("grafana/kube-manifests");
    repository.push("old", at("2026-03-04T09:15:00Z"), &[(INFO, Some(b"old"))]);
    let github = client(&stand_in, Credentials::Anonymous);

    assert_eq!(github.file(&manifests(), INFO, "main").await.unwrap(), "old");
    repository.push("new", at("2026-03-04T09:16:00Z"), &[(INFO, Some(b"new"))]);
    assert_eq!(github.file(&manifests(), INFO, "main").await.unwrap(), "new");
    assert_eq!(stand_in.spent(), 2);
}

#[tokio::test]
async fn a_thousand_who_ask_the_same_at_once_share_one_request() {
    let stand_in = stand_in().await;
    // As GitHub says: those whose request comes out of octocrab's queue when the first is answered find it kept.
    stand_in.let_answers_live(Duration::from_mins(1));
    let repository = stand_in.repository("grafana/kube-manifests");
    let sha = repository.push("export", at("2026-03-04T09:15:00Z"), &[(INFO, Some(b"{}"))]);
    let github = client(&stand_in, Credentials::Anonymous);

    let name = manifests();
    let all = futures::future::join_all((0..1_000).map(|_| github.file(&name, INFO, &sha))).await;
    assert!(all.iter().all(|file| file.as_ref().is_ok_and(|bytes| bytes == "{}")));
    assert_eq!(stand_in.requests().len(), 1);
}

#[tokio::test]
async fn who_gives_up_leaves_the_question_to_the_others() {
    let stand_in = stand_in().await;
    let repository = stand_in.repository("grafana/kube-manifests");
    let sha = repository.push("export", at("2026-03-04T09:15:00Z"), &[(INFO, Some(b"{}"))]);
    stand_in.fail(INFO, 1, windlass_github_stand_in::Fault::Silent);
    let github = client(&stand_in, Credentials::Anonymous);

    let name = manifests();
    let first = {
        let (github, name, sha) = (github.clone(), name.clone(), sha.clone());
        tokio::spawn(async move { github.file(&name, INFO, &sha).await })
    };
    let asked = async {
        while stand_in.requests().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), asked).await.unwrap();
    let mut second = Box::pin(github.file(&name, INFO, &sha));
    assert!(futures::poll!(&mut second).is_pending());
    first.abort();
    assert_eq!(second.await.unwrap(), "{}");
}

#[tokio::test]
async fn a_repository_is_looked_up_with_its_default_branch() {
    let stand_in = stand_in().await;
    let _private = stand_in.repository("grafana/kube-manifests").private();
    let found = client(&stand_in, token(&stand_in)).repository(&manifests()).await.unwrap();
    assert_eq!((found.name.clone(), found.default_branch.as_str()), (manifests(), "main"));
    assert!(found.private && !found.archived && found.id > 0);
    assert_eq!(found.can_push, Some(true));
    let nobody = client(&stand_in, Credentials::Anonymous);
    let error = nobody.repository(&manifests()).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotFound { .. }), "{error}");
    let _public = stand_in.repository("grafana/public");
    assert_eq!(nobody.repository(&"grafana/public".parse().unwrap()).await.unwrap().can_push, None);
}
