use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::*;

/// A Git repository of this path, created at this second.
fn repository(name: &str, second: i64, path: &str) -> Repository {
    let mut repository: Repository = serde_json::from_value(json!({
        "apiVersion": "provisioning.grafana.app/v0alpha1", "kind": "Repository",
        "metadata": {"name": name, "uid": format!("uid-{name}"), "generation": 1},
        "spec": {
            "title": name, "type": "git", "workflows": [],
            "sync": {"enabled": true, "target": "folder", "intervalSeconds": 60},
            "git": {"url": "https://example.com/x.git", "branch": "main", "path": path},
        },
    }))
    .unwrap();
    repository.metadata.creation_timestamp = Some(Time(Timestamp::from_second(second).unwrap()));
    repository
}

fn instance(name: &str, second: i64) -> Repository {
    let mut repository = repository(name, second, "other");
    repository.spec.git.as_mut().unwrap().url = "https://example.com/y.git".to_owned();
    repository.spec.sync.target = Some(SyncTarget::Instance);
    repository
}

fn blocked(repository: &Repository, all: &[Repository], max: i64) -> Option<(&'static str, String)> {
    let block = Standing::of(repository, all.iter()).block(max);
    block.map(|block| (block.reason, block.message().to_owned()))
}

#[test]
fn of_two_that_cover_the_same_path_the_younger_waits_and_names_the_older() {
    let all = [
        repository("b", 1, "x"),
        repository("a", 1, "x/y"),
        repository("c", 2, "x"),
        repository("d", 0, "xy"),
    ];
    let path = |message: &str| Some((reasons::PATH_CONFLICT, message.to_owned()));
    // Created in the same second: the uid decides.
    assert_eq!(blocked(&all[1], &all, 0), None);
    assert_eq!(blocked(&all[0], &all, 0), path("repository path conflicts with existing repository: a"));
    assert_eq!(
        blocked(&all[2], &all, 0),
        path("duplicate repository path: b; repository path conflicts with existing repository: a")
    );
    assert_eq!(blocked(&all[3], &all, 0), None, "no segment in common");
    let condition =
        |at: usize| Standing::of(&all[at], all.iter()).path_conflict(Some(1), Timestamp::UNIX_EPOCH);
    assert_eq!((&*condition(2).status, &*condition(2).reason), ("False", reasons::PATH_CONFLICT));
    assert_eq!((&*condition(1).status, &*condition(1).reason), ("True", reasons::NO_PATH_CONFLICT));
    assert_eq!(condition(1).message, "this repository is the older one; waiting for it: b, c");
    assert_eq!(condition(3).message, messages::NO_PATH_CONFLICT);
}

#[test]
fn one_that_is_being_deleted_owns_its_files_until_it_is_gone_and_counts_no_more() {
    let mut going = repository("a", 1, "x");
    going.metadata.deletion_timestamp = going.metadata.creation_timestamp.clone();
    let waiting = repository("b", 2, "x");
    assert!(blocked(&waiting, &[going.clone()], 0).is_some());
    let same_second = repository("0", 1, "x");
    assert!(blocked(&same_second, &[going.clone()], 0).is_some(), "although its uid is the smaller one");
    let apart = repository("b", 2, "y");
    assert_eq!(blocked(&apart, &[going], 1), None);
}

#[test]
fn a_repository_that_takes_the_whole_namespace_is_alone_in_it() {
    let all = [repository("a", 1, "x"), instance("b", 2)];
    assert_eq!(blocked(&all[0], &all, 0), None);
    let (reason, message) = blocked(&all[1], &all, 0).unwrap();
    assert_eq!(reason, reasons::PATH_CONFLICT);
    assert!(message.contains("whole namespace") && message.ends_with(": a"), "{message}");
    let all = [repository("a", 3, "x"), instance("b", 2)];
    assert!(blocked(&all[0], &all, 0).is_some());
    assert_eq!(blocked(&all[1], &all, 0), None);
}

#[test]
fn the_oldest_have_room_and_the_others_are_over_the_quota() {
    let all: Vec<Repository> =
        (0..4).map(|number| repository(&format!("r{number}"), number, &format!("p{number}"))).collect();
    let quota = |at: usize, max| {
        let condition =
            Standing::of(&all[at], all.iter()).namespace_quota(max, Some(1), Timestamp::UNIX_EPOCH);
        (condition.status, condition.reason, condition.message)
    };
    let said = |status: &str, reason: &str, message: &str| (status.into(), reason.into(), message.into());
    assert_eq!(quota(3, 0), said("True", reasons::QUOTA_UNLIMITED, "No quota limits configured"));
    assert_eq!(quota(3, 5), said("True", reasons::WITHIN_QUOTA, "within quota: 4/5 repositories"));
    assert_eq!(
        quota(3, 4),
        said("True", reasons::QUOTA_REACHED, "namespace quota reached: 4/4 repositories")
    );
    assert_eq!(
        quota(1, 2),
        said("True", reasons::QUOTA_REACHED, "namespace quota reached: 4/2 repositories")
    );
    assert_eq!(
        quota(2, 2),
        said(
            "False",
            reasons::QUOTA_EXCEEDED,
            "namespace quota exceeded: 4/2 repositories; delete some, or raise [provisioning] max_repositories"
        )
    );
    assert_eq!(blocked(&all[2], &all, 2).unwrap().0, reasons::QUOTA_EXCEEDED);
    assert_eq!(blocked(&all[1], &all, 2), None);
}

#[test]
fn a_change_is_told_to_those_that_it_concerns_and_no_others() {
    let (near, far, mut over) =
        (repository("near", 1, "x/y"), repository("far", 2, "z"), repository("over", 3, "w"));
    let quota =
        Standing::of(&over, [&near, &far].into_iter()).namespace_quota(2, Some(1), Timestamp::UNIX_EPOCH);
    over.status.conditions.push(quota);
    let others = [near, far, over];
    let told = |old: Option<&Repository>, new: Option<&Repository>| -> Vec<String> {
        affected(old, new, || others.iter().collect())
            .into_iter()
            .map(|other| other.metadata.name.clone().unwrap())
            .collect()
    };
    let mut here = repository("here", 0, "x");
    assert_eq!(told(None, Some(&here)), ["near", "over"]);
    let mut status = here.clone();
    status.status.health.healthy = true;
    assert!(told(Some(&here), Some(&status)).is_empty(), "only its status changed");
    let mut moved = repository("here", 0, "z");
    moved.metadata.generation = Some(2);
    assert_eq!(told(Some(&here), Some(&moved)), ["near", "far"]);
    let before = here.clone();
    here.metadata.deletion_timestamp = here.metadata.creation_timestamp.clone();
    assert_eq!(told(Some(&before), Some(&here)), ["over"]);
    assert_eq!(told(Some(&here), None), ["near"]);
}

#[test]
fn where_a_repository_stands_is_found_out_once_until_there_is_news_of_its_namespace() {
    let (standings, key) = (Standings::default(), ObjectKey::new("team", "a"));
    let looks = std::cell::Cell::new(0);
    let stands = |count: usize| {
        let look = || {
            looks.set(looks.get() + 1);
            Standing { count, ..Standing::default() }
        };
        standings.of(&key, look).count
    };
    let of = |namespace: &str, generation| {
        let mut repository = repository("b", 1, "x");
        repository.metadata.namespace = Some(namespace.to_owned());
        repository.metadata.generation = Some(generation);
        repository
    };
    assert_eq!((stands(1), stands(9), looks.get()), (1, 1, 1));
    let mut checked = of("team", 1);
    checked.status.health.checked = 5;
    standings.note(Some(&of("team", 1)), Some(&checked));
    standings.note(None, Some(&of("other", 1)));
    assert_eq!((stands(9), looks.get()), (1, 1), "neither a status nor another namespace is news");
    for (number, (old, new)) in
        [(None, Some(of("team", 1))), (Some(of("team", 1)), Some(of("team", 2))), (Some(of("team", 2)), None)]
            .into_iter()
            .enumerate()
    {
        standings.note(old.as_ref(), new.as_ref());
        assert_eq!((stands(number + 2), looks.get()), (number + 2, number + 2));
    }
    // What happens during a look is looked at again.
    let during = standings.of(&ObjectKey::new("team", "c"), || {
        standings.note(None, Some(&of("team", 1)));
        Standing { count: 7, ..Standing::default() }
    });
    assert_eq!(during.count, 7);
    assert_eq!(standings.of(&ObjectKey::new("team", "c"), Standing::default).count, 0);
}
