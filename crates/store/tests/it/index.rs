//! Lists by an index against lists that look at every object.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use windlass_store::{Filter, Index, Lookup, Object, Page, Store, StoreOptions, Terms, Write, in_memory};

use crate::{default_subjects, everything, key, of_namespace, put};

const NAMES: usize = 12;
const TERMS: usize = 5;

/// A value is its terms, with commas between.
fn terms_of(object: &Object) -> Vec<String> {
    let text = std::str::from_utf8(&object.value).unwrap();
    text.split(',').filter(|term| !term.is_empty()).map(str::to_owned).collect()
}

fn terms() -> Terms {
    Arc::new(terms_of)
}

fn has_one_of_each(groups: Vec<Vec<String>>) -> Filter {
    Arc::new(move |object| {
        let terms = terms_of(object);
        groups.iter().all(|group| group.iter().any(|term| terms.contains(term)))
    })
}

async fn index(store: &Arc<dyn Store>) -> Arc<Index> {
    Arc::new(Index::build(store, everything(), terms(), 1 << 20).await.unwrap().unwrap())
}

#[derive(Clone, Debug)]
enum Step {
    /// Gives the object these terms; none deletes it.
    Write { namespace: usize, name: usize, terms: BTreeSet<usize> },
    /// Makes the index anew.
    Build,
    /// Compares a list: pages of so many, after an object, begun on a state that may be of the past.
    List { groups: Vec<BTreeSet<usize>>, of_namespace: Option<usize>, limit: usize, writes: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let some = || proptest::collection::btree_set(0..TERMS, 0..4);
    let any_of = || proptest::collection::btree_set(0..TERMS, 0..3);
    prop_oneof![
        6 => (0..2_usize, 0..NAMES, some())
            .prop_map(|(namespace, name, terms)| Step::Write { namespace, name, terms }),
        1 => Just(Step::Build),
        4 => (proptest::collection::vec(any_of(), 1..3), proptest::option::of(0..2_usize), 0..4_usize, 0..3_usize)
            .prop_map(|(groups, of_namespace, limit, writes)| Step::List { groups, of_namespace, limit, writes }),
    ]
}

fn term(number: usize) -> String {
    format!("t{number}")
}

async fn set(store: &Arc<dyn Store>, namespace: usize, name: usize, terms: &BTreeSet<usize>) {
    let key = key(&format!("n{namespace}"), &format!("o{name}"));
    let text: Vec<String> = terms.iter().map(|number| term(*number)).collect();
    if !text.is_empty() {
        store.commit(vec![put(key, text.join(","))]).await.unwrap();
    } else if let Some(object) = store.get(&key).await.unwrap() {
        store.commit(vec![Write::delete(key, object.revision)]).await.unwrap();
    }
}

#[test]
fn a_list_by_an_index_never_differs_from_one_that_looks_at_every_object() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let strategy = proptest::collection::vec(step(), 1..60);
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
    let ran = runner.run(&strategy, |steps| {
        runtime.block_on(compare(steps));
        Ok(())
    });
    ran.unwrap();
}

async fn compare(steps: Vec<Step>) {
    let store = in_memory(&StoreOptions::default()).unwrap();
    let mut known = index(&store).await;
    for step in steps {
        match step {
            Step::Write { namespace, name, terms } => set(&store, namespace, name, &terms).await,
            Step::Build => known = index(&store).await,
            Step::List { groups, of_namespace: namespace, limit, writes } => {
                let groups: Vec<Vec<String>> =
                    groups.iter().map(|group| group.iter().copied().map(term).collect()).collect();
                let range = namespace.map_or_else(everything, |number| of_namespace(&format!("n{number}")));
                let filter = has_one_of_each(groups.clone());
                let mut page = Page { limit, filter: Some(filter), ..Page::default() };
                let lookup = Lookup::new(known.clone(), groups).unwrap();
                let (mut scanned, mut looked_up) = (Vec::new(), Vec::new());
                // Pages of one state, although there are writes between them.
                for round in 0.. {
                    let found = store.list(&range, Page { lookup: None, ..page.clone() }).await.unwrap();
                    let more = found.more;
                    let last = found.objects.last().map(|object| object.key.clone());
                    scanned.extend(found.objects);
                    page.state = page.state.or(found.state);
                    page.after = last;
                    if !more {
                        break;
                    }
                    for write in 0..writes {
                        set(&store, write % 2, (round + write) % NAMES, &BTreeSet::from([round % TERMS]))
                            .await;
                    }
                }
                let state = page.state;
                let mut page = Page { lookup: Some(lookup), after: None, state, ..page };
                loop {
                    let found = store.list(&range, page.clone()).await.unwrap();
                    page.after = found.objects.last().map(|object| object.key.clone());
                    let more = found.more;
                    page.state = page.state.or(found.state);
                    looked_up.extend(found.objects);
                    if !more {
                        break;
                    }
                }
                assert_eq!(looked_up, scanned);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_list_by_an_index_is_of_one_state_while_others_write() {
    for subject in default_subjects() {
        let store = subject.store.clone();
        let objects = 40;
        for number in 0..objects {
            let held = if number == 0 { "held" } else { "free" };
            store.commit(vec![put(key("n", &format!("{number:02}")), held)]).await.unwrap();
        }
        let known = index(&store).await;
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let store = store.clone();
                tokio::spawn(async move {
                    for turn in 0..200 {
                        // One object hands it to another, in one commit, if it has it.
                        let (from, to) = ((turn * 7 + writer) % objects, (turn * 13 + 1) % objects);
                        let [from, to] = [from, to].map(|number| key("n", &format!("{number:02}")));
                        let object = store.get(&from).await.unwrap().unwrap();
                        if from != to && &*object.value == b"held" {
                            let gives = Write::update(from, object.revision, "free");
                            let _ = store.commit(vec![gives, put(to, "held")]).await;
                        } else {
                            let _ =
                                store.commit(vec![Write::update(from, object.revision, object.value)]).await;
                        }
                    }
                })
            })
            .collect();
        let groups = vec![vec!["held".to_owned()]];
        let page = Page {
            filter: Some(has_one_of_each(groups.clone())),
            lookup: Lookup::new(known.clone(), groups),
            ..Page::default()
        };
        while !writers.iter().all(tokio::task::JoinHandle::is_finished) {
            let found = store.list(&everything(), page.clone()).await.unwrap().objects;
            assert_eq!(found.len(), 1, "{}: one has it at any time: {found:?}", subject.name);
            tokio::task::yield_now().await;
        }
        for writer in writers {
            writer.await.unwrap();
        }
        assert!(known.follow());
    }
}

#[tokio::test]
async fn an_index_that_grows_too_large_or_is_left_behind_answers_nothing() {
    let options =
        StoreOptions { log_events: 4, log_grace: std::time::Duration::ZERO, ..StoreOptions::default() };
    let store = in_memory(&options).unwrap();
    for number in 0..3 {
        store.commit(vec![put(key("n", &format!("o{number}")), "a")]).await.unwrap();
    }
    assert!(Index::build(&store, everything(), terms(), 100).await.unwrap().is_none());
    let known = index(&store).await;
    assert!(known.follow() && known.bytes() > 0);
    for number in 0..20 {
        store.commit(vec![put(key("n", &format!("o{number}")), "a")]).await.unwrap();
    }
    let groups = vec![vec!["a".to_owned()]];
    let page = Page {
        filter: Some(has_one_of_each(groups.clone())),
        lookup: Lookup::new(known.clone(), groups),
        ..Page::default()
    };
    assert_eq!(store.list(&everything(), page).await.unwrap().objects.len(), 20);
    assert!(!known.follow(), "the log has left it behind");
}
