//! A process dies at every write that it makes, and another one takes over.

use std::fmt::Debug;

use futures::StreamExt as _;
use windlass_api::{Job, JobSpec, JobState};
use windlass_jobs_operator::{PROVISIONING_JOBS, register};

use crate::kit::{Death, World, end_of};

mod pull;
mod write;

/// Runs a job, with a process that dies and then one that does not; tells whether the first one died.
async fn run(world: &World, spec: JobSpec, death: Death) -> bool {
    let first = world.start_with(register, PROVISIONING_JOBS, death, |_context| {});
    let job: Job = world.queue(spec).await;
    let died = tokio::select! {
        () = first.dead() => true,
        _ = world.ended(&job) => false,
    };
    first.kill().await;
    if died {
        let second = world.start(register, PROVISIONING_JOBS);
        let record = world.ended(&job).await;
        assert_eq!(end_of(&record).0, JobState::Success, "{death:?}: {record:#?}");
        second.stop().await;
    }
    assert!(world.jobs().await.is_empty(), "{death:?}");
    died
}

/// When the process dies: before its n-th write is made, or before it hears of it.
type Kinds = &'static [fn(usize) -> Death];

const BOTH: Kinds = &[Death::Before, Death::After];

/// Lets the process die at its first write, its second, and so on until it ends the job first, `at_a_time` worlds beside
/// each other. Every time, what is left has to be as without a death, which is answered; `least` deaths are expected.
async fn at_every_write<L: Debug + PartialEq>(
    (kinds, at_a_time, least): (Kinds, usize, usize),
    attempt: impl AsyncFn(Death) -> (bool, L),
) -> L {
    let (died, undisturbed) = attempt(Death::Never).await;
    assert!(!died);
    for kind in kinds {
        let attempt = &attempt;
        let runs = futures::stream::iter(1..)
            .map(|number| async move { (number, attempt(kind(number)).await) })
            .buffered(at_a_time);
        let mut runs = std::pin::pin!(runs);
        let mut deaths = 0;
        while let Some((number, (died, left))) = runs.next().await {
            assert_eq!(left, undisturbed, "after {:?}", kind(number));
            if !died {
                break;
            }
            deaths = number;
        }
        assert!(deaths >= least, "{deaths} deaths are too few to be all");
    }
    undisturbed
}

/// Claims that lapse soon enough for a test on paused time.
fn paused() -> World {
    lapsing_soon(World::new())
}

/// The same in a world whose time is real, since Git's sockets know no other: long enough for a renewal on a busy machine.
fn lapsing_soon(world: World) -> World {
    world
        .set("operator.max_attempts", "100")
        .set("operator.lease_expiry", "3s")
        .set("operator.lease_renewal_interval", "1s")
}
