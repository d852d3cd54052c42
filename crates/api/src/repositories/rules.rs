//! What is refused beyond the table of rules: what depends on settings, on metadata, and on other repositories.

use super::table::{is_instance, parses, remote};
use super::{MAX_NAME_LENGTH, Overlap, RepositoryRules, is_pending_delete, overlap};
use crate::{
    consts::finalizers,
    field_error::FieldError,
    repository::{Repository, RepositorySpec},
    secure::InlineSecureValue,
};

type Errors = Vec<FieldError>;

/// A repository whose namespace is soft-deleted stays as it is.
pub(super) fn pending_delete(new: &Repository, old: Option<&Repository>, errors: &mut Errors) {
    if !is_pending_delete(new) {
        return;
    }
    let unchanged = old.is_some_and(|old| old.spec == new.spec && old.secure == new.secure);
    if !unchanged {
        errors.push(FieldError::forbidden(
            "metadata.labels",
            "the namespace is pending deletion: a repository in it can be neither created nor changed",
        ));
    }
}

/// What the object says that this server does not offer, or that CEL cannot see.
pub(super) fn offered(
    new: &Repository,
    old: Option<&Repository>,
    rules: &RepositoryRules,
    errors: &mut Errors,
) {
    let spec = &new.spec;
    if old.is_none()
        && let Some(target) = spec.sync.target
        && spec.sync.enabled
        && !rules.targets.contains(&target)
    {
        let known: Vec<&str> = rules.targets.iter().map(|target| target.as_str()).collect();
        errors.push(
            FieldError::not_supported("spec.sync.target", target.as_str(), &known).set_by("allowed_targets"),
        );
    }
    let name = new.metadata.name.as_deref().unwrap_or_default();
    if name.len() > MAX_NAME_LENGTH {
        let message = format!(
            "must be no more than {MAX_NAME_LENGTH} characters: it is a label of the repository's jobs"
        );
        errors.push(FieldError::invalid("metadata.name", name, message));
    }
    if !rules.types.contains(&spec.kind) {
        let known: Vec<&str> = rules.types.iter().map(|kind| kind.as_str()).collect();
        errors.push(
            FieldError::not_supported("spec.type", spec.kind.as_str(), &known).set_by("repository_types"),
        );
    }
    finalizers(new.metadata.finalizers.as_deref().unwrap_or_default(), errors);
    previews(spec, rules, errors);
    if let Some(url) = spec.url()
        && !parses(url)
    {
        // The text may hold a secret in a place that no parser has told apart: it is not repeated.
        errors.push(FieldError {
            bad_value: None,
            ..FieldError::invalid(&format!("spec.{}.url", spec.kind), "", "this is no URL")
        });
    }
    lengths(new, errors);
}

fn finalizers(list: &[String], errors: &mut Errors) {
    const FIELD: &str = "metadata.finalizers";
    if list.is_empty() {
        errors.push(FieldError::required(FIELD, "a repository needs at least one finalizer"));
    }
    let has = |name: &str| list.iter().any(|finalizer| finalizer == name);
    if has(finalizers::RELEASE_ORPHAN_RESOURCES) && has(finalizers::REMOVE_ORPHAN_RESOURCES) {
        errors.push(FieldError::invalid(
            FIELD,
            list,
            "resources can be released or removed when the repository goes, not both",
        ));
    }
    for finalizer in list {
        if !finalizers::ALL.contains(&finalizer.as_str()) {
            errors.push(FieldError::not_supported(FIELD, finalizer.as_str(), &finalizers::ALL));
        }
    }
}

fn previews(spec: &RepositorySpec, rules: &RepositoryRules, errors: &mut Errors) {
    if rules.image_rendering {
        return;
    }
    let github = spec.github.as_ref().is_some_and(|github| github.generate_dashboard_previews);
    let others = spec.pull_request.as_ref().is_some_and(|options| options.generate_dashboard_previews);
    for (field, asked) in [
        ("spec.github.generateDashboardPreviews", github),
        ("spec.pullRequest.generateDashboardPreviews", others),
    ] {
        if asked {
            errors.push(FieldError::invalid(
                field,
                true,
                "this server makes no pictures of dashboards: allow_image_rendering is off",
            ));
        }
    }
}

/// Raw values that are not too long.
fn lengths(new: &Repository, errors: &mut Errors) {
    for (field, value) in [
        ("secure.token", &new.secure.token),
        ("secure.webhookSecret", &new.secure.webhook_secret),
        ("secure.commitSigningKey", &new.secure.commit_signing_key),
    ] {
        use secrecy::ExposeSecret as _;
        let length = value.create.as_ref().map(|raw| raw.expose_secret().len());
        if length.is_some_and(|length| length == 0 || length > InlineSecureValue::MAX_LENGTH) {
            let message = format!("must have between 1 and {} bytes", InlineSecureValue::MAX_LENGTH);
            errors.push(FieldError::forbidden(&format!("{field}.create"), message));
        }
    }
}

/// What the other repositories of the namespace leave room for.
pub(super) fn neighbours(
    new: &Repository,
    old: Option<&Repository>,
    others: &[Repository],
    rules: &RepositoryRules,
    errors: &mut Errors,
) {
    let others: Vec<&Repository> = others
        .iter()
        .filter(|other| other.metadata.name != new.metadata.name)
        .filter(|other| other.metadata.deletion_timestamp.is_none())
        .collect();
    let retargeted = old.is_none_or(|old| old.spec.sync.target != new.spec.sync.target);
    if retargeted {
        if is_instance(new)
            && let Some(other) = others.first()
        {
            let message = format!(
                "the target instance takes the whole namespace, and there is another repository: {}",
                name_of(other)
            );
            errors.push(FieldError::invalid("spec.sync.target", "instance", message));
        } else if let Some(instance) = others.iter().find(|other| is_instance(other)) {
            let message =
                format!("the repository {} takes the whole namespace (target instance)", name_of(instance));
            errors.push(FieldError::forbidden("spec.sync.target", message));
        }
    }
    let moved = old.is_none_or(|old| {
        remote(&old.spec) != remote(&new.spec)
            || old.spec.branch() != new.spec.branch()
            || old.spec.path() != new.spec.path()
    });
    if moved {
        path_conflicts(new, &others, errors);
    }
    let most = usize::try_from(rules.max_repositories).unwrap_or(0);
    if old.is_none() && most > 0 && others.len() >= most {
        errors.push(FieldError::forbidden(
            "metadata.name",
            format!("Maximum number of {most} repositories reached; remove one, or raise max_repositories"),
        ));
    }
}

fn path_conflicts(new: &Repository, others: &[&Repository], errors: &mut Errors) {
    let field = format!("spec.{}.path", new.spec.kind);
    for other in others {
        let what = match overlap(&new.spec, &other.spec) {
            Some(Overlap::Same) => "duplicate repository path",
            Some(Overlap::Nested) => "repository path conflicts with existing repository",
            None => continue,
        };
        let message = format!("{what}: {}", name_of(other));
        errors.push(FieldError::invalid(&field, new.spec.path(), message));
    }
}

fn name_of(repository: &Repository) -> &str {
    repository.metadata.name.as_deref().unwrap_or_default()
}
