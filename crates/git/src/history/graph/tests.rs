use super::*;

fn id(number: usize) -> ObjectId {
    let mut bytes = [0; 20];
    bytes[..8].copy_from_slice(&(number as u64 + 1).to_be_bytes());
    ObjectId::from_bytes(bytes)
}

/// A commit whose time is its number.
fn commit(number: usize, parents: &[usize]) -> Commit {
    Commit {
        id: id(number),
        parents: parents.iter().map(|parent| id(*parent)).collect(),
        committed: i64::try_from(number).unwrap(),
        author: String::new(),
        subject: number.to_string(),
        traceparent: None,
        job: None,
    }
}

fn received(commits: impl IntoIterator<Item = Commit>, shallow: &[usize]) -> ReceivedHistory {
    ReceivedHistory {
        commits: commits.into_iter().collect(),
        shallow: shallow.iter().map(|number| id(*number)).collect(),
        exact: true,
        ..ReceivedHistory::default()
    }
}

/// `0 ← 1 ← … ← last`.
fn line(last: usize) -> Graph {
    let mut graph = Graph::default();
    let parents = |number: usize| number.checked_sub(1).into_iter().collect::<Vec<_>>();
    graph.take(received((0..=last).map(|number| commit(number, &parents(number))), &[]), &[]);
    graph
}

fn ids(numbers: &[usize]) -> Vec<ObjectId> {
    numbers.iter().map(|number| id(*number)).collect()
}

fn subjects(history: &History) -> Vec<usize> {
    history.commits.iter().map(|commit| commit.subject.parse().unwrap()).collect()
}

fn ask(graph: &Graph, new: usize, known: &[usize]) -> History {
    graph.answer(id(new), &ids(known), usize::MAX).unwrap()
}

/// A small generator of numbers that depend on `seed` alone (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap()
    }
}

#[test]
fn what_any_known_revision_holds_is_no_news() {
    for seed in 1..400 {
        let mut random = Random(seed);
        let count = 2 + random.below(30);
        let mut parents: Vec<Vec<usize>> = Vec::new();
        for number in 0..count {
            let wanted = random.below(4).min(number);
            let mut chosen: Vec<usize> =
                (0..wanted).map(|_| number - 1 - random.below(number.min(6))).collect();
            chosen.sort_unstable();
            chosen.dedup();
            parents.push(chosen);
        }
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by_cached_key(|_| random.below(1_000));
        let mut graph = Graph::default();
        for some in order.chunks(1 + random.below(7)) {
            let commits = some.iter().map(|number| commit(*number, &parents[*number]));
            graph.take(received(commits, &(0..count).collect::<Vec<_>>()), &[]);
        }
        let closure = |tips: &[usize]| {
            let mut held = HashSet::new();
            let mut rest = tips.to_vec();
            while let Some(number) = rest.pop() {
                if held.insert(number) {
                    rest.extend(&parents[number]);
                }
            }
            held
        };
        let new = random.below(count);
        let known: Vec<usize> = (0..random.below(4)).map(|_| random.below(count)).collect();
        let history = ask(&graph, new, &known);
        let held = closure(&known);
        let mut expected: Vec<usize> = closure(&[new]).into_iter().filter(|it| !held.contains(it)).collect();
        let mut found = subjects(&history);
        for (at, number) in found.iter().enumerate() {
            assert!(parents[*number].iter().all(|parent| !found[at..].contains(parent)), "{seed}: {found:?}");
        }
        let diverged =
            known.last().is_some_and(|last| !closure(&[new]).contains(last) && !held.contains(&new));
        assert_eq!((history.rewritten, history.truncated), (diverged, false), "{seed}");
        let apart = closure(&[new]).is_disjoint(&held) && !known.is_empty();
        assert_eq!(history.unrelated, apart, "{seed}");
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected, "{seed}: {new} over {known:?} in {parents:?}");
        assert_eq!(graph.need(id(new), &ids(&known)), Need::Nothing);
    }
}

#[test]
fn a_commit_is_merged_when_the_first_parent_line_takes_it_in() {
    let mut graph = Graph::default();
    // 0 ← 1 ← 4 ← 7 ← 8 is the line; 2 ← 3 comes with 4, 5 ← 6 with 7 though older than 4's merge.
    let all = [
        commit(0, &[]),
        commit(1, &[0]),
        commit(2, &[0]),
        commit(3, &[2]),
        commit(4, &[1, 3]),
        commit(5, &[2]),
        commit(6, &[5]),
        commit(7, &[4, 6]),
        commit(8, &[7]),
    ];
    graph.take(received(all, &[]), &[]);
    let history = ask(&graph, 8, &[0]);
    let told: Vec<_> =
        history.commits.iter().map(|it| (it.subject.as_str(), it.committed, it.merged)).collect();
    let expected = [
        ("1", 1, 1),
        ("2", 2, 4),
        ("3", 3, 4),
        ("4", 4, 4),
        ("5", 5, 7),
        ("6", 6, 7),
        ("7", 7, 7),
        ("8", 8, 8),
    ];
    assert_eq!(told, expected);
    let newest = graph.answer(id(8), &ids(&[0]), 3).unwrap();
    assert_eq!((subjects(&newest), newest.truncated), (vec![6, 7, 8], true));
}

#[test]
fn rolling_back_and_forward_brings_nothing() {
    let graph = line(9);
    assert_eq!(ask(&graph, 3, &[3, 9]), History::default());
    assert_eq!(ask(&graph, 3, &[5, 9]), History::default());
    assert_eq!(ask(&graph, 9, &[9, 3]), History::default());
    let on = ask(&graph, 9, &[2, 7, 3]);
    assert_eq!((subjects(&on), on.rewritten), (vec![8, 9], false));
}

#[test]
fn a_revision_beside_the_known_one_is_rewritten_history() {
    let mut graph = line(5);
    graph.take(received([commit(6, &[3]), commit(7, &[6])], &[]), &[]);
    let history = ask(&graph, 7, &[2, 5]);
    assert_eq!((subjects(&history), history.rewritten, history.truncated), (vec![6, 7], true, false));
    // Back from there: everything was seen before.
    assert_eq!(ask(&graph, 5, &[5, 7]), History::default());
}

#[test]
fn what_the_server_left_out_is_decided_by_what_it_was_told() {
    let mut graph = Graph::default();
    graph.take(received([commit(10, &[9]), commit(11, &[10])], &[10]), &[]);
    assert_eq!(graph.need(id(11), &ids(&[10])), Need::Nothing);
    assert_eq!(graph.need(id(11), &[]), Need::Nothing, "the newest are enough where nothing is known");
    assert!(ask(&graph, 11, &[]).truncated);
    assert_eq!(graph.need(id(11), &ids(&[3])), Need::Revisions(ids(&[3])));
    // 12 merges 8, which grew from 5: the server was told of 11, and left 5 out because 11 holds it.
    graph.take(received([commit(8, &[5]), commit(12, &[11, 8])], &[]), &ids(&[11]));
    assert_eq!(graph.need(id(12), &ids(&[11])), Need::Nothing);
    assert_eq!(subjects(&ask(&graph, 12, &[11])), [8, 12]);
    // Who knows 10 alone cannot tell whether 5 is news.
    assert_eq!(graph.need(id(12), &ids(&[10])), Need::Depth);
    graph.settle(id(12), &ids(&[10]));
    assert_eq!(graph.need(id(12), &ids(&[10])), Need::Nothing);
    let partly = ask(&graph, 12, &[10]);
    assert_eq!((subjects(&partly), partly.truncated, partly.rewritten), (vec![11, 8, 12], true, false));
}

#[test]
fn a_revision_that_is_gone_is_asked_for_once_and_may_come_back() {
    let mut graph = line(3);
    assert_eq!(graph.need(id(3), &ids(&[2, 40])), Need::Revisions(ids(&[40])));
    graph.miss(id(40));
    assert_eq!(graph.need(id(3), &ids(&[2, 40])), Need::Nothing);
    let history = ask(&graph, 3, &[2, 40]);
    assert_eq!((subjects(&history), history.rewritten, history.unrelated), (vec![3], true, false));
    assert!(ask(&graph, 3, &[40]).unrelated && !ask(&graph, 3, &[]).unrelated);
    graph.take(received([commit(40, &[3])], &[]), &[]);
    assert_eq!(ask(&graph, 3, &[2, 40]), History::default());
    assert_eq!(graph.need(id(41), &ids(&[40])), Need::Revisions(ids(&[41])));
}

#[test]
fn a_tag_stands_for_its_commit() {
    let mut graph = line(4);
    let tags = vec![(id(70), id(4)), (id(71), id(70)), (id(72), id(2))];
    graph.take(ReceivedHistory { tags, exact: true, ..ReceivedHistory::default() }, &[]);
    for new in [4, 70, 71] {
        let history = ask(&graph, new, &[72]);
        assert_eq!((subjects(&history), history.rewritten), (vec![3, 4], false));
        assert_eq!(graph.need(id(new), &ids(&[72])), Need::Nothing);
    }
    // Tags that name each other lead nowhere.
    let circle = vec![(id(80), id(81)), (id(81), id(80))];
    graph.take(ReceivedHistory { tags: circle, exact: true, ..ReceivedHistory::default() }, &[]);
    assert_eq!(graph.answer(id(80), &[], 9), None);
}

#[test]
fn a_long_history_is_walked_without_recursion() {
    let graph = line(100_000);
    let history = ask(&graph, 100_000, &[0]);
    assert_eq!((history.commits.len(), history.rewritten), (100_000, false));
    assert_eq!(subjects(&ask(&graph, 100_000, &[99_998])), [99_999, 100_000]);
}

#[test]
fn parents_and_tags_count_towards_the_size() {
    let mut graph = line(9);
    assert_eq!(graph.size(), 10);
    graph.take(received([commit(10, &[9, 8]), commit(11, &[10; 50])], &[]), &[]);
    assert_eq!(graph.size(), 10 + 1 + 49);
    // The same ones again take no more.
    graph.take(received([commit(11, &[10; 50])], &[]), &[]);
    assert_eq!(graph.size(), 60);
    graph.take(ReceivedHistory { tags: vec![(id(90), id(9))], ..received([], &[]) }, &[]);
    assert_eq!(graph.size(), 61);
}
