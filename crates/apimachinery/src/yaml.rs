//! YAML as Go reads it: a key may stand twice, the last one counts, and strict decoding is told of it.

use std::cell::RefCell;

use serde::de::DeserializeSeed as _;
use serde_json::Value;
use serde_saphyr::Spanned;
use serde_saphyr::options::DuplicateKeyPolicy;
use windlass_api::yaml::Error;

use crate::definition::make_whole;
use crate::json::{Key, Path, Seed};

/// How a list of keys begins that stand twice; each of them is a line of its own.
pub const ERRORS: &str = "yaml: unmarshal errors:\n  ";

/// A document, and what is to be said of each key that stands twice.
pub fn parse(text: &str) -> Result<(Value, Vec<String>), Error> {
    let parsed = windlass_api::yaml::parse(text).map(|mut value| {
        make_whole(&mut value);
        (value, Vec::new())
    });
    parsed.or_else(|error| {
        // Whatever else is wrong with the text was not said yet if the first thing was a key.
        if !error.to_string().contains("duplicate mapping key") {
            return Err(error);
        }
        lenient(text).ok_or(error)
    })
}

fn lenient(text: &str) -> Option<(Value, Vec<String>)> {
    let options = windlass_api::yaml::options(DuplicateKeyPolicy::LastWins);
    let twice = RefCell::new(Vec::new());
    let read =
        |reader: serde_saphyr::Deserializer<'_, '_>| Seed::<Spanned<String>>::new(&twice).deserialize(reader);
    let value = serde_saphyr::with_deserializer_from_str_with_options(text, options, read).ok()?;
    Some((value, twice.into_inner()))
}

impl Key for Spanned<String> {
    fn text(&self) -> &str {
        &self.value
    }

    fn into_text(self) -> String {
        self.value
    }

    fn twice(&self, _: &Path<'_>) -> String {
        format!("line {}: key {:?} already set in map", self.referenced.line(), self.value)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_of_two_keys_counts_and_each_is_told_with_its_line() {
        let (value, twice) = parse("a: 1\nb:\n  c: x\n  c: z\na: 2\nd: {e: [1, true], e: null}\n").unwrap();
        assert_eq!(value, json!({ "a": 2, "b": { "c": "z" }, "d": { "e": null } }));
        assert_eq!(
            twice,
            [
                "line 4: key \"c\" already set in map",
                "line 5: key \"a\" already set in map",
                "line 6: key \"e\" already set in map"
            ]
        );
    }

    #[test]
    fn what_is_no_yaml_is_none_with_keys_twice_either() {
        assert!(parse("a: 1\na: [").is_err());
        assert_eq!(parse("a: 1").unwrap(), (json!({ "a": 1 }), Vec::new()));
    }

    #[test]
    fn aliases_that_grow_are_refused_with_keys_twice_as_well() {
        let long = "x".repeat(1 << 20);
        let repeated = vec!["*a"; 1_000].join(", ");
        assert!(parse(&format!("k: 1\nk: 2\na: &a {long}\nb: [{repeated}]\n")).is_err());
    }
}
