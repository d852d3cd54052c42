//! When what a repository's tree is made of is due. Pure.

use std::time::Duration;

use windlass_api::conditions::{self, reasons, types};
use windlass_repository::inspect::is_inspected;

use crate::bring_up::TokenWanted;
use crate::hook::Wanted;
use crate::observe::Observed;
use crate::timing::renewed_in;

/// How long a token has to be there, in milliseconds, before one that is refused is replaced.
const TOKEN_TRIED: i64 = 60_000;

/// Why a repository is looked at again that names a Secret which says something else than before.
pub(crate) const SECRET_CHANGED: &str = "a Secret that it names changed";

/// Whether something is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Due<T> {
    Now(T),
    In(Duration),
    /// Something else has to happen first.
    Never,
}

impl<T> Due<T> {
    /// What is due now. `next` becomes no later than when it will be otherwise.
    pub(crate) fn now(self, next: &mut Duration) -> Option<T> {
        match self {
            Self::Now(what) => return Some(what),
            Self::In(left) => *next = left.min(*next),
            Self::Never => {}
        }
        None
    }
}

/// Whether a token is to be had by way of the connection.
pub(crate) fn token_due(observed: &Observed) -> Due<TokenWanted> {
    let repository = &*observed.stored;
    if repository.spec.connection_name().is_empty() {
        return Due::Never;
    }
    let status = &repository.status;
    let holds = conditions::is_true(&status.conditions, types::TOKEN);
    let refused = !status.health.healthy
        && conditions::find(&status.conditions, types::READY)
            .is_some_and(|ready| ready.reason == reasons::AUTHENTICATION_FAILED);
    let said = conditions::find(&status.conditions, types::TOKEN)
        .is_some_and(|said| said.observed_generation == repository.metadata.generation);
    let left = match (observed.ages.token_left, &status.token) {
        (Some(left), _) => left,
        (None, Some(token)) if holds && said && repository.secure.token.is_set() => {
            renewed_in(token, observed.now)
        }
        (None, _) => return Due::Now(TokenWanted::Missing),
    };
    let age = status.token.as_ref().map_or(0, |token| observed.now.as_millisecond() - token.last_updated);
    if refused && holds && age >= TOKEN_TRIED {
        return Due::Now(TokenWanted::Refused);
    }
    if left.is_zero() { Due::Now(TokenWanted::Ending) } else { Due::In(left) }
}

/// Whether the server is to be asked about the repository beside its files.
pub(crate) fn inspection_due(observed: &Observed) -> Due<&'static str> {
    let left = observed.ages.inspect_left;
    if !is_inspected(&observed.filled) {
        Due::Never
    } else if observed.ages.secret_changed.is_some() {
        Due::Now(SECRET_CHANGED)
    } else if left.is_zero() {
        Due::Now("it may say something else than before")
    } else {
        Due::In(left)
    }
}

/// Whether the hook is to be looked at. It comes before the check: a repository that is given a Secret is another one.
pub(crate) fn hook_due(observed: &Observed) -> Due<&'static str> {
    let repository = &*observed.stored;
    let said = conditions::find(&repository.status.conditions, types::WEBHOOK);
    let (reason, message) = match &observed.hook {
        Wanted::Unmanaged => return Due::Never,
        Wanted::Hook { .. } if observed.ages.secret_changed.is_some() => return Due::Now(SECRET_CHANGED),
        Wanted::Hook { .. } if observed.ages.hook_left.is_zero() => {
            return Due::Now("it is looked at from time to time");
        }
        Wanted::Hook { .. } => return Due::In(observed.ages.hook_left),
        Wanted::None { reason, message } => (reason, message),
    };
    let is_said = said.is_some_and(|said| {
        (said.reason.as_str(), &said.message, said.observed_generation)
            == (reason, message, repository.metadata.generation)
    });
    let has_one = repository.status.webhook.as_ref().is_some_and(|webhook| webhook.id != 0);
    if has_one && *reason != reasons::NO_PUBLIC_URL {
        let left = observed.ages.hook_left;
        return if left.is_zero() { Due::Now("there should be none") } else { Due::In(left) };
    }
    if is_said { Due::Never } else { Due::Now("it is to be said why there is none") }
}
