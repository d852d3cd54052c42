//! The settings of a process.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use crate::{
    error::SettingError,
    keys::{COMMIT_TRACKER, JOBS, keys},
    layers::{self, Reader},
    print, relations,
    sections::{
        AuthSettings, CommitTrackerSettings, OperatorSettings, ProvisioningSettings, Sections, SourceSettings,
    },
    values::{Layer, Merged},
};

/// Names a kubeconfig, as for `kubectl`.
const KUBECONFIG: &str = "KUBECONFIG";
/// Is set in every pod, and says that a service account reaches the API server.
const SERVICE_HOST: &str = "KUBERNETES_SERVICE_HOST";

/// Where settings come from.
#[derive(Clone, Debug, Default)]
pub struct Sources<E = BTreeMap<String, String>> {
    /// The ini file, if there is one.
    pub config: Option<PathBuf>,
    /// The environment.
    pub env: E,
    /// Section, key and value of each flag; of two for one key the last counts.
    pub flags: Vec<(String, String, String)>,
    /// The operator that is started, where one is named: some have variables of their own.
    pub operator: Option<String>,
}

/// The settings of a process: checked, typed, and with where each came from.
#[derive(Clone)]
pub struct Settings {
    values: Merged,
    sections: Sections,
    in_cluster: bool,
    notices: Vec<String>,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("sections", &self.sections).finish_non_exhaustive()
    }
}

impl Settings {
    /// Reads and checks everything. A value is taken from the first of flag, variable `GF_<SECTION>_<KEY>`, file and default.
    ///
    /// # Errors
    ///
    /// Everything that is wrong at once, in the order in which it was found. A value that is merely missing
    /// is no error here; see [`Settings::require_for`].
    pub fn load<E>(sources: Sources<E>) -> Result<Self, Vec<SettingError>>
    where
        E: IntoIterator<Item = (String, String)>,
    {
        let env: BTreeMap<String, String> = sources.env.into_iter().collect();
        let tracker = sources.operator.as_deref() == Some(COMMIT_TRACKER);
        let runs_jobs = sources.operator.as_deref().is_some_and(|name| JOBS.contains(&name));
        let mut reader = Reader::new(&env, tracker);
        let file = sources.config.map(|path| reader.file(&path)).unwrap_or_default();
        let layers = [layers::defaults(), file, reader.variables(), reader.flags(&sources.flags)];
        let (mut errors, notices) = reader.finish();

        let mut values = Merged::new(layers).map_err(|error| vec![error])?;
        let ambient = ambient(&values, &env, tracker);
        if let Ambient::Kubeconfig(path) = &ambient {
            let mut layer = Layer::default();
            layer.set("operator", "kubeconfig", path, KUBECONFIG);
            values = values.with(layer).map_err(|error| vec![error])?;
        }
        let sections = Sections::read(&values, &mut errors);
        let (Some(sections), true) = (sections, errors.is_empty()) else { return Err(errors) };
        errors = relations::check(&values, &sections);
        if !errors.is_empty() {
            return Err(errors);
        }
        let substitutes = relations::substitutes(&values, &sections, runs_jobs);
        let values = values.with(substitutes).map_err(|error| vec![error])?;
        let sections = Sections::read(&values, &mut errors).ok_or(errors)?;
        Ok(Self { values, sections, in_cluster: matches!(ambient, Ambient::Pod), notices })
    }

    /// The section `[operator]`.
    pub fn operator(&self) -> &OperatorSettings {
        &self.sections.operator
    }

    /// The section `[grpc_client_authentication]`.
    pub fn auth(&self) -> &AuthSettings {
        &self.sections.auth
    }

    /// The section `[provisioning]`.
    pub fn provisioning(&self) -> &ProvisioningSettings {
        &self.sections.provisioning
    }

    /// The section `[source]`.
    pub fn source(&self) -> &SourceSettings {
        &self.sections.source
    }

    /// The section `[commit_tracker]`.
    pub fn commit_tracker(&self) -> &CommitTrackerSettings {
        &self.sections.commit_tracker
    }

    /// Whether the API server is reached with the service account of the pod that this process runs in: nothing says
    /// where else one is.
    pub fn in_cluster(&self) -> bool {
        self.in_cluster
    }

    /// Whether one replica of an operator works at a time: as set, or else where the API server is a Kubernetes one.
    pub fn leader_election(&self) -> bool {
        let kubernetes = self.in_cluster || self.operator().kubeconfig.is_some();
        self.provisioning().leader_election.unwrap_or(kubernetes)
    }

    /// What a reader of the log should know: sections and variables that were left alone, and the like.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Every effective value and where it came from, as an ini file; secrets are redacted.
    pub fn print(&self) -> String {
        print::effective(&self.values)
    }

    /// Checks that an operator has what it cannot start without.
    ///
    /// With a kubeconfig, the API servers and the way of authentication are in there; a pod's service account says both
    /// as well.
    pub fn require_for(&self, operator: &str) -> Result<(), Vec<SettingError>> {
        if self.operator().kubeconfig.is_some() || self.in_cluster {
            return Ok(());
        }
        let missing: Vec<SettingError> = keys()
            .filter(|key| key.required_for.contains(&operator) && !self.values.is_set(key.section, key.name))
            .map(|key| SettingError::Require { section: key.section, key: key.name })
            .collect();
        if missing.is_empty() { Ok(()) } else { Err(missing) }
    }
}

/// Where the environment says that the API server is, when no key does.
enum Ambient {
    /// It does not.
    Nowhere,
    /// In a kubeconfig.
    Kubeconfig(String),
    /// Where a pod finds it.
    Pod,
}

fn ambient(values: &Merged, env: &BTreeMap<String, String>, tracker: bool) -> Ambient {
    let is_set = |key| values.is_set("operator", key);
    // The commit tracker reaches Kubernetes API servers only.
    if is_set("kubeconfig") || is_set("provisioning_server_url") && !tracker {
        return Ambient::Nowhere;
    }
    let variable = |name: &str| env.get(name).filter(|text| !text.is_empty());
    match variable(KUBECONFIG) {
        Some(path) => Ambient::Kubeconfig(path.clone()),
        None if variable(SERVICE_HOST).is_some() => Ambient::Pod,
        None => Ambient::Nowhere,
    }
}

#[cfg(test)]
mod tests;
