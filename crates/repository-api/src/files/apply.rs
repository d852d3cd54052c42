//! After a write to the branch that is pulled: its object follows at once, as a pull would have it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use windlass_api::JobSpec;
use windlass_git::{Diff, Tree};
use windlass_lease_queue::kube::{InsertError, insert};
use windlass_resources::apply::{self, Job, Options};
use windlass_resources::ignore_file::IgnoreFile;
use windlass_resources::plan::{self, Incremental, Retry};
use windlass_resources::{Managed, TakeOver, folders};
use windlass_telemetry::ErrorChain;

use super::place::Place;
use crate::request::Target;
use crate::state::RepositoryApi;

/// Writes what a change of the branch means for objects. What comes back is what did not succeed; the next pull tries it
/// again.
pub(super) async fn run(
    state: &RepositoryApi,
    target: &Target,
    place: &Place,
    diff: Diff,
    tree: &Tree,
) -> Vec<String> {
    let reader = &place.opened.reader;
    let ignored = match IgnoreFile::read(&**reader, tree, &place.cancel).await {
        Ok(ignored) => ignored,
        Err(error) => return vec![ErrorChain(&error).to_string()],
    };
    let paths: Vec<String> = diff.changes.iter().map(|change| change.path.clone()).collect();
    let mut errors: Vec<String> = paths
        .iter()
        .filter(|path| ignored.matches(path))
        .map(|path| format!("{path}: it is written, and .windlassignore leaves it out"))
        .collect();
    let (diff, tree) = (ignored.diff(diff), ignored.tree(tree.clone()));
    if diff.changes.is_empty() {
        return errors;
    }
    let above = folders::metadata_above(&tree, paths.iter().map(String::as_str));
    let managed = Managed::default();
    let metadata = folders::read_metadata(&**reader, &above, &managed, &place.context, &place.cancel).await;
    let metadata = match metadata {
        Ok(metadata) => metadata,
        Err(error) => {
            errors.push(ErrorChain(&error).to_string());
            return errors;
        }
    };
    match plan::incremental(&diff, &tree, &metadata, &Retry::default(), &place.context) {
        Incremental::NeedsFull(_) => errors.extend(queue(state, target).await),
        Incremental::Plan(mut plan) => {
            // The rest of the tree is a pull's to talk of.
            plan.notices.retain(|notice| paths.contains(&notice.path));
            let found = Arc::new(Mutex::new(Vec::new()));
            let results = Arc::clone(&found);
            let job = Job {
                reader: Arc::clone(reader),
                clients: state.resources.clone(),
                context: place.context.clone(),
                options: Options::default(),
                cancel: place.cancel.clone(),
                may_write: Arc::new(|| true),
                take_over: TakeOver::default(),
                on_result: Arc::new(move |result| {
                    let error = result.error.map(|error| format!("{}: {error}", result.path));
                    results.lock().unwrap_or_else(PoisonError::into_inner).extend(error);
                }),
            };
            apply::run(*plan, job).await;
            errors.append(&mut found.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }
    errors
}

/// Queues a pull of everything: folders may have other names now.
async fn queue(state: &RepositoryApi, target: &Target) -> Option<String> {
    let spec = JobSpec::pull(&target.name, false);
    match insert(&state.provisioning, &target.namespace, &target.name, spec, BTreeMap::new()).await {
        // The one that is queued already may have begun; the poll of the branch sees to what it misses.
        Ok(_) | Err(InsertError::AlreadyExists(_)) => None,
        Err(error) => Some(format!("the pull that follows was not queued: {}", ErrorChain(&error))),
    }
}
