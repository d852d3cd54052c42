//! Examples of what was measured: from a figure to the trace of a revision that it came of.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use opentelemetry::trace::{SpanId, TraceId};
use windlass_telemetry::Exemplar;

use crate::Instrument;

/// The newest revision of each Kustomization that this process measured, by UID.
#[derive(Debug, Default)]
pub struct Exemplars {
    newest: Mutex<HashMap<Box<str>, Arc<Example>>>,
}

/// What one revision had of each duration, the longest.
#[derive(Debug)]
pub struct Example {
    trace: (TraceId, SpanId),
    time: Timestamp,
    longest: Box<[(Instrument, f64)]>,
}

impl Exemplars {
    /// That of a Kustomization.
    pub fn of(&self, uid: &str) -> Option<Arc<Example>> {
        self.lock().get(uid).cloned()
    }

    /// A revision with this trace was measured at this time.
    pub(crate) fn set(
        &self,
        uid: &str,
        trace: (TraceId, SpanId),
        time: Timestamp,
        observations: &[(Instrument, f64)],
    ) {
        let mut longest = Vec::<(Instrument, f64)>::new();
        for (instrument, seconds) in observations {
            match longest.iter_mut().find(|(known, _)| known == instrument) {
                Some((_, most)) => *most = most.max(*seconds),
                None => longest.push((*instrument, *seconds)),
            }
        }
        let example = Example { trace, time, longest: longest.into() };
        self.lock().insert(uid.into(), Arc::new(example));
    }

    pub(crate) fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Arc<Example>>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Example {
    /// As an exemplar of this instrument's histogram.
    pub(crate) fn of(&self, instrument: Instrument) -> Option<Exemplar> {
        let (_, value) = *self.longest.iter().find(|(known, _)| *known == instrument)?;
        let (trace_id, span_id) = self.trace;
        Some(Exemplar { value, time: self.time, trace_id, span_id })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_of_a_revision_is_its_exemplar() {
        let exemplars = Exemplars::default();
        let trace = (TraceId::from(7), SpanId::from(8));
        let observed =
            [(Instrument::EndToEnd, 3.0), (Instrument::EndToEnd, 9.0), (Instrument::StageApply, 1.0)];
        exemplars.set("uid", trace, Timestamp::UNIX_EPOCH, &observed);
        let of = |instrument| exemplars.of("uid")?.of(instrument).map(|exemplar| exemplar.value);
        assert_eq!((of(Instrument::EndToEnd), of(Instrument::StageApply)), (Some(9.0), Some(1.0)));
        assert_eq!(of(Instrument::Export), None);
        exemplars.forget("uid");
        assert!(exemplars.of("uid").is_none());
    }
}
