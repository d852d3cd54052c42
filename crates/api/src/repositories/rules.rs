//! What is refused, stage by stage.

use url::Url;

use super::{MAX_NAME_LENGTH, Overlap, RESERVED_NAMES, RepositoryRules, is_pending_delete, overlap};
use crate::{
    consts::finalizers,
    field_error::FieldError,
    paths,
    repository::{Repository, RepositorySpec, RepositoryType},
    repository_options::{CommitOptions, SigningMethod, SyncTarget, Workflow},
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

/// What an update may not change, and what only a new repository is asked.
pub(super) fn change(
    new: &Repository,
    old: Option<&Repository>,
    rules: &RepositoryRules,
    errors: &mut Errors,
) {
    let Some(old) = old else {
        if let Some(target) = new.spec.sync.target
            && new.spec.sync.enabled
            && !rules.targets.contains(&target)
        {
            let known: Vec<&str> = rules.targets.iter().map(|target| target.as_str()).collect();
            errors.push(FieldError::not_supported("spec.sync.target", target.as_str(), &known));
        }
        return;
    };
    // The stored token belongs to the host that it was given for. Without this, whoever may change the URL
    // could have it sent to a host of their own.
    if remote(&old.spec) != remote(&new.spec) && carries_token_over(&new.secure.token, &old.secure.token) {
        errors.push(FieldError::forbidden(
            "secure.token",
            "a new token is required when changing the repository URL",
        ));
        return;
    }
    if old.spec.kind != new.spec.kind {
        errors.push(FieldError::forbidden("spec.type", "the type of a repository cannot be changed"));
    }
    if old.spec.sync.target != new.spec.sync.target && !new.status.stats.is_empty() {
        errors.push(FieldError::forbidden(
            "spec.sync.target",
            "the target cannot be changed while the repository manages resources",
        ));
    }
}

fn remote(spec: &RepositorySpec) -> (Option<&str>, Option<&str>) {
    (spec.url(), spec.github_enterprise.as_ref().map(|enterprise| enterprise.server_url.as_str()))
}

fn carries_token_over(new: &InlineSecureValue, old: &InlineSecureValue) -> bool {
    new.is_set() && new.create.is_none() && new.name == old.name
}

/// What can be seen from the object alone, whatever the provider.
pub(super) fn structure(new: &Repository, rules: &RepositoryRules, errors: &mut Errors) {
    let spec = &new.spec;
    name(new.metadata.name.as_deref().unwrap_or_default(), errors);
    if spec.title.trim().is_empty() {
        errors.push(FieldError::required("spec.title", "a repository needs a title"));
    }
    if spec.sync.enabled && spec.sync.target.is_none() {
        errors.push(FieldError::required(
            "spec.sync.target",
            "say where the files end up when sync is enabled",
        ));
    }
    if !rules.types.contains(&spec.kind) {
        let known: Vec<&str> = rules.types.iter().map(|kind| kind.as_str()).collect();
        errors.push(FieldError::not_supported("spec.type", spec.kind.as_str(), &known));
    }
    settings(spec, errors);
    if spec.kind == RepositoryType::Local && spec.workflows.contains(&Workflow::Branch) {
        errors.push(FieldError::invalid("spec.workflows", "branch", "branches need a Git repository"));
    }
    options(spec, errors);
    if let Some(commit) = &spec.commit {
        signing(commit, errors);
    }
    finalizers(new.metadata.finalizers.as_deref().unwrap_or_default(), errors);
    previews(spec, rules, errors);
    if let Some(webhook) = &spec.webhook
        && !webhook.base_url.is_empty()
    {
        http_url("spec.webhook.baseUrl", &webhook.base_url, errors);
    }
    secrets(new, errors);
}

fn name(name: &str, errors: &mut Errors) {
    if RESERVED_NAMES.contains(&name) {
        errors.push(FieldError::invalid("metadata.name", name, "this name is reserved"));
    }
    if name.len() > MAX_NAME_LENGTH {
        let message = format!(
            "must be no more than {MAX_NAME_LENGTH} characters: it is a label of the repository's jobs"
        );
        errors.push(FieldError::invalid("metadata.name", name, message));
    }
}

/// The settings of the type are there, and no others.
fn settings(spec: &RepositorySpec, errors: &mut Errors) {
    let present = [
        (RepositoryType::Local, spec.local.is_some()),
        (RepositoryType::Github, spec.github.is_some()),
        (RepositoryType::GithubEnterprise, spec.github_enterprise.is_some()),
        (RepositoryType::Git, spec.git.is_some()),
        (RepositoryType::Bitbucket, spec.bitbucket.is_some()),
        (RepositoryType::Gitlab, spec.gitlab.is_some()),
    ];
    for (kind, present) in present {
        let field = format!("spec.{kind}");
        if kind == spec.kind && !present {
            errors.push(FieldError::required(
                &field,
                format!("a repository of type {kind} needs these settings"),
            ));
        } else if kind != spec.kind && present {
            let message = format!("these settings belong to the type {kind}, and the type is {}", spec.kind);
            errors.push(FieldError::invalid(&field, kind.as_str(), message));
        }
    }
}

/// Options that a type has no use for.
fn options(spec: &RepositorySpec, errors: &mut Errors) {
    let local = spec.kind == RepositoryType::Local;
    let bare = local || spec.kind == RepositoryType::Git;
    for (field, present) in [
        ("spec.branch", local && spec.branch.is_some()),
        ("spec.commit", local && spec.commit.is_some()),
        ("spec.pullRequest", bare && spec.pull_request.is_some()),
    ] {
        if present {
            errors.push(FieldError::forbidden(field, format!("a repository of type {} has none", spec.kind)));
        }
    }
}

fn signing(commit: &CommitOptions, errors: &mut Errors) {
    if commit.signing_method.is_none() {
        for (field, present) in [
            ("spec.commit.signerName", !commit.signer_name.is_empty()),
            ("spec.commit.signerEmail", !commit.signer_email.is_empty()),
            ("spec.commit.signerIsAuthor", commit.signer_is_author),
            ("spec.commit.smimeCertificate", !commit.smime_certificate.is_empty()),
        ] {
            if present {
                errors.push(FieldError::forbidden(field, "a signer needs spec.commit.signingMethod"));
            }
        }
        return;
    }
    for (field, present) in [
        ("spec.commit.authorName", !commit.author_name.is_empty()),
        ("spec.commit.authorEmail", !commit.author_email.is_empty()),
    ] {
        if present {
            errors.push(FieldError::forbidden(
                field,
                "signed commits have the signer's name; see signerIsAuthor",
            ));
        }
    }
    if commit.signing_method == Some(SigningMethod::Smime) && commit.smime_certificate.is_empty() {
        errors.push(FieldError::required(
            "spec.commit.smimeCertificate",
            "signing with S/MIME needs a certificate",
        ));
    }
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
            errors.push(FieldError::invalid(field, true, "this server cannot make pictures"));
        }
    }
}

fn secrets(new: &Repository, errors: &mut Errors) {
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
        let asked = [value.create.is_some(), !value.name.is_empty(), value.remove];
        if asked.into_iter().filter(|asked| *asked).count() > 1 {
            errors.push(FieldError::forbidden(field, "only one of create, name and remove can be given"));
        }
    }
}

/// What the provider's settings have to be.
pub(super) fn provider(new: &Repository, old: Option<&Repository>, errors: &mut Errors) {
    let spec = &new.spec;
    let kind = spec.kind;
    if kind == RepositoryType::Local {
        if spec.path().is_empty() {
            errors.push(FieldError::required("spec.local.path", "say which folder is meant"));
        }
        return;
    }
    remote_url(&format!("spec.{kind}.url"), spec.url().unwrap_or_default(), errors);
    if !spec.branch().is_empty()
        && let Err(why) = paths::branch_name(spec.branch())
    {
        errors.push(FieldError::invalid(&format!("spec.{kind}.branch"), spec.branch(), why));
    }
    path(&format!("spec.{kind}.path"), spec.path(), errors);
    let token = new.secure.token.is_set();
    let connection = !spec.connection_name().is_empty();
    if !spec.workflows.is_empty() && !token && !connection {
        errors.push(FieldError::required("secure.token", "writing needs a token or a connection"));
    }
    if old.is_none() && token && connection {
        errors.push(FieldError::forbidden(
            "secure.token",
            "the credentials come from the connection: give a token or spec.connection, not both",
        ));
    }
    if spec.connection.is_some() && !connection {
        errors.push(FieldError::required("spec.connection.name", "say which connection is meant"));
    }
}

fn path(field: &str, path: &str, errors: &mut Errors) {
    if path.starts_with('/') {
        errors.push(FieldError::invalid(
            field,
            path,
            "the path is relative to the repository: no leading slash",
        ));
    } else if let Err(why) = paths::safe_path(path) {
        errors.push(FieldError::invalid(field, path, why));
    }
}

/// A remote's URL: http or https, a host, a path, and no secrets.
fn remote_url(field: &str, text: &str, errors: &mut Errors) {
    if text.is_empty() {
        errors.push(FieldError::required(field, "say where the repository is"));
        return;
    }
    let Some(url) = http_url(field, text, errors) else { return };
    if url.path().trim_matches('/').is_empty() {
        errors.push(FieldError::invalid(
            field,
            text,
            "the URL has no path: it names a server, not a repository",
        ));
    }
    if url.query().is_some() || url.fragment().is_some() {
        errors.push(FieldError::invalid(field, text, "the URL has a query or fragment"));
    }
}

fn http_url(field: &str, text: &str, errors: &mut Errors) -> Option<Url> {
    let Ok(url) = Url::parse(text) else {
        // The text may hold a secret in a place that no parser has told apart: it is not repeated.
        errors.push(FieldError {
            bad_value: None,
            ..FieldError::invalid(
                field,
                "",
                "this is no URL; expected for example https://example.com/repository",
            )
        });
        return None;
    };
    if !url.username().is_empty() || url.password().is_some() {
        errors.push(FieldError::forbidden(
            field,
            "the URL has a user or password in it: put the token into secure.token",
        ));
        return None;
    }
    if !matches!(url.scheme(), "http" | "https") {
        errors.push(FieldError::invalid(field, text, "the URL has to begin with https:// or http://"));
        return None;
    }
    if url.host_str().is_none_or(str::is_empty) {
        errors.push(FieldError::invalid(field, text, "the URL has no host"));
        return None;
    }
    Some(url)
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
    let is_instance = |repository: &Repository| repository.spec.sync.target == Some(SyncTarget::Instance);
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
            format!("Maximum number of {most} repositories reached"),
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
