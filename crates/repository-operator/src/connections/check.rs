//! Whether the App of a connection can be used, and what exactly is wrong where it cannot.

use windlass_api::conditions::reasons;
use windlass_api::{Connection, ErrorDetails};
use windlass_github::{Access, AppInfo, Apps, ErrorKind, GithubError, InstallationInfo, Permissions};
use windlass_repository::ConnectionOpenError;
use windlass_telemetry::ErrorChain;

use crate::unhealthy::Failure;

impl Failure {
    pub(crate) fn of_open(error: &ConnectionOpenError, connection: &Connection) -> Self {
        let own = format!("spec.{}.", connection.spec.kind.as_str());
        let field = error.field().replacen("spec.github.", &own, 1);
        Self::new(error.reason(), field, ErrorChain(error).to_string())
    }
}

/// What repositories need that are written to, by GitHub's names. Those that are only read need less.
pub(crate) fn needed() -> Permissions {
    Permissions::new([
        ("contents", Access::Write),
        ("metadata", Access::Read),
        ("pull_requests", Access::Write),
        ("repository_hooks", Access::Write),
    ])
}

/// Asks GitHub about the App and its installation.
pub(super) async fn check(apps: &Apps<'_>, connection: &Connection) -> Result<(), Failure> {
    let app = apps.app().await.map_err(|error| explain(&error, connection, Asked::App))?;
    is_named(&app, connection)?;
    let installation = apps.installation().await;
    let installation = installation.map_err(|error| explain(&error, connection, Asked::Installation))?;
    is_usable(&installation, connection)
}

/// What GitHub was asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    App,
    Installation,
    /// A token for a repository.
    Token,
}

/// An App's own ID is a number; a client ID is not compared.
fn is_named(app: &AppInfo, connection: &Connection) -> Result<(), Failure> {
    let (id, _) = ids(connection);
    if id.parse::<u64>().is_ok_and(|id| id != app.id) {
        let detail =
            format!("the key is that of App {} ({}), not of App {id}; correct one of them", app.id, app.name);
        return Err(Failure::new(reasons::INVALID_SPEC, field(connection, "appID"), detail));
    }
    Ok(())
}

fn is_usable(found: &InstallationInfo, connection: &Connection) -> Result<(), Failure> {
    let (app, installation) = ids(connection);
    if found.suspended {
        let detail = format!(
            "installation {installation} of App {app} is suspended; have its owner unsuspend it, in the settings of \
             their account under Applications"
        );
        return Err(Failure::new(
            reasons::AUTHENTICATION_FAILED,
            field(connection, "installationID"),
            detail,
        ));
    }
    let missing = needed().missing_from(&found.permissions);
    let errors: Vec<ErrorDetails> = missing
        .iter()
        .map(|(name, access)| ErrorDetails {
            kind: "FieldValueForbidden".to_owned(),
            field: field(connection, "installationID"),
            detail: format!(
                "installation {installation} of App {app} lacks the permission {name}: {}; grant it in the App's \
                 settings, and have the account's owner accept it",
                if access == Access::Read { "read" } else { "write" }
            ),
            ..ErrorDetails::default()
        })
        .collect();
    if errors.is_empty() { Ok(()) } else { Err(Failure { reason: reasons::PERMISSION_DENIED, errors }) }
}

/// Which of key, App and installation it is that GitHub refuses.
pub(crate) fn explain(error: &GithubError, connection: &Connection, asked: Asked) -> Failure {
    let (app, installation) = ids(connection);
    let refused = |name: &str, detail: String| {
        Failure::new(reasons::AUTHENTICATION_FAILED, field(connection, name), detail)
    };
    match error.kind() {
        ErrorKind::RateLimited { .. } => {
            Failure::new(reasons::RATE_LIMITED, field(connection, "appID"), error.to_string())
        }
        ErrorKind::Unauthorized { detail, .. } if detail.contains("could not be decoded") => Failure::new(
            reasons::AUTHENTICATION_FAILED,
            "secure.privateKey",
            format!("the private key is none of App {app}'s; make one in the App's settings and store it"),
        ),
        ErrorKind::Sign(_) => {
            Failure::new(reasons::AUTHENTICATION_FAILED, "secure.privateKey", error.to_string())
        }
        ErrorKind::Unauthorized { detail, .. } => refused(
            "appID",
            format!(
                "there is no App {app} any more, or it is refused ({detail}); correct the ID, or make another App"
            ),
        ),
        ErrorKind::NotFound { .. } if asked == Asked::App => {
            refused("appID", format!("there is no App {app} any more; correct the ID, or make another App"))
        }
        ErrorKind::NotFound { .. } => refused(
            "installationID",
            format!(
                "App {app} is not installed as {installation} any more; install it again, and correct the ID, which is \
                 at the end of the installation's URL"
            ),
        ),
        ErrorKind::Forbidden { detail, .. } => refused(
            "installationID",
            format!("installation {installation} of App {app} is refused ({detail}); is it suspended?"),
        ),
        _ if error.is_transient() => {
            Failure::new(reasons::SERVICE_UNAVAILABLE, field(connection, "appID"), error.to_string())
        }
        _ => Failure::new(reasons::INVALID_SPEC, field(connection, "appID"), error.to_string()),
    }
}

/// The App's ID and the installation's, as the specification has them.
pub(crate) fn ids(connection: &Connection) -> (&str, &str) {
    let spec = &connection.spec;
    match (&spec.github, &spec.github_enterprise) {
        (Some(github), _) => (&github.app_id, &github.installation_id),
        (None, Some(enterprise)) => (&enterprise.app_id, &enterprise.installation_id),
        (None, None) => ("", ""),
    }
}

fn field(connection: &Connection, name: &str) -> String {
    format!("spec.{}.{name}", connection.spec.kind.as_str())
}
