//! Why a kind is not served, and what to do about it.

use serde::Deserialize;

use super::connection::Connection;
use crate::{CallError, deadline};

/// What to do about definitions of another version.
pub(crate) const APPLY: &str = "apply the definitions of this release (kubectl apply -f deploy/crds)";

#[derive(Deserialize, Default)]
#[serde(default)]
struct Group {
    versions: Vec<GroupVersion>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct GroupVersion {
    version: String,
}

/// Completes "failed to list jobs: …", for a collection that was not found.
pub(super) async fn why_not(connection: &Connection) -> String {
    // `/apis/GROUP/VERSION/…`; the core group is always served.
    let mut parts = connection.url.split('/').skip(1);
    let (Some("apis"), Some(group), Some(version)) = (parts.next(), parts.next(), parts.next()) else {
        return "the server does not serve it".to_owned();
    };
    let remedy = connection.config.remedy;
    let plural = connection.url.rsplit('/').next().unwrap_or_default();
    match versions(connection, group).await {
        Ok(versions) if versions.iter().any(|served| served == version) => {
            format!("the definition {plural}.{group} is missing on the server: {remedy}")
        }
        Ok(versions) => format!(
            "the server has {group} in version {}, and this program needs {version}: {remedy}",
            versions.join(", ")
        ),
        Err(error) if error.is_not_found() => {
            format!(
                "the definition {plural}.{group} is missing on the server, as is the whole group: {remedy}"
            )
        }
        Err(_unknown) => format!("the definition {plural}.{group} may be missing on the server: {remedy}"),
    }
}

async fn versions(connection: &Connection, group: &str) -> Result<Vec<String>, CallError> {
    let what = format!("read which versions of {group} are served");
    let request = http::Request::get(format!("/apis/{group}")).body(Vec::new());
    let request = request.map_err(|error| CallError::new(&*what, kube::Error::HttpError(error)))?;
    let answer = connection.client.request::<Group>(request);
    let group = deadline(connection.config.call_deadline, what, answer).await?;
    Ok(group.versions.into_iter().map(|version| version.version).collect())
}
