//! Many who write at once: in, in order, or told of a conflict; never lost.

use std::sync::Arc;

use futures::future::join_all;
use serde_json::json;
use windlass_auth::Caller;

use crate::desk::{Desk, ask, json_of, open, refused};
use crate::kit::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_clients_that_write_at_once_are_all_in() {
    let desk = Desk::new().await;
    let writes = (0..20).map(|number| {
        let desk = &desk;
        async move {
            let (name, title) = (format!("d{number}"), format!("T{number}"));
            desk.send("POST", &format!("files/many/{name}.json"), json_of(&name, &title)).await
        }
    });
    for answer in join_all(writes).await {
        assert_eq!(answer.code, 200, "{}", answer.body);
    }
    assert_eq!(desk.commits("main"), 21, "a commit each");
    let dashboards = desk.world.dashboards().await;
    for number in 0..20 {
        let path = format!("many/d{number}.json");
        assert_eq!(desk.file("main", &path).unwrap(), json_of(&format!("d{number}"), &format!("T{number}")));
        assert_eq!(dashboards[&path], format!("T{number}"));
    }
    assert_eq!(desk.git.git(&["rev-list", "--merges", "main"]), "");
}

/// Two servers know nothing of each other but what the branch says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_clients_of_two_servers_each_is_in_or_told_of_a_conflict() {
    let desk = Desk::new().await;
    let second = World::with_git(&desk.git);
    open(&second, &desk.git, json!({})).await;
    let (desk, second) = (Arc::new(desk), Arc::new(second));
    let writes = (0..20).map(|number| {
        let (desk, second) = (Arc::clone(&desk), Arc::clone(&second));
        tokio::spawn(async move {
            let world = if number % 2 == 0 { &desk.world } else { &*second };
            let name = format!("d{number}");
            let path = format!("r/files/{name}.json");
            let answer = ask(world, Caller::system("ann"), ("POST", &path), &[], json_of(&name, "T")).await;
            (number, answer)
        })
    });
    let mut written = 0;
    for answer in join_all(writes).await {
        let (number, answer) = answer.unwrap();
        let is_there = desk.file("main", &format!("d{number}.json")).is_some();
        match answer.code {
            200 => {
                assert!(is_there, "{number} was answered and is lost");
                written += 1;
            }
            _ => {
                let message = refused(&answer, 409);
                assert!(!is_there && message.contains("moved"), "{number}: {message}");
            }
        }
    }
    assert!(written >= 10, "{written}");
    assert_eq!(desk.commits("main"), 1 + written);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_clients_that_change_one_file_from_one_reading_overwrite_nobody() {
    let desk = Desk::new().await;
    let hash = desk.git.git(&["rev-parse", "main:grafana/a.json"]);
    let writes = (0..20).map(|number| {
        let (world, hash) = (&desk.world, hash.as_str());
        async move {
            let body = json_of("a", &format!("T{number}"));
            let headers = [("if-match", hash)];
            (number, ask(world, Caller::system("ann"), ("PUT", "r/files/a.json"), &headers, body).await)
        }
    });
    let answers = join_all(writes).await;
    let winners: Vec<_> = answers.iter().filter(|(_, answer)| answer.code == 200).collect();
    let [(winner, _)] = winners[..] else { panic!("{} wrote", winners.len()) };
    assert_eq!(desk.file("main", "a.json").unwrap(), json_of("a", &format!("T{winner}")));
    for (_, answer) in answers.iter().filter(|(number, _)| number != winner) {
        refused(answer, 412);
    }
}

#[tokio::test]
async fn a_branch_that_always_moves_is_given_up_with_a_word_of_it() {
    let desk = Desk::new().await;
    // Whoever pushes finds that somebody else was faster.
    let script = "unset GIT_QUARANTINE_PATH GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES\n\
        new=$(git -c user.name=x -c user.email=x@y commit-tree -p main -m faster 'main^{tree}') && git update-ref refs/heads/main $new\n";
    desk.git.hook("pre-receive", script);
    let before = desk.git.git(&["rev-parse", "main"]);
    let message = refused(&desk.send("PUT", "files/a.json", json_of("a", "A2")).await, 409);
    assert!(message.contains("moved 4 times") && message.contains(&before), "{message}");
    assert_eq!((desk.commits("main"), desk.file("main", "a.json").unwrap()), (5, json_of("a", "A")));
    assert!(desk.world.dashboards().await.is_empty());
}

#[tokio::test]
async fn a_write_that_finds_its_file_changed_by_a_faster_one_does_not_overwrite_it() {
    let desk = Desk::new().await;
    // Once only: the file itself is changed by somebody else.
    let script = "unset GIT_QUARANTINE_PATH GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES\n\
        rm \"$0\"\nexport GIT_INDEX_FILE=faster-index\ngit read-tree main\n\
        blob=$(echo '{\"theirs\": true}' | git hash-object -w --stdin)\n\
        git update-index --cacheinfo 100644,$blob,grafana/a.json\n\
        new=$(git -c user.name=x -c user.email=x@y commit-tree -p main -m faster $(git write-tree)) && git update-ref refs/heads/main $new\n";
    desk.git.hook("pre-receive", script);
    let message = refused(&desk.send("PUT", "files/a.json", json_of("a", "mine")).await, 409);
    assert!(message.contains("somebody else changed it"), "{message}");
    assert_eq!(
        (desk.commits("main"), desk.file("main", "a.json").unwrap().as_str()),
        (2, "{\"theirs\": true}")
    );
}
