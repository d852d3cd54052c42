//! Each combinator by itself.

use std::num::NonZeroUsize;
use std::time::Duration;

use async_trait::async_trait;
use windlass_provisioner::{
    BuildError, Direction, Disposition, Graph, Node, Outcome, Presence, Provisioner, Reason, State, Tree,
    Visited, concurrent, concurrent_bounded, conditional, leaf, retry_limited, serial, timeout,
};

use crate::world::{Step, World, scripted};

const UP: Direction = Direction::Provision;
const DOWN: Direction = Direction::Deprovision;

fn tree(root: Node<World>) -> Tree<World> {
    Tree::new(root).unwrap()
}

fn state(tree: &Tree<World>, path: &str) -> State {
    tree.states()[path].state
}

fn reason(visited: Visited) -> &'static str {
    match visited {
        Ok(Outcome::Ready) => "",
        Ok(Outcome::Yield { reason, .. }) => reason.as_str(),
        Err(error) => error.reason.as_str(),
    }
}

#[tokio::test]
async fn a_series_stops_at_the_first_that_is_not_ready_and_goes_down_in_reverse() {
    let (world, tree) = (World::default(), tree(serial("s", ["a", "b", "c"].map(scripted))));
    world.script("b", UP, &[Step::Yield, Step::Fail]).script("c", DOWN, &[Step::Yield]);
    assert_eq!(reason(tree.provision(&world).await), "NotReady");
    assert_eq!((world.calls(), state(&tree, "s/c")), (vec!["a".to_owned(), "b".to_owned()], State::Pending));
    assert_eq!(reason(tree.provision(&world).await), "Failed");
    assert!(tree.provision(&world).await.unwrap().is_ready());
    world.calls();
    assert_eq!(reason(tree.deprovision(&world).await), "NotReady");
    assert_eq!(world.calls(), ["c"]);
    assert!(tree.deprovision(&world).await.unwrap().is_ready());
    assert_eq!(world.calls(), ["c", "b", "a"]);
}

#[tokio::test]
async fn concurrent_children_are_all_visited_and_the_worst_of_them_wins() {
    let world = World::default();
    let tree = tree(concurrent("c", ["a", "b", "p", "d"].map(scripted)));
    for direction in [UP, DOWN] {
        world.script("a", direction, &[Step::Yield]).script("b", direction, &[Step::Fail]);
        world.script("p", direction, &[Step::Panic]);
        let visited = match direction {
            UP => tree.provision(&world).await,
            DOWN => tree.deprovision(&world).await,
        };
        assert_eq!(reason(visited), "Failed", "of two errors the first child's");
        assert_eq!(world.calls().len(), 4);
        assert_eq!(tree.states()["c/p"].reason, "Panicked", "a panic is an error of its child");
        assert!(state(&tree, "c/d").is_settled());
    }
    assert!(Tree::new(concurrent("empty", [])).unwrap().provision(&world).await.unwrap().is_ready());
}

#[tokio::test]
async fn a_bound_is_kept_and_everybody_gets_their_turn() {
    let world = World::default();
    let names: Vec<String> = (0..9).map(|index| format!("n{index}")).collect();
    let bound = NonZeroUsize::new(3).unwrap();
    let tree = tree(concurrent_bounded("c", bound, names.iter().map(|name| scripted(name))));
    for name in &names {
        world.delay(name, 3);
    }
    assert!(tree.provision(&world).await.unwrap().is_ready());
    assert_eq!((world.calls().len(), world.most_running()), (9, 3));
}

#[expect(clippy::unnecessary_wraps, reason = "as a predicate is written")]
fn wanted(world: &World) -> Result<Presence, windlass_provisioner::ProvisionError> {
    Ok(world.wanted("p"))
}

#[tokio::test]
async fn a_child_that_is_not_wanted_is_removed_and_removal_asks_nobody() {
    for step in [Step::Ready, Step::Yield] {
        let (world, tree) = (World::default(), tree(conditional("if", wanted, scripted("a"))));
        world.script("a", UP, &[step]).script("a", DOWN, &[step, Step::Ready, step]);
        let expected = if step == Step::Ready { "" } else { "NotReady" };
        assert_eq!(reason(tree.provision(&world).await), expected);
        world.want("p", Presence::Absent);
        assert_eq!(reason(tree.provision(&world).await), expected);
        let _ = tree.provision(&world).await.unwrap();
        assert_eq!((world.there().len(), state(&tree, "if")), (0, State::Absent));
        world.want("p", Presence::Present);
        let _ = tree.deprovision(&world).await.unwrap();
        assert!(world.there().is_empty());
    }
}

#[tokio::test]
async fn a_child_on_hold_is_left_as_it_is_and_its_siblings_go_on() {
    let world = World::default();
    let tree = tree(serial("s", [conditional("if", wanted, scripted("a")), scripted("b")]));
    world.want("p", Presence::Hold("the flag's server is down".to_owned()));
    assert!(tree.provision(&world).await.unwrap().is_ready());
    assert_eq!(world.calls(), ["b"]);
    let held = tree.states().remove("s/if").unwrap();
    assert_eq!((held.state, held.message.as_str()), (State::Held, "the flag's server is down"));
}

fn cluster() -> Graph<World> {
    let names = ["infrastructure", "network", "balancers"];
    names.into_iter().fold(Graph::new("g"), |graph, name| graph.child(scripted(name)))
}

#[tokio::test]
async fn a_graph_goes_up_by_its_edges_and_down_by_others() {
    let world = World::default();
    let graph = cluster().after("balancers", "network").before("network", "infrastructure");
    let tree = tree(graph.node());
    world.script("network", UP, &[Step::Yield]);
    assert_eq!(reason(tree.provision(&world).await), "NotReady");
    assert_eq!(world.calls(), ["infrastructure", "network"]);
    assert_eq!(tree.states()["g/balancers"].message, "waits for network");
    assert!(tree.provision(&world).await.unwrap().is_ready());
    world.calls();
    world.script("network", DOWN, &[Step::Yield]);
    assert_eq!(reason(tree.deprovision(&world).await), "NotReady");
    assert_eq!(world.calls(), ["balancers", "network"], "the infrastructure waits for the network");
    assert!(tree.deprovision(&world).await.unwrap().is_ready());
    assert_eq!(world.calls(), ["balancers", "network", "infrastructure"]);
}

#[test]
fn a_pair_that_is_ordered_for_removal_is_not_ordered_in_reverse_as_well() {
    assert!(
        Tree::new(cluster().after("network", "infrastructure").before("infrastructure", "network").node())
            .is_ok()
    );
}

#[test]
fn circles_and_children_that_are_there_twice_are_refused_when_the_tree_is_built() {
    let circle = cluster().after("network", "balancers").after("balancers", "network").node();
    let error = Tree::new(circle).unwrap_err();
    assert_eq!(error.to_string(), "the order of creation in g is a circle: network, balancers");
    let circle = cluster().before("network", "balancers").before("balancers", "network").node();
    assert!(matches!(Tree::new(circle).unwrap_err(), BuildError::Cycle { removal: true, .. }));
    let twice = serial("root", [serial("s", [scripted("a"), scripted("a")])]);
    let error = Tree::new(twice).unwrap_err();
    assert_eq!(error, BuildError::DuplicateChild { parent: "root/s".to_owned(), name: "a".to_owned() });
    let unknown = cluster().after("network", "databases").node();
    assert!(matches!(Tree::new(unknown).unwrap_err(), BuildError::UnknownChild { .. }));
}

#[tokio::test]
async fn a_child_that_fails_too_often_is_left_alone_until_the_object_changes_and_is_removed_all_the_same() {
    let (world, tree) = (World::default(), tree(retry_limited("r", 2, scripted("a"))));
    world.script("a", UP, &[Step::Fail, Step::Yield, Step::Fail]);
    assert_eq!(reason(tree.provision(&world).await), "Failed");
    assert_eq!(reason(tree.provision(&world).await), "NotReady", "a yield is no failure");
    let error = tree.provision(&world).await.unwrap_err();
    assert_eq!((error.disposition, error.reason), (Disposition::Terminal, Reason::RetriesExhausted));
    world.calls();
    assert!(tree.provision(&world).await.is_err());
    assert!(world.calls().is_empty());
    world.script("a", DOWN, &[Step::Fail, Step::Fail, Step::Fail]);
    for _ in 0..3 {
        assert_eq!(reason(tree.deprovision(&world).await), "Failed");
    }
    assert!(tree.deprovision(&world).await.unwrap().is_ready());
    world.script("a", UP, &[Step::Fail]);
    assert_eq!(reason(tree.provision(&world).await), "Failed");
    tree.forget_attempts();
    assert!(tree.provision(&world).await.unwrap().is_ready());
}

#[tokio::test(start_paused = true)]
async fn waiting_too_long_is_an_error_whatever_the_clock_says() {
    let (world, tree) = (World::default(), tree(timeout("t", Duration::from_mins(1), scripted("a"))));
    let tree = tree.with_now(|| jiff::Timestamp::UNIX_EPOCH);
    world.script("a", UP, &[Step::Yield; 3]);
    assert_eq!(reason(tree.provision(&world).await), "NotReady");
    tokio::time::advance(Duration::from_secs(59)).await;
    assert_eq!(reason(tree.provision(&world).await), "NotReady");
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(reason(tree.provision(&world).await), "TimedOut");
    assert!(tree.provision(&world).await.unwrap().is_ready());
}

struct Hangs;

#[async_trait]
impl Provisioner<World> for Hangs {
    fn name(&self) -> &'static str {
        "a"
    }

    async fn provision(&self, _world: &World) -> Visited {
        std::future::pending().await
    }

    async fn deprovision(&self, _world: &World) -> Visited {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_visit_that_does_not_end_is_cut_short_and_named() {
    let (world, tree) = (World::default(), tree(timeout("t", Duration::from_mins(1), leaf(Hangs))));
    for visited in [tree.provision(&world).await, tree.deprovision(&world).await] {
        let error = visited.unwrap_err();
        assert_eq!(
            (error.reason, error.message.as_str()),
            (Reason::TimedOut, "a took longer than 60s over one visit")
        );
    }
}

#[tokio::test]
async fn a_time_that_has_not_come_yet_becomes_now_and_attempts_are_kept() {
    let (world, first) = (World::default(), tree(retry_limited("r", 5, scripted("a"))));
    let first = first.with_now(|| jiff::Timestamp::from_second(9_000).unwrap());
    world.script("a", UP, &[Step::Fail; 2]);
    assert!(first.provision(&world).await.is_err());
    let second =
        tree(retry_limited("r", 5, scripted("a"))).with_now(|| jiff::Timestamp::from_second(50).unwrap());
    second.resume(&first.states());
    assert!(second.provision(&world).await.is_err());
    let known = second.states().remove("r/a").unwrap();
    assert_eq!((known.since.as_second(), known.attempts), (50, 2));
}

#[tokio::test]
async fn pictures_show_each_node_with_its_state() {
    let world = World::default();
    let rest = cluster().after("balancers", "network").before("network", "infrastructure").node();
    let tree = tree(serial("site", [scripted("namespace"), rest, conditional("if", wanted, scripted("a"))]));
    world.script("network", UP, &[Step::Fail]);
    assert!(tree.provision(&world).await.is_err());
    let expected = "\
site (serial): errored, Failed: network [failed 1 times]
├─ namespace (leaf): ready
├─ g (graph): errored, Failed: network [failed 1 times]
│  ├─ infrastructure (leaf): ready
│  ├─ network (leaf): errored, Failed: network [failed 1 times]
│  └─ balancers (leaf): pending, Blocked: waits for network
└─ if (conditional): pending
   └─ a (leaf): pending
";
    assert_eq!(tree.render(), expected);
    let mermaid = tree.view().mermaid();
    assert!(mermaid.contains("n4[\"network (leaf): errored\"]:::errored"), "{mermaid}");
    assert!(
        mermaid.contains("n4 -. then .-> n5") && mermaid.contains("n4 -. removed before .-> n3"),
        "{mermaid}"
    );
    assert!(tree.view().graphviz().contains("n2 -> n4 [arrowhead=none];"));
    let view = tree.view();
    let blocking: Vec<&str> = view.holding_up().map(|node| node.path.as_str()).collect();
    assert_eq!(blocking, ["site/g/network"]);
}
