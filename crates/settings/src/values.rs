//! The values of one source, and what all sources say together.

use std::fmt;

use config::{Config, ConfigError, Map, Source, Value, ValueKind};

use crate::{
    error::SettingError,
    forms::{self, Form},
    key::Key,
};

/// The origin of a value that nothing sets.
pub(crate) const DEFAULT: &str = "default";

/// The values of one source, by `section.key`, each with where it comes from.
#[derive(Clone, Default)]
pub(crate) struct Layer(Map<String, Value>);

impl Layer {
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
    pub(crate) fn read<F: Form<T>, T>(&self, key: &'static Key, errors: &mut Vec<SettingError>) -> Option<T> {
        let &Key { section, name, secret, .. } = key;
        match self.0.get::<forms::Value<F, T>>(&format!("{section}.{name}")) {
            Ok(value) => Some(value.0),
            Err(error) => {
                let text = self.text(section, name);
                let hide = secret || text.contains('@');
                errors.push(SettingError::ParseValue {
                    origin: self.origin(section, name).to_owned(),
                    section,
                    key: name,
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
        layer.set("operator", "token", "hunter2", "a flag");
        assert_eq!(format!("{layer:?}"), "{\"operator.token\"}");
    }
}
