//! Expressions that objects carry, about values that have names and no schema: `res.metadata.name == req.repository.name`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kube_cel::cel::Value as Cel;
use serde_json::Value;

use super::expression::{Expression, Failed, Runner};
use super::{MAX_EXPRESSION, on_large_stack, value};

/// A compiled expression.
#[derive(Debug)]
pub struct Condition(Expression);

impl Condition {
    /// Compiles an expression that is true or false of values with these names.
    ///
    /// Without types, whether it is either is known of the outermost operator alone; what else has another value says so
    /// when it is evaluated.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn compile(text: &str, names: &[&str]) -> Result<Self, String> {
        let compiled = Self::compile_value(text, names)?;
        if compiled.0.is_no_condition() {
            return Err("its value is neither true nor false".to_owned());
        }
        Ok(compiled)
    }

    /// Compiles an expression of any value.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn compile_value(text: &str, names: &[&str]) -> Result<Self, String> {
        if text.len() > MAX_EXPRESSION {
            return Err(format!("it may not be longer than {MAX_EXPRESSION} bytes"));
        }
        let compiled = on_large_stack(|| Runner::new().compile_over(text, names));
        compiled.unwrap_or_else(|| Err("it cannot be compiled".to_owned())).map(Self)
    }
}

/// Values with names, while conditions are held against them.
pub struct Session {
    runner: Runner,
    values: BTreeMap<String, Cel>,
    /// Entries of values that are maps, made one by one.
    entries: BTreeMap<String, BTreeMap<String, Cel>>,
}

impl Session {
    /// Runs this on a thread of its own with a large stack, which it blocks the caller for: expressions and values are
    /// nested. Loops of expressions end `within` this time. `None`: it panicked, or there is no thread.
    pub fn run<T: Send>(within: Duration, run: impl FnOnce(&mut Self) -> T + Send) -> Option<T> {
        on_large_stack(|| {
            let runner = Runner::until(Instant::now() + within);
            run(&mut Self { runner, values: BTreeMap::new(), entries: BTreeMap::new() })
        })
    }

    /// What a name stands for from now on. Numbers of JSON have fractions, as they do in Go.
    pub fn set(&mut self, name: &str, value: &Value) {
        self.values.insert(name.to_owned(), value::of_json(value));
    }

    /// Adds an entry to the map that a name stands for: the value of an expression.
    ///
    /// # Errors
    /// Why it has none.
    pub fn set_entry(&mut self, name: &str, key: &str, expression: &Condition) -> Result<(), String> {
        let value = self.evaluate(expression)?;
        let entries = self.entries.entry(name.to_owned()).or_default();
        entries.insert(key.to_owned(), value);
        let map = value::map(entries.clone().into_iter());
        self.values.insert(name.to_owned(), map);
        Ok(())
    }

    /// Whether a condition holds of the values.
    ///
    /// # Errors
    /// Why that cannot be said, without any of the values.
    pub fn holds(&self, condition: &Condition) -> Result<bool, String> {
        match self.evaluate(condition)? {
            Cel::Bool(holds) => Ok(holds),
            _ => Err("its value is neither true nor false".to_owned()),
        }
    }

    fn evaluate(&self, Condition(expression): &Condition) -> Result<Cel, String> {
        if self.runner.is_over() {
            return Err("it took too long".to_owned());
        }
        let values = self.values.iter().map(|(name, value)| (name.as_str(), value));
        self.runner.evaluate_over(expression, values).map_err(|Failed(why)| why)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn holds(text: &str, values: &[(&str, Value)]) -> Result<bool, String> {
        let names: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
        let condition = Condition::compile(text, &names)?;
        Session::run(Duration::from_mins(1), |session| {
            for (name, value) in values {
                session.set(name, value);
            }
            session.holds(&condition)
        })
        .unwrap()
    }

    #[test]
    fn a_condition_is_about_the_values_that_have_names() {
        let values = [
            ("req", json!({"tag": "app:v1.2", "count": 3, "images": ["a", "b"], "head-commit": "x"})),
            ("res", json!({"metadata": {"name": "app", "labels": {"team": "a"}}})),
        ];
        for (text, expected) in [
            ("true", true),
            ("req.tag.split(':')[1].startsWith('v')", true),
            ("res.metadata.name in ['app', 'other'] && res.metadata.labels['team'] == 'b'", false),
            ("req.count > 2.5", true),
            ("req.images.exists(image, image == res.metadata.name)", false),
            ("has(res.metadata.annotations)", false),
            ("req['head-commit'] == 'x'", true),
            ("res.metadata.labels[?'tier'].orValue('none') == 'none'", true),
        ] {
            assert_eq!(holds(text, &values), Ok(expected), "{text}");
        }
        for (text, why) in [
            ("self.a == 1", "undeclared reference to 'self'"),
            ("claims.sub == 'x'", "undeclared reference to 'claims'"),
            ("req.absent == 'x'", "no such key: absent"),
            ("req.tag", "neither true nor false"),
            ("'x'", "neither true nor false"),
            ("size(req.images)", "neither true nor false"),
            ("req.tag +", "yntax"),
            ("wrong(req)", "undeclared reference to 'wrong'"),
        ] {
            let error = holds(text, &values).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
            assert!(!error.contains("v1.2"), "values may be secret: {error}");
        }
    }

    #[test]
    fn values_of_expressions_are_seen_by_those_after_them() {
        let first = Condition::compile_value("claims.sub.split('/')[0]", &["claims", "vars"]).unwrap();
        let second = Condition::compile_value("vars.owner + '!'", &["claims", "vars"]).unwrap();
        let both =
            Condition::compile("vars.owner == 'me' && vars.loud == 'me!'", &["claims", "vars"]).unwrap();
        let held = Session::run(Duration::from_mins(1), |session| {
            session.set("claims", &json!({"sub": "me/app"}));
            assert!(session.set_entry("vars", "early", &second).is_err(), "there is no owner yet");
            session.set_entry("vars", "owner", &first).unwrap();
            session.set_entry("vars", "loud", &second).unwrap();
            session.holds(&both)
        });
        assert_eq!(held, Some(Ok(true)));
    }

    #[test]
    fn an_expression_without_an_end_is_ended() {
        let long = "[1,2,3,4,5,6,7,8,9,10].map(a, [1,2,3,4,5,6,7,8,9,10].map(b, a * b))";
        let nested = format!("{long}.all(x, {long}.all(y, {long}.all(z, {long}.all(w, true))))");
        let condition = Condition::compile(&nested, &[]).unwrap();
        let begun = Instant::now();
        let held = Session::run(Duration::from_millis(100), |session| session.holds(&condition)).unwrap();
        assert!(held.is_err());
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
}
