//! What is to be done about Kustomizations, while this process leads.

use std::fmt;
use std::sync::Arc;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Meter};
use windlass_runtime::{BackoffPolicy, KeyedQueue, ObjectKey, TermQueue, TermWork};

use crate::metrics::{QUEUE_ADDS, QUEUE_DEPTH};

/// The controller's name, as controllers of Kubernetes have it.
const NAME: &str = "kustomization";

/// The label of reconciles.
pub(super) fn controller() -> [KeyValue; 1] {
    [KeyValue::new("controller", NAME)]
}

/// The labels of the queue.
pub(super) fn queue() -> [KeyValue; 2] {
    [KeyValue::new("controller", NAME), KeyValue::new("name", NAME)]
}

/// Something to be done about a Kustomization.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Task {
    /// Look at it.
    Reconcile(Arc<ObjectKey>),
    /// The one of this UID was not seen: forget it if it is gone.
    Forget(Arc<ObjectKey>, Arc<str>),
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reconcile(key) => write!(f, "look at {key}"),
            Self::Forget(key, uid) => write!(f, "forget {key} ({uid})"),
        }
    }
}

/// The queue of the term that goes on, if one does.
#[derive(Clone)]
pub(crate) struct Tasks {
    queue: TermQueue<Task>,
    adds: Counter<u64>,
}

impl Tasks {
    pub(crate) fn new(meter: &Meter) -> Self {
        let waiting = TermQueue::<Task>::default();
        let tasks = Self { queue: waiting.clone(), adds: QUEUE_ADDS.counter(meter) };
        let depth = meter.u64_observable_gauge(QUEUE_DEPTH.name).with_description(QUEUE_DEPTH.meaning);
        depth
            .with_callback(move |gauge| {
                let waiting = waiting.current().as_ref().map_or(0, KeyedQueue::waiting);
                gauge.observe(u64::try_from(waiting).unwrap_or(u64::MAX), &queue());
            })
            .build();
        tasks
    }

    pub(crate) fn add(&self, task: Task) {
        if let Some(queue) = self.queue.current() {
            self.adds.add(1, &self::queue());
            queue.add(task);
        }
    }

    pub(crate) fn forget(&self, task: &Task) {
        self.queue.forget(task);
    }

    /// Begins a term, with a look at each Kustomization that is known.
    pub(crate) fn begin(&self, known: impl FnOnce() -> Vec<Arc<ObjectKey>>) -> TermWork<Task> {
        self.queue.begin(BackoffPolicy::OBJECT, || known().into_iter().map(Task::Reconcile))
    }
}
