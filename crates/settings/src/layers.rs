//! The sources of values, and what they are together.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::Path,
};

use config::{Config, ConfigError, Map, Source, Value, ValueKind};

use crate::{
    error::SettingError,
    expand::expand,
    forms::{self, Form},
    ini,
    keys::{self, Key, keys, variable},
};

/// The origin of a value that nothing sets.
pub(crate) const DEFAULT: &str = "default";
/// The origin of a flag.
const FLAG: &str = "command line";
/// Variables that pick what runs; they belong to no key.
const SELECTORS: [&str; 2] = ["GF_DEFAULT_TARGET", "GF_OPERATOR_NAME"];

/// The values of one source, by `section.key`, each with where it comes from.
#[derive(Clone, Default)]
pub(crate) struct Layer(Map<String, Value>);

impl Layer {
    /// Every key's default.
    pub(crate) fn defaults() -> Self {
        let mut layer = Self::default();
        for key in keys() {
            layer.set(key.section, key.name, key.default, DEFAULT);
        }
        layer
    }

    pub(crate) fn set(&mut self, section: &str, key: &str, text: &str, origin: &str) {
        self.0.insert(format!("{section}.{key}"), Value::new(Some(&origin.to_owned()), text));
    }
}

impl Source for Layer {
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<Map<String, Value>, ConfigError> {
        Ok(self.0.clone())
    }
}

/// Shows no values: some are secrets.
impl fmt::Debug for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Every value that counts, with where it comes from.
#[derive(Clone)]
pub(crate) struct Merged(Config);

impl Merged {
    /// The layers together; of two values for a key, that of the later layer counts.
    pub(crate) fn new(layers: impl IntoIterator<Item = Layer>) -> Result<Self, SettingError> {
        Self::build(Config::default(), layers)
    }

    /// These values with those of another layer above them.
    pub(crate) fn with(self, layer: Layer) -> Result<Self, SettingError> {
        Self::build(self.0, [layer])
    }

    fn build(below: Config, layers: impl IntoIterator<Item = Layer>) -> Result<Self, SettingError> {
        let mut builder = Config::builder().add_source(below);
        for layer in layers {
            builder = builder.add_source(layer);
        }
        builder.build().map(Self).map_err(|error| SettingError::Merge { message: expected(error) })
    }

    /// The text of a key; empty for one that is not known.
    pub(crate) fn text(&self, section: &str, key: &str) -> &str {
        match self.value(section, key).map(|value| &value.kind) {
            Some(ValueKind::String(text)) => text,
            _ => "",
        }
    }

    /// Where the value of a key comes from: `operator.ini:12`, a variable, the command line or the default.
    pub(crate) fn origin(&self, section: &str, key: &str) -> &str {
        self.value(section, key).and_then(Value::origin).unwrap_or(DEFAULT)
    }

    pub(crate) fn is_set(&self, section: &str, key: &str) -> bool {
        !self.text(section, key).is_empty()
    }

    fn value(&self, section: &str, key: &str) -> Option<&Value> {
        let ValueKind::Table(sections) = &self.0.cache.kind else { return None };
        let ValueKind::Table(keys) = &sections.get(section)?.kind else { return None };
        keys.get(key)
    }

    /// The value of a key in its form, or nothing with an error.
    pub(crate) fn read<F: Form<T>, T>(
        &self,
        section: &'static str,
        key: &'static str,
        errors: &mut Vec<SettingError>,
    ) -> Option<T> {
        match self.0.get::<forms::Value<F, T>>(&format!("{section}.{key}")) {
            Ok(value) => Some(value.0),
            Err(error) => {
                let text = self.text(section, key);
                let hide = keys::find(section, key).is_none_or(|key| key.secret) || text.contains('@');
                errors.push(SettingError::ParseValue {
                    origin: self.origin(section, key).to_owned(),
                    section,
                    key,
                    shown: if hide { "[redacted]".to_owned() } else { format!("{text:?}") },
                    expected: expected(error),
                });
                None
            }
        }
    }
}

/// What a form expected. Other errors are not printed, since [`ConfigError::Type`] shows the value.
fn expected(error: ConfigError) -> String {
    match error {
        ConfigError::At { error, .. } => expected(*error),
        ConfigError::Message(message) => message,
        _ => "a text".to_owned(),
    }
}

/// Reads the sources, with everything that is to be said about them.
pub(crate) struct Reader<'a> {
    /// The environment.
    pub(crate) env: &'a BTreeMap<String, String>,
    /// Whether the variables of grafana/flux-commit-tracker count.
    pub(crate) original: bool,
    /// What is wrong.
    pub(crate) errors: Vec<SettingError>,
    /// What a reader of the log should know.
    pub(crate) notices: Vec<String>,
    /// Keys that were set and mean nothing.
    unused: BTreeSet<String>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(env: &'a BTreeMap<String, String>, original: bool) -> Self {
        Self { env, original, errors: Vec::new(), notices: Vec::new(), unused: BTreeSet::new() }
    }

    /// The values of an ini file.
    pub(crate) fn file(&mut self, path: &Path) -> Layer {
        let mut layer = Layer::default();
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(source) => {
                self.errors.push(SettingError::ReadFile { path: path.to_owned(), source });
                return layer;
            }
        };
        let at = |line: usize| format!("{}:{line}", path.display());
        let (entries, bad) = ini::read(&text);
        self.errors.extend(
            bad.into_iter().map(|bad| SettingError::ParseLine { origin: at(bad.line), message: bad.message }),
        );
        let mut ignored = BTreeSet::new();
        let mut first_lines = BTreeMap::new();
        for ini::Entry { section, key, value, line, cut } in entries {
            let origin = at(line);
            let Some(known) = self.known(&section, &key, &origin) else {
                if !keys::is_owned(&section) && !keys::is_unused(&section, &key) {
                    ignored.insert(format!("[{section}]"));
                }
                continue;
            };
            if let Some(first) = first_lines.insert((known.section, known.name), line) {
                self.errors.push(SettingError::RepeatKey { origin, first, section, key });
                continue;
            }
            if cut {
                self.notices.push(format!(
                    "{origin}: the value of `{key}` ends before a `;` or `#`, which begins a comment; put it into \
                     \"\"\"…\"\"\" if the rest belongs to it"
                ));
            }
            self.set_expanded(&mut layer, known, &value, &origin);
        }
        if !ignored.is_empty() {
            self.notices.push(format!(
                "{}: left alone, since they are none of Windlass's sections: {}",
                path.display(),
                ignored.into_iter().collect::<Vec<_>>().join(", ")
            ));
        }
        layer
    }

    /// The values of variables. An empty one sets nothing, as in Grafana.
    pub(crate) fn variables(&mut self) -> Layer {
        let mut layer = Layer::default();
        let mut foreign: BTreeSet<&str> =
            self.env.keys().map(String::as_str).filter(|name| name.starts_with("GF_")).collect();
        for name in SELECTORS {
            foreign.remove(name);
        }
        let set = |name: &str| self.env.get(name).filter(|text| !text.is_empty());
        for key in keys() {
            let name = key.variable();
            foreign.remove(name.as_str());
            if let Some(text) = set(&name) {
                self.set_expanded(&mut layer, key, text, &name);
            } else if let Some(name) = key.original.filter(|_| self.original)
                && let Some(text) = set(name)
            {
                layer.set(key.section, key.name, text, name);
            }
        }
        for (section, names) in keys::UNUSED {
            for key in *names {
                if foreign.remove(variable(section, key).as_str()) {
                    self.unused.insert(format!("[{section}] {key}"));
                }
            }
        }
        if !foreign.is_empty() {
            let names: Vec<String> = foreign.into_iter().map(describe_foreign).collect();
            self.notices.push(format!(
                "left alone, since they are none of Windlass's variables: {}",
                names.join(", ")
            ));
        }
        layer
    }

    /// The values of flags.
    pub(crate) fn flags(&mut self, flags: &[(String, String, String)]) -> Layer {
        let mut layer = Layer::default();
        for (section, key, text) in flags {
            if let Some(known) = self.known(section, key, FLAG) {
                layer.set(known.section, known.name, text, FLAG);
            } else if !keys::is_owned(section) && !keys::is_unused(section, key) {
                self.unknown(section, key, FLAG);
            }
        }
        layer
    }

    /// Everything that is to be said, errors first.
    pub(crate) fn finish(mut self) -> (Vec<SettingError>, Vec<String>) {
        if !self.unused.is_empty() {
            let names: Vec<String> = self.unused.into_iter().collect();
            self.notices.push(format!("accepted but not used: {}", names.join(", ")));
        }
        (self.errors, self.notices)
    }

    /// The key of this name; nothing for one that is not known, which is an error in a section of ours.
    fn known(&mut self, section: &str, key: &str, origin: &str) -> Option<&'static Key> {
        let known = keys::find(section, key);
        if known.is_none() && keys::is_unused(section, key) {
            self.unused.insert(format!("[{section}] {key}"));
        } else if known.is_none() && keys::is_owned(section) {
            self.unknown(section, key, origin);
        }
        known
    }

    fn unknown(&mut self, section: &str, key: &str, origin: &str) {
        self.errors.push(SettingError::UnknownKey {
            origin: origin.to_owned(),
            section: section.to_owned(),
            key: key.to_owned(),
            nearest: keys::nearest(section, key),
        });
    }

    fn set_expanded(&mut self, layer: &mut Layer, key: &Key, text: &str, origin: &str) {
        match expand(text, self.env) {
            Ok(text) => layer.set(key.section, key.name, &text, origin),
            Err(message) => self.errors.push(SettingError::Expand {
                origin: origin.to_owned(),
                section: key.section,
                key: key.name,
                message,
            }),
        }
    }
}

/// A variable's name, and the one that may have been meant.
fn describe_foreign(name: &str) -> String {
    let likely = keys().map(|key| key.section).collect::<BTreeSet<_>>().into_iter().find_map(|section| {
        let key = name.strip_prefix(&variable(section, ""))?;
        keys::nearest(section, key).map(|key| variable(section, key))
    });
    format!("{name}{}", likely.map(|likely| format!(" (did you mean {likely}?)")).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_config_that_shows_the_value_is_not_printed() {
        let error = Value::new(None, "hunter2").into_bool().unwrap_err();
        assert!(error.to_string().contains("hunter2"));
        assert_eq!(expected(error), "a text");
    }

    #[test]
    fn a_layer_shows_no_values() {
        let mut layer = Layer::default();
        layer.set("operator", "token", "hunter2", FLAG);
        assert_eq!(format!("{layer:?}"), "{\"operator.token\"}");
    }
}
