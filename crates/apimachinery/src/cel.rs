//! `x-kubernetes-validations`: what a definition's schema says of values in CEL.
//!
//! [`Rules`] are compiled once for a version of a kind, with whatever is wrong with them told as errors of the definition,
//! and then held against objects. Expressions and Kubernetes' function library are the crate `kube-cel`'s; which rules
//! apply to which values, and when, is stated here.
//!
//! [`Condition`]s are expressions of objects themselves, about values that have names.
//!
//! What a rule may cost is bounded by time: every turn of a loop looks at the clock. Compiling, and checking what is deeply
//! nested, run on a thread of their own with a large stack, which they block the caller for.

mod expression;
mod session;
mod value;

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool, ValidationRule,
};
use serde_json::{Value, json};

use self::expression::{Expression, Failed, Runner};
pub use self::session::{Condition, Session};
use self::value::Format;
use crate::field_error::FieldError;
use crate::json::{push_index, type_name};

/// The longest expression, in bytes.
const MAX_EXPRESSION: usize = 10 << 10;
/// How many rules a schema may have.
const MAX_RULES: usize = 2000;
/// The longest message that an expression may make, in bytes.
const MAX_MESSAGE: usize = 5 << 10;
/// Nothing more is looked for once so much is wrong.
const MAX_ERRORS: usize = 100;
/// The stack that expressions are compiled and run on: they and values are nested.
const STACK: usize = 32 << 20;
/// How many expressions may be within each other where they are run on the stack of the caller.
const SHALLOW: usize = 16;

/// The rules of a version of a kind.
#[derive(Debug)]
pub struct Rules {
    root: Node,
    /// How many expressions are within each other.
    depth: usize,
}

/// A schema, as far as rules look at it.
#[derive(Debug, Default)]
struct Node {
    format: Format,
    /// A whole object: its `apiVersion`, `kind` and name can be looked at.
    embedded: bool,
    rules: Vec<Rule>,
    /// Whether rules stand here or below.
    has_rules: bool,
    properties: BTreeMap<String, Node>,
    additional: Option<Box<Node>>,
    items: Option<Box<Node>>,
    /// What items of a list are known by, so that each has its own old value.
    keys: Option<Vec<String>>,
}

#[derive(Debug)]
struct Rule {
    text: String,
    expression: Expression,
    message: Option<String>,
    message_expression: Option<Expression>,
    reason: String,
    /// Where the error stands, beneath the value that the rule is of: `.spec.name`.
    field_path: String,
    /// Whether it is looked at without an old value too, which is then an optional one.
    optional_old: bool,
}

impl Rules {
    /// Compiles the rules of the schema of a whole object, which stands at `path` of its definition. `None`: it has none.
    ///
    /// # Errors
    /// Everything that is wrong with them.
    pub fn compile(document: &JSONSchemaProps, path: &str) -> Result<Option<Self>, Vec<FieldError>> {
        on_large_stack(|| {
            let mut compiler = Compiler { runner: Runner::new(), errors: Vec::new(), count: 0, depth: 0 };
            let mut root = compiler.node(document, &mut path.to_owned(), true, true);
            root.embedded = true;
            if compiler.errors.is_empty() {
                Ok(root.has_rules.then_some(Self { root, depth: compiler.depth }))
            } else {
                Err(compiler.errors)
            }
        })
        .unwrap_or_else(|| Err(vec![FieldError::invalid(path, &Value::Null, "its rules cannot be compiled")]))
    }

    /// What the rules refuse of an object that was `old` before, if it was there. What did not change is let through, except
    /// by rules about changes. Stops `within` this time, and after a number of turns of loops that is the same on every
    /// machine, and says so.
    pub fn check(&self, new: &Value, old: Option<&Value>, within: Duration) -> Vec<FieldError> {
        let run = || {
            let mut check =
                Check { runner: Some(Runner::until(Instant::now() + within)), ..Check::default() };
            check.node(&self.root, new, old, false, &mut String::new());
            if check.runner.as_ref().is_some_and(Runner::is_over) {
                let detail = "validation failed due to running out of cost budget, no further validation rules will \
                    be run";
                check.errors = vec![FieldError::invalid_unshown("<nil>", detail)];
            }
            check.errors
        };
        let errors = if self.depth <= SHALLOW {
            catch_unwind(AssertUnwindSafe(run)).ok()
        } else {
            on_large_stack(run)
        };
        errors.unwrap_or_else(|| {
            vec![FieldError::invalid("<nil>", &Value::Null, "its rules cannot be evaluated")]
        })
    }
}

impl Rules {
    /// Whether any rule is to be looked at, which takes no time: most writes change nothing that rules are about.
    pub fn is_due(&self, new: &Value, old: Option<&Value>) -> bool {
        let mut look = Check::default();
        look.node(&self.root, new, old, false, &mut String::new());
        look.is_due
    }
}

/// Runs this on a thread with a large stack. `None`: it panicked, or there is no thread.
fn on_large_stack<T: Send>(run: impl FnOnce() -> T + Send) -> Option<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("cel".to_owned()).stack_size(STACK);
        thread.spawn_scoped(scope, run).ok()?.join().ok()
    })
}

struct Compiler {
    runner: Runner,
    errors: Vec<FieldError>,
    count: usize,
    depth: usize,
}

impl Compiler {
    /// `correlated`: a value here has an old value that it can be told to have been.
    fn node(
        &mut self,
        document: &JSONSchemaProps,
        path: &mut String,
        is_root: bool,
        correlated: bool,
    ) -> Node {
        let length = path.len();
        let mut node = Node {
            format: Format::of(document),
            embedded: is_root || document.x_kubernetes_embedded_resource == Some(true),
            ..Node::default()
        };
        let mut below = |compiler: &mut Self, part: &str, document: &JSONSchemaProps, correlated: bool| {
            path.push_str(part);
            let node = compiler.node(document, path, false, correlated);
            path.truncate(length);
            node
        };
        for (name, property) in document.properties.iter().flatten() {
            let property = below(self, &format!(".properties[{name}]"), property, correlated);
            node.properties.insert(name.clone(), property);
        }
        if let Some(JSONSchemaPropsOrBool::Schema(values)) = &document.additional_properties {
            node.additional = Some(Box::new(below(self, ".additionalProperties", values, correlated)));
        }
        if let Some(JSONSchemaPropsOrArray::Schema(items)) = &document.items {
            let is_map = document.x_kubernetes_list_type.as_deref() == Some("map");
            node.keys = document.x_kubernetes_list_map_keys.clone().filter(|_| is_map);
            node.items = Some(Box::new(below(self, ".items", items, correlated && is_map)));
        }
        for (index, rule) in document.x_kubernetes_validations.iter().flatten().enumerate() {
            let _ = write!(path, ".x-kubernetes-validations[{index}]");
            self.count += 1;
            if self.count > MAX_RULES {
                if self.count == MAX_RULES + 1 {
                    let detail = format!("there may be {MAX_RULES} rules at most");
                    self.errors.push(FieldError::forbidden(path.clone(), &detail));
                }
            } else if let Some(rule) = self.rule(rule, document, path, node.embedded, correlated) {
                node.rules.push(rule);
            }
            path.truncate(length);
        }
        let mut parts =
            node.properties.values().chain(node.additional.as_deref()).chain(node.items.as_deref());
        node.has_rules = !node.rules.is_empty() || parts.any(|part| part.has_rules);
        node
    }

    fn rule(
        &mut self,
        rule: &ValidationRule,
        document: &JSONSchemaProps,
        path: &str,
        embedded: bool,
        correlated: bool,
    ) -> Option<Rule> {
        let before = self.errors.len();
        let mut compile = |field: &str, text: &str| {
            let compiled = if text.len() > MAX_EXPRESSION {
                Err(format!("may not be longer than {MAX_EXPRESSION} bytes"))
            } else {
                self.runner.compile(text, document, embedded)
            };
            compiled
                .map_err(|problem| {
                    let problem = format!("compilation failed: {problem}");
                    self.errors.push(FieldError::invalid(format!("{path}.{field}"), &json!(text), &problem));
                })
                .ok()
        };
        let expression = compile("rule", &rule.rule);
        let message_expression =
            rule.message_expression.as_ref().map(|text| compile("messageExpression", text));
        let expression = expression?;
        let depths = message_expression.iter().flatten().map(|message| message.depth);
        self.depth = depths.chain([self.depth, expression.depth]).max().unwrap_or_default();
        if expression.uses_old && !correlated {
            let within = path.rsplit_once(".items").map_or(path, |(list, _)| list);
            let detail =
                format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {within}");
            self.errors.push(FieldError::invalid(format!("{path}.rule"), &json!(rule.rule), &detail));
        }
        if rule.optional_old_self == Some(true) && !expression.uses_old {
            let detail = "may not be set if oldSelf is not used in rule";
            self.errors.push(FieldError::invalid(format!("{path}.optionalOldSelf"), &json!(true), detail));
        }
        if self.errors.len() > before {
            return None;
        }
        Some(Rule {
            text: rule.rule.trim().to_owned(),
            expression,
            message: rule.message.clone().filter(|message| !message.trim().is_empty()),
            message_expression: message_expression.flatten(),
            reason: rule.reason.clone().unwrap_or_default(),
            field_path: rule.field_path.clone().unwrap_or_default(),
            optional_old: rule.optional_old_self == Some(true),
        })
    }
}

/// A way through an object, which evaluates the rules that are due, or only looks whether there are any.
#[derive(Default)]
struct Check {
    runner: Option<Runner>,
    errors: Vec<FieldError>,
    is_due: bool,
}

impl Check {
    /// `unchanged`: what this value is in did not change.
    fn node(&mut self, node: &Node, new: &Value, old: Option<&Value>, unchanged: bool, path: &mut String) {
        let is_done = self.errors.len() >= MAX_ERRORS || (self.is_due && self.runner.is_none());
        if !node.has_rules || new.is_null() || is_done {
            return;
        }
        let old = old.filter(|old| !old.is_null());
        let unchanged = unchanged || old == Some(new);
        self.rules(node, new, old, unchanged, path);
        let length = path.len();
        match new {
            Value::Object(fields) => {
                for (name, value) in fields {
                    let old = old.and_then(|old| old.get(name));
                    if let Some(property) = node.properties.get(name) {
                        if !path.is_empty() {
                            path.push('.');
                        }
                        path.push_str(name);
                        self.node(property, value, old, unchanged, path);
                    } else if let Some(values) = &node.additional {
                        let _ = write!(path, "[{name}]");
                        self.node(values, value, old, unchanged, path);
                    }
                    path.truncate(length);
                }
            }
            Value::Array(items) => {
                let Some(schema) = &node.items else { return };
                let before = node.keys.as_ref().map(|keys| by_keys(keys, old));
                for (index, item) in items.iter().enumerate() {
                    push_index(path, index);
                    let old = node
                        .keys
                        .as_ref()
                        .zip(before.as_ref())
                        .and_then(|(keys, before)| before.get(&key_of(keys, item)).copied());
                    self.node(schema, item, old, unchanged, path);
                    path.truncate(length);
                }
            }
            _ => {}
        }
    }

    fn rules(&mut self, node: &Node, new: &Value, old: Option<&Value>, unchanged: bool, path: &str) {
        let due = |rule: &&Rule| {
            if rule.expression.uses_old { old.is_some() || rule.optional_old } else { !unchanged }
        };
        let mut due = node.rules.iter().filter(due).peekable();
        if due.peek().is_none() {
            return;
        }
        self.is_due = true;
        let Some(runner) = &self.runner else { return };
        let (this, before) = (runner.value(node, new), old.map(|old| runner.value(node, old)));
        for rule in due {
            if self.errors.len() >= MAX_ERRORS || runner.is_over() {
                return;
            }
            let old = before.clone();
            let scope = runner.scope(this.clone(), old, rule.optional_old);
            let error = match runner.holds(&rule.expression, &scope) {
                Ok(true) => continue,
                Ok(false) => rule.error(new, path, &rule.message(runner, &scope)),
                Err(Failed(error)) => {
                    let problem = format!("{error} evaluating rule: {}", rule.name());
                    let path = if path.is_empty() { "<nil>" } else { path };
                    FieldError::invalid(path, &json!(type_name(new)), &problem)
                }
            };
            self.errors.push(error);
        }
    }
}

impl Rule {
    fn name(&self) -> String {
        self.message.clone().unwrap_or_else(|| self.text.replace('\n', " "))
    }

    /// What is said of a value that breaks the rule.
    fn message(&self, runner: &Runner, scope: &expression::Scope) -> String {
        let made = self.message_expression.as_ref().and_then(|expression| runner.text(expression, scope));
        made.map(|text| text.trim().to_owned())
            .filter(|text| !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains(['\n', '\r']))
            .or_else(|| self.message.clone())
            .unwrap_or_else(|| format!("failed rule: {}", self.text.replace('\n', " ")))
    }

    fn error(&self, value: &Value, path: &str, problem: &str) -> FieldError {
        // What is large is not shown.
        let is_shown = !value.is_object() && !value.is_array();
        let mut path = format!("{path}{}", self.field_path).trim_start_matches('.').to_owned();
        if path.is_empty() {
            "<nil>".clone_into(&mut path);
        }
        match self.reason.as_str() {
            "FieldValueRequired" => FieldError::required(path, problem),
            "FieldValueForbidden" => FieldError::forbidden(path, problem),
            "FieldValueDuplicate" if is_shown => FieldError::duplicate(path, value),
            "FieldValueDuplicate" => FieldError::duplicate_unshown(path),
            _ if is_shown => FieldError::invalid(path, value, problem),
            _ => FieldError::invalid_unshown(path, problem),
        }
    }
}

/// The old items of a list by what they are known by.
fn by_keys<'a>(keys: &[String], old: Option<&'a Value>) -> HashMap<String, &'a Value> {
    let items = old.and_then(Value::as_array).into_iter().flatten();
    items.map(|item| (key_of(keys, item), item)).collect()
}

fn key_of(keys: &[String], item: &Value) -> String {
    let parts: Vec<&Value> = keys.iter().map(|key| &item[key]).collect();
    json!(parts).to_string()
}

#[cfg(test)]
mod tests;
