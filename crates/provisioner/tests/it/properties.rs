//! What holds for any tree and any script. `PROPTEST_CASES` sets how many are tried.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};

use proptest::prelude::*;
use windlass_provisioner::{
    Direction, Graph, Node, NodeState, Presence, ProvisionError, Tree, Visited, concurrent, conditional,
    serial,
};

use crate::world::{Step, World, scripted};

/// A tree as data.
#[derive(Clone, Debug)]
enum Shape {
    Leaf {
        up: Vec<Step>,
        down: Vec<Step>,
        delay: usize,
    },
    Serial(Vec<Shape>),
    Concurrent(Vec<Shape>, usize),
    Conditional(Box<Shape>, Vec<u8>),
    /// Each pair is an edge from the lower index to the higher, for creation or for removal.
    Graph(Vec<Shape>, Vec<(usize, usize, bool)>),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Ready), 4 => Just(Step::Yield), 2 => Just(Step::Fail), 1 => Just(Step::User),
        1 => Just(Step::Terminal), 1 => Just(Step::Panic),
    ]
}

fn shape() -> impl Strategy<Value = Shape> {
    let steps = || proptest::collection::vec(step(), 0..4);
    let leaf = (steps(), steps(), 0..4_usize).prop_map(|(up, down, delay)| Shape::Leaf { up, down, delay });
    leaf.prop_recursive(4, 24, 4, |inner| {
        let children = || proptest::collection::vec(inner.clone(), 0..4);
        let edges = proptest::collection::vec((0..4_usize, 0..4_usize, any::<bool>()), 0..4);
        prop_oneof![
            children().prop_map(Shape::Serial),
            (children(), 0..3_usize).prop_map(|(children, bound)| Shape::Concurrent(children, bound)),
            (inner.clone(), proptest::collection::vec(0..3_u8, 1..6))
                .prop_map(|(child, flips)| Shape::Conditional(Box::new(child), flips)),
            (children(), edges).prop_map(|(children, edges)| Shape::Graph(children, edges)),
        ]
    })
}

/// Builds the nodes, and tells the world what they are to do.
fn build(shape: &Shape, name: &str, world: &World, flips: &mut Vec<(String, Vec<u8>)>) -> Node<World> {
    let all = |shapes: &[Shape], flips: &mut Vec<_>| -> Vec<Node<World>> {
        let named = shapes.iter().enumerate();
        named.map(|(index, child)| build(child, &format!("{name}.{index}"), world, flips)).collect()
    };
    match shape {
        Shape::Leaf { up, down, delay } => {
            world.script(name, Direction::Provision, up).script(name, Direction::Deprovision, down);
            world.delay(name, *delay);
            scripted(name)
        }
        Shape::Serial(children) => serial(name, all(children, flips)),
        Shape::Concurrent(children, 0) => concurrent(name, all(children, flips)),
        Shape::Concurrent(children, bound) => {
            let bound = std::num::NonZeroUsize::new(*bound).unwrap();
            windlass_provisioner::concurrent_bounded(name, bound, all(children, flips))
        }
        Shape::Conditional(child, script) => {
            flips.push((name.to_owned(), script.clone()));
            let asked = name.to_owned();
            let predicate =
                move |world: &World| -> Result<Presence, ProvisionError> { Ok(world.wanted(&asked)) };
            conditional(name, predicate, build(child, &format!("{name}.0"), world, flips))
        }
        Shape::Graph(children, edges) => {
            let mut graph = all(children, flips).into_iter().fold(Graph::new(name), Graph::child);
            for (one, other, removal) in edges {
                let (first, second) = (one.min(other), one.max(other));
                if first == second || *second >= children.len() {
                    continue;
                }
                let (first, second) = (format!("{name}.{first}"), format!("{name}.{second}"));
                graph = if *removal { graph.before(second, first) } else { graph.after(second, first) };
            }
            graph.node()
        }
    }
}

struct Case {
    tree: Tree<World>,
    world: World,
    flips: Vec<(String, Vec<u8>)>,
}

impl Case {
    fn new(shape: &Shape) -> Self {
        let (world, mut flips) = (World::default(), Vec::new());
        let root = build(shape, "r", &world, &mut flips);
        let tree = Tree::new(root).unwrap().with_now(|| jiff::Timestamp::UNIX_EPOCH);
        Self { tree, world, flips }
    }

    /// Sets what is wanted for a pass.
    fn flip(&self, pass: usize) {
        for (predicate, script) in &self.flips {
            let presence = match script[pass % script.len()] {
                0 => Presence::Present,
                1 => Presence::Absent,
                _ => Presence::Hold("nobody knows".to_owned()),
            };
            self.world.want(predicate, presence);
        }
    }

    fn want_all(&self) {
        self.flips.iter().for_each(|(predicate, _)| self.world.want(predicate, Presence::Present));
    }

    fn up(&self) -> Visited {
        run(self.tree.provision(&self.world))
    }

    fn down(&self) -> Visited {
        run(self.tree.deprovision(&self.world))
    }

    fn states(&self) -> Vec<(String, NodeState)> {
        self.tree.states().into_iter().collect()
    }
}

struct Nothing;

impl Wake for Nothing {
    fn wake(self: Arc<Self>) {}
}

/// Polls at most so often; none if that is not enough.
fn polled<F: Future>(future: F, times: usize) -> Option<F::Output> {
    let waker = Arc::new(Nothing).into();
    let (mut future, mut context) = (pin!(future), Context::from_waker(&waker));
    (0..times).find_map(|_| match future.as_mut().poll(&mut context) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    })
}

fn run<F: Future>(future: F) -> F::Output {
    polled(future, 10_000).expect("it ends")
}

fn told(visited: &Visited) -> String {
    format!("{visited:?}")
}

/// The leaves of a shape, in order.
fn leaves(shape: &Shape, name: &str, found: &mut Vec<String>) {
    match shape {
        Shape::Leaf { .. } => found.push(name.to_owned()),
        Shape::Conditional(child, _) => leaves(child, &format!("{name}.0"), found),
        Shape::Serial(children) | Shape::Concurrent(children, _) | Shape::Graph(children, _) => {
            for (index, child) in children.iter().enumerate() {
                leaves(child, &format!("{name}.{index}"), found);
            }
        }
    }
}

fn config() -> ProptestConfig {
    let set = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    let usual = if std::env::var_os("WINDLASS_LONG_TESTS").is_some() { 10_000 } else { 500 };
    ProptestConfig { cases: set.unwrap_or(usual), failure_persistence: None, ..ProptestConfig::default() }
}

/// Panics of scripts are expected, and not worth a page each.
fn quiet() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let told = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let text = panic.payload().downcast_ref::<String>();
            if !text.is_some_and(|text| text.starts_with("r.") || text == "r") {
                told(panic);
            }
        }));
    });
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_series_goes_no_further_than_what_is_ready_and_down_in_exact_reverse(
        up in proptest::collection::vec(step(), 1..8), down in proptest::collection::vec(step(), 1..8),
    ) {
        quiet();
        let leaf = |(up, down): (&Step, &Step)| Shape::Leaf { up: vec![*up], down: vec![*down], delay: 1 };
        let case = Case::new(&Shape::Serial(up.iter().zip(&down).map(leaf).collect()));
        let count = up.len().min(down.len());
        let _ = case.up();
        let reached = up.iter().take(count).position(|step| *step != Step::Ready).map_or(count, |index| index + 1);
        let expected: Vec<String> = (0..reached).map(|index| format!("r.{index}")).collect();
        prop_assert_eq!(case.world.calls(), expected);
        let _ = case.down();
        let stopped = down.iter().take(count).rposition(|step| *step != Step::Ready).unwrap_or(0);
        let expected: Vec<String> = (stopped..count).rev().map(|index| format!("r.{index}")).collect();
        prop_assert_eq!(case.world.calls(), expected);
    }

    #[test]
    fn concurrent_children_are_visited_exactly_once(
        steps in proptest::collection::vec((step(), 0..4_usize), 0..9), bound in 0..4_usize,
    ) {
        quiet();
        let leaf = |(step, delay): &(Step, usize)| Shape::Leaf { up: vec![*step], down: vec![*step], delay: *delay };
        let case = Case::new(&Shape::Concurrent(steps.iter().map(leaf).collect(), bound));
        let expected: Vec<String> = (0..steps.len()).map(|index| format!("r.{index}")).collect();
        for _ in 0..2 {
            let _ = case.up();
            let mut calls = case.world.calls();
            calls.sort();
            prop_assert_eq!(&calls, &expected);
            let _ = case.down();
            prop_assert_eq!(case.world.calls().len(), expected.len());
        }
        prop_assert!(bound == 0 || case.world.most_running() <= bound);
    }

    #[test]
    fn no_order_of_completion_changes_the_outcome_or_a_state(
        shape in shape(), delays in proptest::collection::vec(0..5_usize, 24), passes in 1..5_usize,
    ) {
        quiet();
        let (one, other) = (Case::new(&shape), Case::new(&shape));
        let mut names = Vec::new();
        leaves(&shape, "r", &mut names);
        names.iter().zip(delays.iter().cycle()).for_each(|(leaf, delay)| other.world.delay(leaf, *delay));
        for pass in 0..passes {
            one.flip(pass);
            other.flip(pass);
            prop_assert_eq!(told(&one.up()), told(&other.up()));
            prop_assert_eq!(one.states(), other.states());
        }
        for _ in 0..passes {
            prop_assert_eq!(told(&one.down()), told(&other.down()));
            prop_assert_eq!(one.states(), other.states());
        }
        prop_assert_eq!(one.world.there(), other.world.there());
    }

    #[test]
    fn once_the_leaves_work_one_pass_is_enough_and_nothing_is_left_after_the_way_down(
        shape in shape(), passes in 0..6_usize, flips in any::<bool>(),
    ) {
        quiet();
        let case = Case::new(&shape);
        let mut all = Vec::new();
        leaves(&shape, "r", &mut all);
        for pass in 0..passes {
            if flips {
                case.flip(pass);
            }
            let _ = case.up();
        }
        if passes % 2 == 0 {
            case.world.mend();
            case.want_all();
            prop_assert!(case.up().is_ok_and(|outcome| outcome.is_ready()));
            prop_assert_eq!(case.world.there(), all.into_iter().collect::<BTreeSet<_>>());
        }
        // Down through whatever is left of the scripts: each step of each leaf stops it once at most.
        let ended = (0..200).find(|_| case.down().is_ok_and(|outcome| outcome.is_ready()));
        prop_assert!(ended.is_some());
        prop_assert!(case.world.there().is_empty(), "left: {:?}", case.world.there());
    }

    #[test]
    fn a_pass_that_is_cancelled_at_any_await_is_made_up_for_by_the_next(
        shape in shape(), cuts in proptest::collection::vec((0..12_usize, any::<bool>()), 1..8),
    ) {
        quiet();
        let case = Case::new(&shape);
        for (pass, (polls, up)) in cuts.into_iter().enumerate() {
            case.flip(pass);
            if up {
                let _ = polled(case.tree.provision(&case.world), polls);
            } else {
                let _ = polled(case.tree.deprovision(&case.world), polls);
            }
        }
        case.world.mend();
        case.want_all();
        prop_assert!(case.up().is_ok_and(|outcome| outcome.is_ready()));
        let _ = polled(case.tree.deprovision(&case.world), 2);
        prop_assert!(case.down().is_ok_and(|outcome| outcome.is_ready()));
        prop_assert!(case.world.there().is_empty());
    }
}
