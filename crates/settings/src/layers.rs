//! The sources of values.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use crate::{
    error::SettingError,
    expand::expand,
    ini,
    key::{Key, variable},
    keys::{self, keys},
    values::{DEFAULT, Layer},
};

/// The origin of a flag.
const FLAG: &str = "command line";
/// Variables that pick what runs; they belong to no key.
const SELECTORS: [&str; 2] = ["GF_DEFAULT_TARGET", "GF_OPERATOR_NAME"];

/// Every key's default.
pub(crate) fn defaults() -> Layer {
    let mut layer = Layer::default();
    for key in keys() {
        layer.set(key.section, key.name, key.default, DEFAULT);
    }
    layer
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
