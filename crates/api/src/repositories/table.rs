//! What is asked of a repository by both servers: see [`Rule`]. What needs more than the object is in `rules.rs`.

use url::Url;

use super::RESERVED_NAMES;
use crate::{
    paths,
    repository::{Repository, RepositorySpec, RepositoryType},
    repository_options::{CommitOptions, SigningMethod, SyncTarget, Workflow},
    rules::{Check, Rule},
    secure::{InlineSecureValue, secure_rules},
};

/// Every table, in the order in which refusals are listed.
pub(crate) const RULES: &[&[Rule<Repository>]] = &[
    CHANGES,
    SPEC,
    SETTINGS,
    COMMIT,
    OPTIONS,
    &LOCAL,
    &GITHUB,
    &ENTERPRISE,
    &GIT,
    &BITBUCKET,
    &GITLAB,
    SECURE,
];

/// Whether a field is there and not null.
macro_rules! given {
    ($of:literal, $field:literal) => {
        concat!("(has(", $of, ".", $field, ") && ", $of, ".", $field, " != null)")
    };
}

/// A text of a provider's settings, empty when there is none.
macro_rules! setting {
    ($spec:literal, $kind:literal, $field:literal) => {
        concat!(
            "(has(",
            $spec,
            ".",
            $kind,
            ") && ",
            $spec,
            ".",
            $kind,
            " != null && has(",
            $spec,
            ".",
            $kind,
            ".",
            $field,
            ") ? ",
            $spec,
            ".",
            $kind,
            ".",
            $field,
            " : '')"
        )
    };
}

/// Whether a provider's URL is the same before and after.
macro_rules! kept {
    ($kind:literal, $field:literal) => {
        concat!(setting!("self.spec", $kind, $field), " == ", setting!("oldSelf.spec", $kind, $field))
    };
}

/// The reference to a token, empty when there is none or when it is to be removed.
macro_rules! token {
    ($of:literal) => {
        concat!(
            "(has(",
            $of,
            ".secure) && has(",
            $of,
            ".secure.token) && has(",
            $of,
            ".secure.token.name) && !(has(",
            $of,
            ".secure.token.remove) && ",
            $of,
            ".secure.token.remove) ? ",
            $of,
            ".secure.token.name : '')"
        )
    };
}

/// The name of the connection, empty when there is none.
macro_rules! connection {
    ($of:literal) => {
        concat!(
            "(has(",
            $of,
            ".spec.connection) && ",
            $of,
            ".spec.connection != null && has(",
            $of,
            ".spec.connection.name) ? ",
            $of,
            ".spec.connection.name : '')"
        )
    };
}

/// Whether a repository may be written to with what it has.
macro_rules! can_write {
    ($of:literal) => {
        concat!(
            "(",
            $of,
            ".spec.type == 'local' || !has(",
            $of,
            ".spec.workflows) || size(",
            $of,
            ".spec.workflows) == 0 || ",
            token!($of),
            " != '' || ",
            connection!($of),
            " != '')"
        )
    };
}

/// The target, empty when there is none.
macro_rules! target {
    ($of:literal) => {
        concat!(
            "(has(",
            $of,
            ".spec.sync) && has(",
            $of,
            ".spec.sync.target) ? ",
            $of,
            ".spec.sync.target : '')"
        )
    };
}

/// What an update may not change, what only a new repository is asked, and what goes across the object.
const CHANGES: &[Rule<Repository>] = &[
    Rule::invalid(
        ("reserved-name", "", "metadata.name"),
        "this name is reserved",
        "oldSelf.hasValue() || !(self.metadata.name in ['classic', 'sql', 'SQL', 'plugins', 'legacy', 'new', 'job', \
         'github', 's3', 'gcs', 'file', 'create', 'update', 'delete'])",
        Check::Write(|new, old| {
            old.is_none() && new.metadata.name.as_deref().is_some_and(|name| RESERVED_NAMES.contains(&name))
        }),
    ),
    // The stored token belongs to the host that it was given for. Without this, whoever may change the URL could have
    // it sent to a host of their own.
    Rule::forbidden(
        ("token-of-another-url", "", "secure.token"),
        "a new token is required when changing the repository URL",
        concat!(
            token!("self"),
            " == '' || ",
            token!("self"),
            " != ",
            token!("oldSelf"),
            " || (",
            kept!("github", "url"),
            " && ",
            kept!("githubEnterprise", "url"),
            " && ",
            kept!("githubEnterprise", "serverUrl"),
            " && ",
            kept!("git", "url"),
            " && ",
            kept!("bitbucket", "url"),
            " && ",
            kept!("gitlab", "url"),
            ")"
        ),
        Check::Change(|new, old| {
            remote(&new.spec) != remote(&old.spec) && carries_token_over(&new.secure.token, &old.secure.token)
        }),
    ),
    Rule::forbidden(
        ("target-of-managed", "", "spec.sync.target"),
        "the target cannot be changed while the repository manages resources",
        concat!(
            target!("self"),
            " == ",
            target!("oldSelf"),
            " || !has(self.status) || !has(self.status.stats) || size(self.status.stats) == 0"
        ),
        Check::Change(|new, old| {
            old.spec.sync.target != new.spec.sync.target && !new.status.stats.is_empty()
        }),
    ),
    Rule::required(
        ("writing-without-credentials", "", "secure.token"),
        "writing needs a token or a connection",
        concat!(can_write!("self"), " || (oldSelf.hasValue() && !", can_write!("oldSelf.value()"), ")"),
        Check::Write(|new, old| cannot_write(new) && !old.is_some_and(cannot_write)),
    ),
    Rule::forbidden(
        ("credentials-twice", "", "secure.token"),
        "the credentials come from the connection: give a token or spec.connection, not both",
        concat!("oldSelf.hasValue() || ", token!("self"), " == '' || ", connection!("self"), " == ''"),
        Check::Write(|new, old| {
            old.is_none() && new.secure.token.is_set() && !new.spec.connection_name().is_empty()
        }),
    ),
];

const SPEC: &[Rule<Repository>] = &[
    Rule::forbidden(
        ("type-changed", "spec", "type"),
        "the type of a repository cannot be changed",
        "self.type == oldSelf.type",
        Check::Change(|new, old| new.spec.kind != old.spec.kind),
    ),
    Rule::required(
        ("title", "spec", "title"),
        "a repository needs a title",
        "has(self.title) && self.title.trim() != ''",
        Check::Object(|new| new.spec.title.trim().is_empty()),
    ),
    Rule::required(
        ("target", "spec", "sync.target"),
        "say where the files end up when sync is enabled",
        "!has(self.sync) || !has(self.sync.enabled) || !self.sync.enabled || has(self.sync.target)",
        Check::Object(|new| new.spec.sync.enabled && new.spec.sync.target.is_none()),
    ),
    Rule::invalid(
        ("branches-of-a-folder", "spec", "workflows"),
        "branches need a Git repository",
        "self.type != 'local' || !has(self.workflows) || !('branch' in self.workflows)",
        Check::Object(|new| local(new) && new.spec.workflows.contains(&Workflow::Branch)),
    ),
    Rule::forbidden(
        ("branch-of-a-folder", "spec", "branch"),
        "a repository of type local has none",
        concat!("self.type != 'local' || !", given!("self", "branch")),
        Check::Object(|new| local(new) && new.spec.branch.is_some()),
    ),
    Rule::forbidden(
        ("commit-of-a-folder", "spec", "commit"),
        "a repository of type local has none",
        concat!("self.type != 'local' || !", given!("self", "commit")),
        Check::Object(|new| local(new) && new.spec.commit.is_some()),
    ),
    Rule::forbidden(
        ("pull-request-without-provider", "spec", "pullRequest"),
        "a repository of type local or git has none",
        concat!("!(self.type in ['local', 'git']) || !", given!("self", "pullRequest")),
        Check::Object(|new| {
            matches!(new.spec.kind, RepositoryType::Local | RepositoryType::Git)
                && new.spec.pull_request.is_some()
        }),
    ),
];

/// The settings of the type are there, and no others.
macro_rules! settings {
    ($($kind:literal $variant:ident $member:ident $missing:literal $foreign:literal),* $(,)?) => {
        const SETTINGS: &[Rule<Repository>] = &[$(
            Rule::required(
                ($missing, "spec", $kind),
                concat!("a repository of type ", $kind, " needs these settings"),
                concat!("self.type != '", $kind, "' || ", given!("self", $kind)),
                Check::Object(|new| new.spec.kind == RepositoryType::$variant && new.spec.$member.is_none()),
            ),
            Rule::invalid(
                ($foreign, "spec", $kind),
                concat!("these settings belong to the type ", $kind, ": set spec.type to it, or leave them out"),
                concat!("self.type == '", $kind, "' || !", given!("self", $kind)),
                Check::Object(|new| new.spec.kind != RepositoryType::$variant && new.spec.$member.is_some()),
            ),
        )*];
    };
}

settings! {
    "local" Local local "local-missing" "local-foreign",
    "github" Github github "github-missing" "github-foreign",
    "githubEnterprise" GithubEnterprise github_enterprise "enterprise-missing" "enterprise-foreign",
    "git" Git git "git-missing" "git-foreign",
    "bitbucket" Bitbucket bitbucket "bitbucket-missing" "bitbucket-foreign",
    "gitlab" Gitlab gitlab "gitlab-missing" "gitlab-foreign",
}

/// A signer without a method, and an author beside one.
macro_rules! signing {
    ($name:literal, $field:literal, without, $given:literal, $broken:expr) => {
        Rule::forbidden(
            ($name, "spec.commit", $field),
            "a signer needs spec.commit.signingMethod",
            concat!("has(self.signingMethod) || !has(self.", $field, ") || self.", $field, " == ", $given),
            Check::Object(|new| {
                let broken: fn(&CommitOptions) -> bool = $broken;
                new.spec
                    .commit
                    .as_ref()
                    .is_some_and(|commit| commit.signing_method.is_none() && broken(commit))
            }),
        )
    };
    ($name:literal, $field:literal, with, $broken:expr) => {
        Rule::forbidden(
            ($name, "spec.commit", $field),
            "signed commits have the signer's name; see signerIsAuthor",
            concat!("!has(self.signingMethod) || !has(self.", $field, ") || self.", $field, " == ''"),
            Check::Object(|new| {
                let broken: fn(&CommitOptions) -> bool = $broken;
                new.spec
                    .commit
                    .as_ref()
                    .is_some_and(|commit| commit.signing_method.is_some() && broken(commit))
            }),
        )
    };
}

const COMMIT: &[Rule<Repository>] = &[
    signing!("signer-name", "signerName", without, "''", |commit| !commit.signer_name.is_empty()),
    signing!("signer-email", "signerEmail", without, "''", |commit| !commit.signer_email.is_empty()),
    signing!("signer-is-author", "signerIsAuthor", without, "false", |commit| commit.signer_is_author),
    signing!("certificate-unused", "smimeCertificate", without, "''", |commit| {
        !commit.smime_certificate.is_empty()
    }),
    signing!("author-name", "authorName", with, |commit| !commit.author_name.is_empty()),
    signing!("author-email", "authorEmail", with, |commit| !commit.author_email.is_empty()),
    Rule::required(
        ("certificate-missing", "spec.commit", "smimeCertificate"),
        "signing with S/MIME needs a certificate",
        "!has(self.signingMethod) || self.signingMethod != 'smime' || \
         (has(self.smimeCertificate) && self.smimeCertificate != '')",
        Check::Object(|new| {
            new.spec.commit.as_ref().is_some_and(|commit| {
                commit.signing_method == Some(SigningMethod::Smime) && commit.smime_certificate.is_empty()
            })
        }),
    ),
];

const OPTIONS: &[Rule<Repository>] = &[
    Rule::invalid(
        ("webhook-url", "spec.webhook", "baseUrl"),
        "expected an http or https URL without user, password, query and fragment, for example \
         https://windlass.example.com",
        "!has(self.baseUrl) || self.baseUrl == '' || \
         self.baseUrl.matches('^[hH][tT][tT][pP][sS]?://[^/?#@[:space:]]+(/[^?#@[:space:]]*)?$')",
        Check::Object(|new| {
            let base = new.spec.webhook.as_ref().map_or("", |webhook| webhook.base_url.as_str());
            !base.is_empty() && http_url(base).is_none_or(|rest| rest.contains('@'))
        }),
    ),
    Rule::required(
        ("connection-name", "spec.connection", "name"),
        "say which connection is meant",
        "has(self.name) && self.name != ''",
        Check::Object(|new| new.spec.connection.is_some() && new.spec.connection_name().is_empty()),
    ),
];

const LOCAL: [Rule<Repository>; 1] = [Rule::required(
    ("local-path", "spec.local", "path"),
    "say which folder is meant",
    "has(self.path) && self.path != ''",
    Check::Object(|new| new.spec.local.as_ref().is_some_and(|local| local.path.is_empty())),
)];

/// What the settings of a remote repository have to be.
macro_rules! remote {
    ($table:ident $at:literal $member:ident $url:literal $user:literal $form:literal $branch:literal $path:literal) => {
        const $table: [Rule<Repository>; 5] = [
            Rule::required(
                ($url, $at, "url"),
                "say where the repository is",
                "has(self.url) && self.url != ''",
                Check::Object(|new| new.spec.$member.as_ref().is_some_and(|settings| settings.url.is_empty())),
            ),
            Rule::forbidden(
                ($user, $at, "url"),
                "the URL has a user or password in it: put the token into secure.token",
                "!has(self.url) || !self.url.matches('^[^/?#]*//[^/?#]*@')",
                Check::Object(|new| new.spec.$member.as_ref().is_some_and(|settings| has_user(&settings.url))),
            ),
            Rule::invalid(
                ($form, $at, "url"),
                "expected an http or https URL with a host and a path, without query and fragment, for example \
                 https://example.com/team/repository",
                "!has(self.url) || self.url == '' || self.url.matches('^[^/?#]*//[^/?#]*@') || \
                 self.url.matches('^[hH][tT][tT][pP][sS]?://[^/?#[:space:]]+/+[^/?#[:space:]][^?#[:space:]]*$')",
                Check::Object(|new| {
                    new.spec.$member.as_ref().is_some_and(|settings| {
                        let url = settings.url.as_str();
                        !url.is_empty() && !has_user(url) && !names_a_repository(url)
                    })
                }),
            ),
            Rule::invalid(
                ($branch, $at, "branch"),
                paths::BRANCH_MESSAGE,
                concat!("!has(self.branch) || self.branch == '' || ", crate::paths::branch_cel!("self.branch")),
                Check::Object(|new| {
                    new.spec.$member.as_ref().is_some_and(|settings| {
                        !settings.branch.is_empty() && paths::branch_name(&settings.branch).is_err()
                    })
                }),
            ),
            Rule::invalid(
                ($path, $at, "path"),
                paths::FOLDER_MESSAGE,
                concat!("!has(self.path) || ", crate::paths::folder_cel!("self.path")),
                Check::Object(|new| {
                    let path = new.spec.$member.as_ref().map_or("", |settings| &settings.path);
                    paths::folder_path(path).is_err()
                }),
            ),
        ];
    };
}

remote!(GITHUB "spec.github" github
    "github-url" "github-user" "github-form" "github-branch" "github-path");
remote!(ENTERPRISE "spec.githubEnterprise" github_enterprise
    "enterprise-url" "enterprise-user" "enterprise-form" "enterprise-branch" "enterprise-path");
remote!(GIT "spec.git" git
    "git-url" "git-user" "git-form" "git-branch" "git-path");
remote!(BITBUCKET "spec.bitbucket" bitbucket
    "bitbucket-url" "bitbucket-user" "bitbucket-form" "bitbucket-branch" "bitbucket-path");
remote!(GITLAB "spec.gitlab" gitlab
    "gitlab-url" "gitlab-user" "gitlab-form" "gitlab-branch" "gitlab-path");

const SECURE: &[Rule<Repository>] = &secure_rules!(
    "token" "raw-token" "token-twice" "token-name" token,
    "webhookSecret" "raw-webhook-secret" "webhook-secret-twice" "webhook-secret-name" webhook_secret,
    "commitSigningKey" "raw-signing-key" "signing-key-twice" "signing-key-name" commit_signing_key,
);

/// What identifies the remote that a token was given for.
pub(super) fn remote(spec: &RepositorySpec) -> (Option<&str>, Option<&str>) {
    (spec.url(), spec.github_enterprise.as_ref().map(|enterprise| enterprise.server_url.as_str()))
}

fn carries_token_over(new: &InlineSecureValue, old: &InlineSecureValue) -> bool {
    new.is_set() && new.create.is_none() && new.name == old.name
}

fn local(repository: &Repository) -> bool {
    repository.spec.kind == RepositoryType::Local
}

fn cannot_write(repository: &Repository) -> bool {
    !local(repository)
        && !repository.spec.workflows.is_empty()
        && !repository.secure.token.is_set()
        && repository.spec.connection_name().is_empty()
}

/// Whether there is an `@` before the first slash, question mark or hash behind `//`.
fn has_user(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("//") else { return false };
    !scheme.contains(['/', '?', '#']) && authority(rest).contains('@')
}

fn authority(rest: &str) -> &str {
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}

/// What follows the scheme of an http or https URL that has a host and neither query, fragment nor spaces.
fn http_url(url: &str) -> Option<&str> {
    let (scheme, rest) = url.split_once("://")?;
    let http = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    let space = |c: char| matches!(c, '\t' | '\n' | '\x0b' | '\x0c' | '\r' | ' ');
    (http && !authority(rest).is_empty() && !rest.contains(['?', '#']) && !rest.contains(space))
        .then_some(rest)
}

/// Whether a URL has a path, as one of a repository does.
fn names_a_repository(url: &str) -> bool {
    http_url(url).is_some_and(|rest| {
        rest.split_once('/').is_some_and(|(_host, path)| !path.trim_start_matches('/').is_empty())
    })
}

/// What only a parser of URLs sees, once the rules are kept.
pub(super) fn parses(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| url.host_str().is_some_and(|host| !host.is_empty()))
}

/// The target of a repository, for neighbours.
pub(super) fn is_instance(repository: &Repository) -> bool {
    repository.spec.sync.target == Some(SyncTarget::Instance)
}
