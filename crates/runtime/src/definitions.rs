//! Whether the server's definitions know every field that this program reads and writes.
//!
//! A server drops fields that its definition of a kind does not have, without a word: after an update of the program
//! alone, what it writes there is lost. That a kind or a version is missing is found by its [`Watch`](crate::Watch);
//! this finds what is missing inside. It reads the schemas that servers publish (`/openapi/v3`), which every caller may,
//! in whichever namespace it works.

mod lacking;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use windlass_telemetry::{ComponentHandle, ErrorChain, Health};

use self::lacking::lacking;
use crate::log_on_change::LogOnChange;
use crate::{Backoff, BackoffPolicy, CallError, deadline};

/// How long the document of one group may take to come.
const CALL: Duration = Duration::from_secs(30);
/// How often definitions that are complete are looked at again: somebody may apply older ones.
const AGAIN: Duration = Duration::from_mins(10);
/// At most this many fields of a definition are named.
const NAMED: usize = 8;

/// The definitions that a program was built with.
pub struct Definitions {
    client: Client,
    /// By the path of their group and version.
    kinds: BTreeMap<String, Vec<Kind>>,
}

/// A kind in one version.
struct Kind {
    /// Name of the definition.
    definition: String,
    name: String,
    schema: Value,
}

/// What there is to say of all definitions.
enum Found {
    Complete,
    /// Some are not there, or not yet.
    Absent,
    Lacking(String),
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Document {
    components: Components,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Components {
    schemas: BTreeMap<String, Value>,
}

impl Definitions {
    /// These definitions, in every version that they serve, on the server of `client`.
    pub fn new(client: Client, definitions: &[CustomResourceDefinition]) -> Self {
        let mut kinds: BTreeMap<String, Vec<Kind>> = BTreeMap::new();
        for definition in definitions {
            let spec = &definition.spec;
            for version in spec.versions.iter().filter(|version| version.served) {
                let schema =
                    version.schema.as_ref().and_then(|validation| validation.open_api_v3_schema.as_ref());
                let kind = Kind {
                    definition: format!("{}.{}", spec.names.plural, spec.group),
                    name: spec.names.kind.clone(),
                    schema: serde_json::to_value(schema).unwrap_or_default(),
                };
                kinds
                    .entry(format!("/openapi/v3/apis/{}/{}", spec.group, version.name))
                    .or_default()
                    .push(kind);
            }
        }
        Self { client, kinds }
    }

    /// Looks until `shutdown`. While a field is missing the process is not ready, which is logged once; while
    /// it is not known, it is no reason not to be.
    pub async fn run(self, health: Health, shutdown: CancellationToken) {
        let component = health.component("definitions");
        component.ready();
        shutdown.run_until_cancelled(self.follow(&component)).await;
    }

    async fn follow(&self, component: &ComponentHandle) {
        let mut backoff = Backoff::new(BackoffPolicy::CONNECTION);
        let mut logged = LogOnChange::default();
        loop {
            match self.look().await {
                Ok(Found::Complete) => {
                    component.ready();
                    if logged.clear() {
                        tracing::info!("the definitions on the server know every field");
                    }
                    backoff.reset();
                    tokio::time::sleep(AGAIN).await;
                    continue;
                }
                Ok(Found::Lacking(text)) => {
                    component.not_ready(text.clone());
                    if logged.is_new(&text) {
                        tracing::warn!(error = text, "definitions are of another version");
                    }
                }
                // Whoever watches the kind says so.
                Ok(Found::Absent) => {}
                Err(error) => {
                    tracing::debug!(error = %ErrorChain(&error), "the schemas on the server are not known");
                }
            }
            tokio::time::sleep(backoff.delay()).await;
        }
    }

    async fn look(&self) -> Result<Found, CallError> {
        let (mut problems, mut is_absent) = (Vec::new(), false);
        for (path, kinds) in &self.kinds {
            let document = match self.read(path).await {
                Ok(document) => document,
                Err(error) if error.is_not_found() => {
                    is_absent = true;
                    continue;
                }
                Err(error) => return Err(error),
            };
            for kind in kinds {
                match document.components.schemas.values().find(|schema| is_of(schema, path, &kind.name)) {
                    Some(schema) => problems.extend(kind.problem(schema)),
                    None => is_absent = true,
                }
            }
        }
        Ok(match (problems.is_empty(), is_absent) {
            (false, _) => Found::Lacking(format!("{}: {}", problems.join("; "), crate::watch::APPLY)),
            (true, true) => Found::Absent,
            (true, false) => Found::Complete,
        })
    }

    async fn read(&self, path: &str) -> Result<Document, CallError> {
        let what = format!("read the schemas at {path}");
        let request = http::Request::get(path).body(Vec::new());
        let request = request.map_err(|error| CallError::new(&*what, kube::Error::HttpError(error)))?;
        deadline(CALL, what, self.client.request(request)).await
    }
}

impl Kind {
    fn problem(&self, theirs: &Value) -> Option<String> {
        let fields = lacking(&self.schema, theirs);
        if fields.is_empty() {
            return None;
        }
        let more = fields.len().saturating_sub(NAMED);
        let named = fields[..fields.len() - more].join(", ");
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        Some(format!(
            "the definition {} on the server drops fields that this program needs ({named}{more})",
            self.definition
        ))
    }
}

/// Whether a schema is that of a kind in the group and version of a path.
fn is_of(schema: &Value, path: &str, kind: &str) -> bool {
    let kinds = schema["x-kubernetes-group-version-kind"].as_array();
    kinds.into_iter().flatten().any(|one| {
        let text = |field: &str| one[field].as_str().unwrap_or_default();
        text("kind") == kind && path.ends_with(&format!("/{}/{}", text("group"), text("version")))
    })
}
