//! Whether there is anything to do, once it is known which commit is wanted: pure.

use std::fmt;

use windlass_api::flux::{Artifact, GitRepository};

use crate::reference::Resolved;

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// What is there is what is wanted.
    Keep,
    /// An artifact is made, for this reason.
    Make(&'static str),
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keep => f.write_str("keep the artifact"),
            Self::Make(why) => write!(f, "make an artifact: {why}"),
        }
    }
}

/// Compares what is wanted with what the status says was made. `stored`: that is there still.
pub(crate) fn plan(object: &GitRepository, stored: bool, resolved: &Resolved, included: &[Artifact]) -> Plan {
    let (spec, status) = (&object.spec, &object.status);
    let Some(artifact) = &status.artifact else { return Plan::Make("there is none") };
    let same =
        |one: &Artifact, other: &Artifact| one.revision == other.revision && one.digest == other.digest;
    let includes_are_same = included.len() == status.included_artifacts.len()
        && included.iter().zip(&status.included_artifacts).all(|(one, other)| same(one, other));
    if !stored {
        Plan::Make("it is not in storage")
    } else if artifact.revision != resolved.revision {
        Plan::Make("the revision is another one")
    } else if spec.ignore != status.observed_ignore {
        Plan::Make("spec.ignore changed")
    } else if spec.recurse_submodules != status.observed_recurse_submodules {
        Plan::Make("spec.recurseSubmodules changed")
    } else if spec.sparse_checkout != status.observed_sparse_checkout {
        Plan::Make("spec.sparseCheckout changed")
    } else if spec.include != status.observed_include {
        Plan::Make("spec.include changed")
    } else if !includes_are_same {
        Plan::Make("an included artifact changed")
    } else {
        Plan::Keep
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use windlass_api::flux::{GitRepositoryInclude, LocalReference};
    use windlass_git::ObjectId;

    use super::*;

    fn artifact(revision: &str) -> Artifact {
        Artifact {
            path: "gitrepository/default/a/x.tar.gz".to_owned(),
            url: String::new(),
            revision: revision.to_owned(),
            digest: "sha256:00".to_owned(),
            last_update_time: Time(jiff::Timestamp::UNIX_EPOCH),
            size: None,
            metadata: [].into(),
        }
    }

    #[test]
    fn an_artifact_is_made_again_when_anything_that_decides_it_changed_and_not_otherwise() {
        let mut object = GitRepository::default();
        let resolved =
            Resolved { commit: ObjectId::from_bytes([1; 20]), revision: "main@sha1:1".to_owned(), tag: None };
        assert_eq!(plan(&object, false, &resolved, &[]), Plan::Make("there is none"));
        object.status.artifact = Some(artifact("main@sha1:1"));
        assert_eq!(plan(&object, true, &resolved, &[]), Plan::Keep);
        assert_eq!(plan(&object, false, &resolved, &[]), Plan::Make("it is not in storage"));
        let moved = Resolved { revision: "main@sha1:2".to_owned(), ..resolved.clone() };
        assert_eq!(plan(&object, true, &moved, &[]), Plan::Make("the revision is another one"));

        let is_made = |change: fn(&mut GitRepository), included: &[Artifact]| {
            let mut changed = object.clone();
            change(&mut changed);
            plan(&changed, true, &resolved, included) != Plan::Keep
        };
        assert!(is_made(|it| it.spec.ignore = Some(String::new()), &[]), "empty is not the same as absent");
        assert!(is_made(|it| it.spec.sparse_checkout = vec!["a".to_owned()], &[]));
        assert!(is_made(|it| it.spec.recurse_submodules = true, &[]));
        let include = || GitRepositoryInclude {
            repository: LocalReference { name: "b".to_owned() },
            ..GitRepositoryInclude::default()
        };
        object.spec.include = vec![include()];
        object.status.observed_include = vec![include()];
        object.status.included_artifacts = vec![artifact("main@sha1:7")];
        let plan_with = |included: Artifact| plan(&object, true, &resolved, &[included]);
        assert_eq!(plan_with(artifact("main@sha1:7")), Plan::Keep);
        assert_eq!(plan_with(artifact("main@sha1:8")), Plan::Make("an included artifact changed"));
        let repacked = Artifact { digest: "sha256:11".to_owned(), ..artifact("main@sha1:7") };
        assert_eq!(plan_with(repacked), Plan::Make("an included artifact changed"));
    }
}
