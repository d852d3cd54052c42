//! A repository among the others of its namespace: who was first, and who has to wait.
//!
//! Admission refuses what would conflict. A Kubernetes API server without our admission, and two writes at the same
//! moment, let it through; then the older repository stays, by `creationTimestamp` and then by `uid`, and the younger one
//! waits and says for whom. Every process comes to the same answer, and it changes only when a repository is created,
//! changed or gone. Grafana: `controller/repository_path_conflict.go`, `controller/repository_quota.go`.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use windlass_api::conditions::{self, messages, reasons, types};
use windlass_api::repositories::{Overlap, overlap};
use windlass_api::{Repository, SyncTarget};
use windlass_runtime::ObjectKey;

use crate::unhealthy::Failure;

/// How two repositories of a namespace get into each other's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Conflict {
    /// The same files.
    Same,
    /// The files of one lie inside those of the other.
    Nested,
    /// One of them takes the whole namespace.
    Instance,
}

/// Where a repository stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Older repositories that it conflicts with, by name.
    conflicts: Vec<(Conflict, String)>,
    /// Younger ones that wait for it, by name.
    waiting: Vec<String>,
    /// Repositories of the namespace that are not being deleted, itself among them.
    count: usize,
    /// Those of them that are older.
    older: usize,
}

impl Standing {
    /// Where `repository` stands among `all` of its namespace, itself among them or not.
    ///
    /// One that is being deleted still owns its files, and has no place in the count any more.
    pub(crate) fn of<'a>(repository: &Repository, all: impl Iterator<Item = &'a Repository>) -> Self {
        let mut standing = Self { count: 1, ..Self::default() };
        for other in all.filter(|other| other.metadata.name != repository.metadata.name) {
            let is_older = age(other) < age(repository);
            if other.metadata.deletion_timestamp.is_none() {
                standing.count += 1;
                standing.older += usize::from(is_older);
            }
            let Some(conflict) = conflict(repository, other) else { continue };
            let name = other.metadata.name.clone().unwrap_or_default();
            if is_older {
                standing.conflicts.push((conflict, name));
            } else {
                standing.waiting.push(name);
            }
        }
        standing.conflicts.sort();
        standing.waiting.sort();
        standing
    }

    /// Why the repository is neither checked nor synced, although nothing is wrong with it by itself: it has to wait.
    pub(crate) fn block(&self, max: i64) -> Option<Failure> {
        let forbidden =
            |reason, field, detail| Failure::of_kind("FieldValueForbidden", reason, field, detail);
        if self.is_over(max) {
            return Some(forbidden(reasons::QUOTA_EXCEEDED, "metadata.name", self.quota_text(max)));
        }
        let is_instance = self.conflicts.iter().any(|(conflict, _)| *conflict == Conflict::Instance);
        let field = if is_instance { "spec.sync.target" } else { "spec.path" };
        Some(forbidden(reasons::PATH_CONFLICT, field, self.conflict_text()?))
    }

    /// The `PathConflict` condition.
    pub(crate) fn path_conflict(&self, generation: Option<i64>, now: Timestamp) -> Condition {
        let condition = |holds, reason, message: String| {
            conditions::new(types::PATH_CONFLICT, holds, reason, message, generation, now)
        };
        match self.conflict_text() {
            Some(text) => condition(false, reasons::PATH_CONFLICT, text),
            None if self.waiting.is_empty() => {
                condition(true, reasons::NO_PATH_CONFLICT, messages::NO_PATH_CONFLICT.to_owned())
            }
            None => {
                let text =
                    format!("this repository is the older one; waiting for it: {}", self.waiting.join(", "));
                condition(true, reasons::NO_PATH_CONFLICT, text)
            }
        }
    }

    /// The `NamespaceQuota` condition. `max` of 0 is no limit.
    pub(crate) fn namespace_quota(&self, max: i64, generation: Option<i64>, now: Timestamp) -> Condition {
        let reason = match usize::try_from(max) {
            Err(_) | Ok(0) => reasons::QUOTA_UNLIMITED,
            Ok(_) if self.is_over(max) => reasons::QUOTA_EXCEEDED,
            Ok(max) if self.count >= max => reasons::QUOTA_REACHED,
            Ok(_) => reasons::WITHIN_QUOTA,
        };
        conditions::new(
            types::NAMESPACE_QUOTA,
            !self.is_over(max),
            reason,
            self.quota_text(max),
            generation,
            now,
        )
    }

    fn is_over(&self, max: i64) -> bool {
        usize::try_from(max).is_ok_and(|max| max > 0 && self.older >= max)
    }

    fn quota_text(&self, max: i64) -> String {
        let count = self.count;
        match usize::try_from(max) {
            Err(_) | Ok(0) => messages::QUOTA_UNLIMITED.to_owned(),
            Ok(_) if self.is_over(max) => format!(
                "namespace quota exceeded: {count}/{max} repositories; delete some, or raise [provisioning] \
                 max_repositories"
            ),
            Ok(limit) if count >= limit => format!("namespace quota reached: {count}/{max} repositories"),
            Ok(_) => format!("within quota: {count}/{max} repositories"),
        }
    }

    fn conflict_text(&self) -> Option<String> {
        let named = |wanted: Conflict, text: &str| {
            let found = self.conflicts.iter().filter(|(conflict, _)| *conflict == wanted);
            let names: Vec<&str> = found.map(|(_, name)| name.as_str()).collect();
            (!names.is_empty()).then(|| format!("{text}: {}", names.join(", ")))
        };
        let parts: Vec<String> = [
            named(Conflict::Same, "duplicate repository path"),
            named(Conflict::Nested, "repository path conflicts with existing repository"),
            named(
                Conflict::Instance,
                "the target instance takes the whole namespace, which has an older repository",
            ),
        ]
        .into_iter()
        .flatten()
        .collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

/// Where repositories stand, as long as nothing happens to their neighbours: finding out takes a look at each of them.
#[derive(Default)]
pub(crate) struct Standings(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// How often something has happened in a namespace that may change where others stand.
    news: HashMap<String, u64>,
    /// Where repositories stood, and after how much news.
    standings: HashMap<ObjectKey, (u64, Standing)>,
}

impl Standings {
    /// Notes that `old` became `new`, before anybody looks again because of it.
    pub(crate) fn note(&self, old: Option<&Repository>, new: Option<&Repository>) {
        if changes(old, new) == (false, false) {
            return;
        }
        let Some(meta) = new.or(old).map(|repository| &repository.metadata) else { return };
        let namespace = meta.namespace.clone().unwrap_or_default();
        let mut known = self.lock();
        if let (None, Some(name)) = (new, &meta.name) {
            known.standings.remove(&ObjectKey::new(namespace.as_str(), name.as_str()));
        }
        *known.news.entry(namespace).or_default() += 1;
    }

    /// Where the repository stands; found out by `look` where that is not known any more.
    pub(crate) fn of(&self, key: &ObjectKey, look: impl FnOnce() -> Standing) -> Standing {
        let known = self.lock();
        let news = known.news.get(&key.namespace).copied().unwrap_or_default();
        if let Some((then, standing)) = known.standings.get(key)
            && *then == news
        {
            return standing.clone();
        }
        drop(known);
        // What happens meanwhile is news, and this is then forgotten.
        let standing = look();
        self.lock().standings.insert(key.clone(), (news, standing.clone()));
        standing
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a `Ready` condition says by its reason that the repository had to wait for others.
pub(crate) fn is_block(reason: &str) -> bool {
    matches!(reason, reasons::QUOTA_EXCEEDED | reasons::PATH_CONFLICT)
}

/// What of others' standing may change when `old` becomes `new`: because there are more repositories or fewer, and
/// because it is another one. Mostly nothing does.
fn changes(old: Option<&Repository>, new: Option<&Repository>) -> (bool, bool) {
    let counts = |repository: Option<&Repository>| {
        repository.is_some_and(|repository| repository.metadata.deletion_timestamp.is_none())
    };
    let recount = counts(old) != counts(new);
    let moved = match (old, new) {
        (Some(old), Some(new)) => old.metadata.generation != new.metadata.generation,
        _ => true,
    };
    (recount, moved)
}

/// Which of the others have to look again, after `old` became `new`: those that conflict with either, and, when the
/// number of repositories changed, those that had no room. The others are asked for where any may have to.
pub(crate) fn affected<R: Deref<Target = Repository>>(
    old: Option<&Repository>,
    new: Option<&Repository>,
    others: impl FnOnce() -> Vec<R>,
) -> Vec<R> {
    let (recount, moved) = changes(old, new);
    if !recount && !moved {
        return Vec::new();
    }
    let same = |one: Option<&Repository>, other: &Repository| {
        one.is_some_and(|one| one.metadata.name == other.metadata.name)
    };
    others()
        .into_iter()
        .filter(|other| !same(old, other) && !same(new, other))
        .filter(|other| {
            (recount && is_without_room(other))
                || (moved && [old, new].into_iter().flatten().any(|one| conflict(one, other).is_some()))
        })
        .collect()
}

fn is_without_room(repository: &Repository) -> bool {
    conditions::find(&repository.status.conditions, types::NAMESPACE_QUOTA)
        .is_some_and(|quota| quota.reason == reasons::QUOTA_EXCEEDED)
}

/// Who was first. One that is being deleted was, whoever came in the same second: its files are there.
fn age(repository: &Repository) -> (bool, Option<Timestamp>, Option<&str>) {
    let meta = &repository.metadata;
    let created = meta.creation_timestamp.as_ref().map(|time| time.0);
    (meta.deletion_timestamp.is_none(), created, meta.uid.as_deref())
}

fn conflict(one: &Repository, other: &Repository) -> Option<Conflict> {
    let is_instance = |repository: &Repository| repository.spec.sync.target == Some(SyncTarget::Instance);
    match overlap(&one.spec, &other.spec) {
        Some(Overlap::Same) => Some(Conflict::Same),
        Some(Overlap::Nested) => Some(Conflict::Nested),
        None if is_instance(one) || is_instance(other) => Some(Conflict::Instance),
        None => None,
    }
}

#[cfg(test)]
mod tests;
