//! From files, variables and flags to checked values.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::{Path, PathBuf},
};

use crate::{
    cross,
    error::SettingError,
    expand::expand,
    ini,
    keys::{COMMIT_TRACKER, KEYS, Key, OWNED_SECTIONS, is_owned, nearest, position, variable},
    print,
    typed::{AuthSettings, CommitTrackerSettings, OperatorSettings, ProvisioningSettings},
    value,
};

/// Variables that pick what runs; they belong to no key.
const SELECTORS: [&str; 2] = ["GF_DEFAULT_TARGET", "GF_OPERATOR_NAME"];

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
    /// Section, key and value of each flag.
    pub flags: Vec<(String, String, String)>,
    /// The operator that is started, where one is named: some have variables of their own.
    pub operator: Option<String>,
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nothing else says it.
    Default,
    /// A line of the ini file.
    File {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
    },
    /// An environment variable.
    Variable(String),
    /// The command line.
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Variable(name) => f.write_str(name),
            Self::Flag => f.write_str("command line"),
        }
    }
}

/// A value with where it comes from.
#[derive(Clone)]
pub(crate) struct Effective {
    pub(crate) text: String,
    pub(crate) origin: Origin,
}

/// Every value, one for each of [`KEYS`], in that order.
#[derive(Clone)]
pub(crate) struct Values(Vec<Effective>);

impl Values {
    fn defaults() -> Self {
        let value = |key: &Key| Effective { text: key.default.to_owned(), origin: Origin::Default };
        Self(KEYS.iter().map(value).collect())
    }

    /// The value of a key of the table. A key that is not in the table is empty; the tests see that none is.
    pub(crate) fn get(&self, section: &str, key: &str) -> &Effective {
        const NOTHING: &Effective = &Effective { text: String::new(), origin: Origin::Default };
        position(section, key).and_then(|index| self.0.get(index)).unwrap_or(NOTHING)
    }

    pub(crate) fn text(&self, section: &str, key: &str) -> &str {
        &self.get(section, key).text
    }

    pub(crate) fn change(&mut self, section: &str, key: &str, change: impl FnOnce(&mut Effective)) {
        if let Some(effective) = position(section, key).and_then(|index| self.0.get_mut(index)) {
            change(effective);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static Key, &Effective)> {
        KEYS.iter().zip(&self.0)
    }
}

/// The settings of a process: checked, typed, and with where each came from.
#[derive(Clone)]
pub struct Settings {
    values: Values,
    operator: OperatorSettings,
    auth: AuthSettings,
    provisioning: ProvisioningSettings,
    commit_tracker: CommitTrackerSettings,
    in_cluster: bool,
    notices: Vec<String>,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("operator", &self.operator)
            .field("auth", &self.auth)
            .field("provisioning", &self.provisioning)
            .field("commit_tracker", &self.commit_tracker)
            .finish_non_exhaustive()
    }
}

impl Settings {
    /// Reads and checks everything.
    ///
    /// # Errors
    ///
    /// Everything that is wrong at once, in the order in which it was found. A value that is merely missing
    /// is no error here; see [`Settings::require`].
    pub fn load<E>(sources: Sources<E>) -> Result<Self, Vec<SettingError>>
    where
        E: IntoIterator<Item = (String, String)>,
    {
        let env: BTreeMap<String, String> = sources.env.into_iter().collect();
        let tracker = sources.operator.as_deref() == Some(COMMIT_TRACKER);
        let mut loader =
            Loader { values: Values::defaults(), env, tracker, errors: Vec::new(), notices: Vec::new() };
        if let Some(path) = &sources.config {
            loader.file(path);
        }
        loader.environment();
        for (section, key, text) in sources.flags {
            loader.flag(&section, &key, text);
        }
        loader.check();
        let in_cluster = loader.ambient();
        let Loader { mut values, mut errors, notices, .. } = loader;
        if errors.is_empty() {
            errors = cross::check(&values);
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        cross::settle(&mut values);
        Ok(Self {
            operator: OperatorSettings::new(&values),
            auth: AuthSettings::new(&values),
            provisioning: ProvisioningSettings::new(&values),
            commit_tracker: CommitTrackerSettings::new(&values),
            values,
            in_cluster,
            notices,
        })
    }

    /// The section `[operator]`.
    pub fn operator(&self) -> &OperatorSettings {
        &self.operator
    }

    /// The section `[grpc_client_authentication]`.
    pub fn auth(&self) -> &AuthSettings {
        &self.auth
    }

    /// The section `[provisioning]`.
    pub fn provisioning(&self) -> &ProvisioningSettings {
        &self.provisioning
    }

    /// The section `[commit_tracker]`.
    pub fn commit_tracker(&self) -> &CommitTrackerSettings {
        &self.commit_tracker
    }

    /// Whether the API server is reached with the service account of the pod that this process runs in: nothing says
    /// where else one is.
    pub fn in_cluster(&self) -> bool {
        self.in_cluster
    }

    /// Whether one replica of an operator works at a time: as set, or else where the API server is a Kubernetes one.
    pub fn leader_election(&self) -> bool {
        let kubernetes = self.in_cluster || self.operator.kubeconfig.is_some();
        self.provisioning.leader_election.unwrap_or(kubernetes)
    }

    /// What a reader of the log should know: sections and variables that were left alone, and the like.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Every effective value and where it came from, as an ini file; secrets are redacted.
    pub fn print(&self) -> String {
        print::effective(&self.values)
    }

    /// Checks that keys, given as section and key, have a value.
    pub fn require(&self, keys: &[(&'static str, &'static str)]) -> Result<(), Vec<SettingError>> {
        let missing: Vec<SettingError> = keys
            .iter()
            .filter(|(section, key)| self.values.text(section, key).is_empty())
            .map(|(section, key)| SettingError::Require { section, key })
            .collect();
        if missing.is_empty() { Ok(()) } else { Err(missing) }
    }

    /// Checks that an operator has what it cannot start without.
    ///
    /// With a kubeconfig, the API servers and the way of authentication are in there; a pod's service account says both
    /// as well.
    pub fn require_for(&self, operator: &str) -> Result<(), Vec<SettingError>> {
        if self.operator.kubeconfig.is_some() || self.in_cluster {
            return Ok(());
        }
        let keys: Vec<_> = KEYS
            .iter()
            .filter(|key| key.required_for.contains(&operator))
            .map(|key| (key.section, key.key))
            .collect();
        self.require(&keys)
    }
}

struct Loader {
    values: Values,
    env: BTreeMap<String, String>,
    /// Whether the commit tracker is what runs: it reads its original's variables, and Kubernetes API servers only.
    tracker: bool,
    errors: Vec<SettingError>,
    notices: Vec<String>,
}

impl Loader {
    fn file(&mut self, path: &Path) {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(source) => return self.errors.push(SettingError::ReadFile { path: path.to_owned(), source }),
        };
        let at = |line| Origin::File { path: path.to_owned(), line };
        let (entries, bad) = ini::read(&text);
        self.errors.extend(
            bad.into_iter().map(|bad| SettingError::ParseLine { origin: at(bad.line), message: bad.message }),
        );
        let mut ignored = BTreeSet::new();
        let mut first_lines = BTreeMap::new();
        for entry in entries {
            let origin = at(entry.line);
            let Some(index) = position(&entry.section, &entry.key) else {
                if is_owned(&entry.section) {
                    self.unknown(&entry.section, entry.key, origin);
                } else {
                    ignored.insert(entry.section);
                }
                continue;
            };
            if let Some(first) = first_lines.insert(index, entry.line) {
                self.errors.push(SettingError::RepeatKey {
                    origin,
                    first,
                    section: entry.section,
                    key: entry.key,
                });
                continue;
            }
            if entry.cut {
                self.notices.push(format!(
                    "{origin}: the value of `{}` ends before a `;` or `#`, which begins a comment; put it into \
                     \"\"\"…\"\"\" if the rest belongs to it",
                    entry.key
                ));
            }
            self.set_expanded(index, &entry.value, origin);
        }
        if !ignored.is_empty() {
            let names: Vec<String> = ignored.iter().map(|name| format!("[{name}]")).collect();
            self.notices.push(format!(
                "{}: left alone, since they are none of Windlass's sections: {}",
                path.display(),
                names.join(", ")
            ));
        }
    }

    /// Variables that override keys. An empty one overrides nothing, as in Grafana.
    fn environment(&mut self) {
        let mut foreign: BTreeSet<String> =
            self.env.keys().filter(|name| name.starts_with("GF_")).cloned().collect();
        for name in SELECTORS {
            foreign.remove(name);
        }
        for (index, key) in KEYS.iter().enumerate() {
            let name = key.variable();
            foreign.remove(&name);
            if let Some(text) = self.env.get(&name).filter(|text| !text.is_empty()).cloned() {
                self.set_expanded(index, &text, Origin::Variable(name));
            } else if let Some(name) = key.original.filter(|_| self.tracker)
                && let Some(text) = self.env.get(name).filter(|text| !text.is_empty()).cloned()
            {
                self.set(index, text, Origin::Variable(name.to_owned()));
            }
        }
        if !foreign.is_empty() {
            let names: Vec<String> = foreign.into_iter().map(|name| describe_foreign(&name)).collect();
            self.notices.push(format!(
                "left alone, since they are none of Windlass's variables: {}",
                names.join(", ")
            ));
        }
    }

    /// Where the API server is when no key says so: in the kubeconfig that `KUBECONFIG` names, or, answered as true, where
    /// a pod finds it.
    fn ambient(&mut self) -> bool {
        let said = |key| !self.values.text("operator", key).is_empty();
        if said("kubeconfig") || said("provisioning_server_url") && !self.tracker {
            return false;
        }
        let set = |name: &str| self.env.get(name).filter(|text| !text.is_empty()).cloned();
        if let Some(text) = set(KUBECONFIG) {
            let origin = Origin::Variable(KUBECONFIG.to_owned());
            self.values.change("operator", "kubeconfig", |path| *path = Effective { text, origin });
            return false;
        }
        set(SERVICE_HOST).is_some()
    }

    fn flag(&mut self, section: &str, key: &str, text: String) {
        match position(section, key) {
            Some(index) => self.set(index, text, Origin::Flag),
            None => self.unknown(section, key.to_owned(), Origin::Flag),
        }
    }

    fn unknown(&mut self, section: &str, key: String, origin: Origin) {
        let nearest = nearest(section, &key);
        self.errors.push(SettingError::UnknownKey { origin, section: section.to_owned(), key, nearest });
    }

    fn set_expanded(&mut self, index: usize, text: &str, origin: Origin) {
        match expand(text, &self.env) {
            Ok(text) => self.set(index, text, origin),
            Err(message) => {
                let Key { section, key, .. } = KEYS[index];
                self.errors.push(SettingError::Expand { origin, section, key, message });
            }
        }
    }

    fn set(&mut self, index: usize, text: String, origin: Origin) {
        self.values.0[index] = Effective { text, origin };
    }

    fn check(&mut self) {
        let mut unused = Vec::new();
        for (key, effective) in self.values.iter() {
            if key.unused && effective.origin != Origin::Default {
                unused.push(format!("[{}] {}", key.section, key.key));
            }
            if let Err(expected) = value::check(key.kind, &effective.text) {
                let hide = key.secret || effective.text.contains('@');
                self.errors.push(SettingError::ParseValue {
                    origin: effective.origin.clone(),
                    section: key.section,
                    key: key.key,
                    shown: if hide { "[redacted]".to_owned() } else { format!("{:?}", effective.text) },
                    expected,
                });
            }
        }
        if !unused.is_empty() {
            self.notices.push(format!("accepted but not used: {}", unused.join(", ")));
        }
    }
}

/// A variable's name, and the one that may have been meant.
fn describe_foreign(name: &str) -> String {
    let likely = OWNED_SECTIONS
        .iter()
        .find_map(|section| {
            let key = name.strip_prefix(&variable(section, ""))?;
            nearest(section, key).map(|key| variable(section, key))
        })
        .map(|likely| format!(" (did you mean {likely}?)"));
    format!("{name}{}", likely.unwrap_or_default())
}

#[cfg(test)]
mod tests;
