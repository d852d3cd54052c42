//! One expression: compiled, looked through, and evaluated until a time.

use std::cell::Cell;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Instant;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube_cel::KubeCelExt as _;
use kube_cel::cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators};
use kube_cel::cel::extractors::This;
use kube_cel::cel::objects::OptionalValue;
use kube_cel::cel::parser::Parser;
use kube_cel::cel::{Context, ExecutionError, Value as Cel};
use regex::{Regex, RegexBuilder};
use serde_json::Value;

use super::{Node, value};

/// How many expressions may be within each other.
const MAX_DEPTH: usize = 200;
/// What every turn of a loop calls.
const GOES_ON: &str = "__goes_on__";
/// How many turns the loops of all rules about one object may take: what a real server's budget comes to.
const MAX_TURNS: u64 = 1_000_000;
/// How many patterns are kept, and how large, in bytes, a compiled one may be.
const MAX_KEPT: usize = 64;
const KEPT_SIZE: usize = 256 << 10;
/// Names that stand for types.
const TYPES: [&str; 11] =
    ["bool", "bytes", "double", "duration", "int", "list", "map", "null_type", "string", "timestamp", "uint"];

/// Operators and functions that answer neither true nor false, whatever they are given.
const NO_CONDITIONS: [&str; 12] = [
    operators::ADD,
    operators::SUBSTRACT,
    operators::MULTIPLY,
    operators::DIVIDE,
    operators::MODULO,
    operators::NEGATE,
    "size",
    "string",
    "int",
    "double",
    "lowerAscii",
    "upperAscii",
];

/// An expression whose loops end when the budget is used up.
#[derive(Debug)]
pub(super) struct Expression {
    tree: IdedExpr,
    /// Whether it looks at the value from before.
    pub(super) uses_old: bool,
    /// How many expressions are within each other.
    pub(super) depth: usize,
}

/// Why an expression has no value.
pub(super) struct Failed(pub(super) String);

/// What an expression sees.
pub(super) struct Scope {
    this: Cel,
    old: Option<Cel>,
}

/// What every expression may call.
static FUNCTIONS: LazyLock<Context<'static>> = LazyLock::new(|| {
    let mut functions = Context::default().with_all();
    // Types are compared with one another and nothing else.
    for name in TYPES {
        functions.add_variable_from_value(name, type_named(name));
    }
    functions.add_function("type", |value: Cel| type_named(type_of(&value)));
    functions.add_function("matches", |This(text): This<Arc<String>>, pattern: Arc<String>| {
        regex(&pattern).map(|regex| regex.is_match(&text))
    });
    functions.add_function(GOES_ON, || -> Result<bool, ExecutionError> {
        let budget = BUDGET.get().map(|budget| Budget { turns: budget.turns + 1, ..budget });
        BUDGET.set(budget);
        if budget.is_some_and(Budget::is_used_up) {
            return Err(ExecutionError::function_error(GOES_ON, "the budget is used up"));
        }
        Ok(true)
    });
    functions
});

thread_local! {
    /// What the runner of this thread may still use. `None`: it is not bounded.
    static BUDGET: Cell<Option<Budget>> = const { Cell::new(None) };
}

/// What expressions may use, and have used.
#[derive(Clone, Copy)]
struct Budget {
    ends: Instant,
    turns: u64,
}

impl Budget {
    fn is_used_up(self) -> bool {
        self.turns > MAX_TURNS || Instant::now() >= self.ends
    }
}

/// Compiles and evaluates expressions on one thread, whose only one it is.
pub(super) struct Runner(PhantomData<*const ()>);

impl Expression {
    /// Whether its value can be seen to be neither true nor false without evaluating it.
    pub(super) fn is_no_condition(&self) -> bool {
        match &self.tree.expr {
            Expr::Literal(literal) => !matches!(literal, LiteralValue::Boolean(_)),
            Expr::List(_) | Expr::Map(_) => true,
            Expr::Call(call) => NO_CONDITIONS.contains(&call.func_name.as_str()),
            _ => false,
        }
    }
}

#[expect(clippy::unused_self, reason = "what it does is bounded by the budget of its thread")]
impl Runner {
    pub(super) fn new() -> Self {
        BUDGET.set(None);
        Self(PhantomData)
    }

    /// One that evaluates until then, and no more than so many turns.
    pub(super) fn until(ends: Instant) -> Self {
        BUDGET.set(Some(Budget { ends, turns: 0 }));
        Self(PhantomData)
    }

    pub(super) fn is_over(&self) -> bool {
        BUDGET.get().is_some_and(Budget::is_used_up)
    }

    /// Compiles an expression about values of this schema.
    pub(super) fn compile(
        &self,
        text: &str,
        document: &JSONSchemaProps,
        embedded: bool,
    ) -> Result<Expression, String> {
        let parser = Parser::new().enable_optional_syntax(true);
        let mut tree = parser.parse(text.trim()).map_err(|error| error.to_string())?;
        let mut look = Look { has_self: true, ..Look::new(self, Vec::new()) };
        let this = if embedded { Place::Whole(document) } else { Place::Of(document) };
        look.through(&mut tree, this, 0)?;
        Ok(Expression { tree, uses_old: look.uses_old, depth: look.deepest })
    }

    /// Compiles an expression about values with these names, of which nothing else is known.
    pub(super) fn compile_over(&self, text: &str, names: &[&str]) -> Result<Expression, String> {
        let mut tree = Parser::new()
            .enable_optional_syntax(true)
            .parse(text.trim())
            .map_err(|error| error.to_string())?;
        let variables = names.iter().map(|name| ((*name).to_owned(), Place::Unknown)).collect();
        let mut look = Look::new(self, variables);
        look.through(&mut tree, Place::Unknown, 0)?;
        Ok(Expression { tree, uses_old: false, depth: look.deepest })
    }

    pub(super) fn value(&self, node: &Node, value: &Value) -> Cel {
        value::of(node, value, &FUNCTIONS)
    }

    pub(super) fn scope(&self, this: Cel, old: Option<Cel>, is_optional: bool) -> Scope {
        let optional = |old: Option<Cel>| {
            let old = old.map_or_else(OptionalValue::none, OptionalValue::of);
            Some(Cel::Opaque(Arc::new(old)))
        };
        Scope { this, old: if is_optional { optional(old) } else { old } }
    }

    /// Whether a rule holds.
    pub(super) fn holds(&self, expression: &Expression, scope: &Scope) -> Result<bool, Failed> {
        match self.evaluate(expression, scope)? {
            Cel::Bool(holds) => Ok(holds),
            _ => Err(Failed("it is neither true nor false".to_owned())),
        }
    }

    /// The text that an expression makes, if it makes one.
    pub(super) fn text(&self, expression: &Expression, scope: &Scope) -> Option<String> {
        match self.evaluate(expression, scope) {
            Ok(Cel::String(text)) => Some((*text).clone()),
            _ => None,
        }
    }

    fn evaluate(&self, expression: &Expression, scope: &Scope) -> Result<Cel, Failed> {
        let this = ("self", &scope.this);
        let old = scope.old.iter().map(|old| ("oldSelf", old));
        self.evaluate_over(expression, std::iter::once(this).chain(old))
    }

    /// The value of an expression, where names stand for these values.
    pub(super) fn evaluate_over<'a>(
        &self,
        expression: &Expression,
        values: impl Iterator<Item = (&'a str, &'a Cel)>,
    ) -> Result<Cel, Failed> {
        let mut context = FUNCTIONS.new_inner_scope();
        for (name, value) in values {
            context.add_variable_from_value(name, value.clone());
        }
        context.resolve(&expression.tree).map_err(|error| {
            Failed(match error {
                // Others print values, which may be secret.
                ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
                ExecutionError::UndeclaredReference(name) => format!("undeclared reference to '{name}'"),
                ExecutionError::NoSuchOverload => "no such overload".to_owned(),
                ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
                ExecutionError::IndexOutOfBounds(_) => "index out of bounds".to_owned(),
                _ => "evaluation failed".to_owned(),
            })
        })
    }

    /// Whether there is a function of this name: one that there is says what it lacks.
    fn has_function(&self, name: &str) -> bool {
        let call = Expr::Call(CallExpr { func_name: name.to_owned(), target: None, args: Vec::new() });
        let called = FUNCTIONS.resolve(&IdedExpr { id: 0, expr: call });
        !matches!(called, Err(ExecutionError::UndeclaredReference(_)))
    }
}

/// A compiled pattern. The library's own `matches` compiles it each time, which takes longer than all else; here patterns
/// are kept, unless they are large.
fn regex(pattern: &Arc<String>) -> Result<Regex, ExecutionError> {
    static KEPT: LazyLock<Mutex<HashMap<Arc<String>, Regex>>> = LazyLock::new(Mutex::default);
    let lock = || KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(regex) = lock().get(pattern) {
        return Ok(regex.clone());
    }
    let small = RegexBuilder::new(pattern).size_limit(KEPT_SIZE).dfa_size_limit(KEPT_SIZE).build();
    if let Ok(regex) = small {
        let mut kept = lock();
        if kept.len() >= MAX_KEPT {
            kept.clear();
        }
        kept.insert(pattern.clone(), regex.clone());
        return Ok(regex);
    }
    Regex::new(pattern).map_err(|error| ExecutionError::function_error("matches", error))
}

fn type_named(name: &str) -> String {
    format!("type({name})")
}

fn type_of(value: &Cel) -> &'static str {
    match value {
        Cel::Bool(_) => "bool",
        Cel::Bytes(_) => "bytes",
        Cel::Float(_) => "double",
        Cel::Duration(_) => "duration",
        Cel::Int(_) => "int",
        Cel::List(_) => "list",
        Cel::Map(_) => "map",
        Cel::String(_) => "string",
        Cel::Timestamp(_) => "timestamp",
        Cel::UInt(_) => "uint",
        _ => "null_type",
    }
}

/// A call with one text.
pub(super) fn call(function: &str, text: &str) -> IdedExpr {
    let text = Expr::Literal(LiteralValue::String(text.to_owned().into()));
    let call =
        CallExpr { func_name: function.to_owned(), target: None, args: vec![IdedExpr { id: 0, expr: text }] };
    IdedExpr { id: 0, expr: Expr::Call(call) }
}

/// What is known of where a value stands.
#[derive(Clone, Copy)]
enum Place<'a> {
    /// A value of this schema.
    Of(&'a JSONSchemaProps),
    /// A whole object of this schema.
    Whole(&'a JSONSchemaProps),
    /// Nothing.
    Unknown,
}

impl Place<'_> {
    /// The place of a field; an error if there is none.
    fn field(self, name: &str) -> Result<Self, String> {
        let (document, is_whole) = match self {
            Self::Unknown => return Ok(Self::Unknown),
            Self::Of(document) => (document, document.x_kubernetes_embedded_resource == Some(true)),
            Self::Whole(document) => (document, true),
        };
        if is_whole && matches!(name, "apiVersion" | "kind" | "metadata") {
            return Ok(Self::Unknown);
        }
        let property =
            document.properties.iter().flatten().find(|(property, _)| value::escaped(property) == name);
        match (property, &document.additional_properties) {
            (Some((_, property)), _) => Ok(Self::Of(property)),
            (None, Some(JSONSchemaPropsOrBool::Schema(values))) => Ok(Self::Of(values)),
            (None, Some(JSONSchemaPropsOrBool::Bool(true))) => Ok(Self::Unknown),
            (None, _) if document.x_kubernetes_int_or_string == Some(true) => Ok(Self::Unknown),
            (None, _) => Err(format!("undefined field '{name}'")),
        }
    }

    /// The place of an item of a list, or of a key's value.
    fn item(self) -> Self {
        let (Self::Of(document) | Self::Whole(document)) = self else { return Self::Unknown };
        match (&document.items, &document.additional_properties) {
            (Some(JSONSchemaPropsOrArray::Schema(items)), _) => Self::Of(items),
            (_, Some(JSONSchemaPropsOrBool::Schema(values))) => Self::Of(values),
            _ => Self::Unknown,
        }
    }

    /// The place of what a loop goes through: items of a list, and keys of what else there is.
    fn turn(self) -> Self {
        match self {
            Self::Of(document) if document.items.is_some() => self.item(),
            _ => Self::Unknown,
        }
    }
}

/// A look through an expression: are there such names, and is there an end to it.
struct Look<'a> {
    runner: &'a Runner,
    /// Whether there is a value that the expression is about.
    has_self: bool,
    uses_old: bool,
    deepest: usize,
    /// Names of loops, with what they stand for.
    variables: Vec<(String, Place<'a>)>,
}

impl<'a> Look<'a> {
    fn new(runner: &'a Runner, variables: Vec<(String, Place<'a>)>) -> Self {
        Self { runner, has_self: false, uses_old: false, deepest: 0, variables }
    }

    fn through(&mut self, tree: &mut IdedExpr, this: Place<'a>, depth: usize) -> Result<Place<'a>, String> {
        if depth > MAX_DEPTH {
            return Err(format!("expressions are nested deeper than {MAX_DEPTH} levels"));
        }
        let depth = depth + 1;
        self.deepest = self.deepest.max(depth);
        match &mut tree.expr {
            Expr::Unspecified => Err("it is empty".to_owned()),
            Expr::Struct(_) => Err("messages cannot be made".to_owned()),
            Expr::Literal(_) => Ok(Place::Unknown),
            Expr::Ident(name) => self.name(name, this),
            Expr::Select(select) => self.through(&mut select.operand, this, depth)?.field(&select.field),
            Expr::List(list) => {
                for element in &mut list.elements {
                    self.through(element, this, depth)?;
                }
                Ok(Place::Unknown)
            }
            Expr::Map(map) => {
                for entry in &mut map.entries {
                    match &mut entry.expr {
                        EntryExpr::MapEntry(entry) => {
                            self.through(&mut entry.key, this, depth)?;
                            self.through(&mut entry.value, this, depth)?;
                        }
                        EntryExpr::StructField(field) => {
                            self.through(&mut field.value, this, depth)?;
                        }
                    }
                }
                Ok(Place::Unknown)
            }
            Expr::Call(call) => self.call(call, this, depth),
            Expr::Comprehension(turns) => {
                let range = self.through(&mut turns.iter_range, this, depth)?;
                self.through(&mut turns.accu_init, this, depth)?;
                let known = self.variables.len();
                self.variables.push((turns.accu_var.clone(), Place::Unknown));
                self.variables.push((turns.iter_var.clone(), range.turn()));
                self.variables.extend(turns.iter_var2.clone().map(|name| (name, Place::Unknown)));
                for part in [&mut turns.loop_cond, &mut turns.loop_step, &mut turns.result] {
                    self.through(part, this, depth)?;
                }
                self.variables.truncate(known);
                let goes_on = std::mem::take(&mut turns.loop_cond);
                turns.loop_cond = while_budget_is_left(goes_on);
                Ok(Place::Unknown)
            }
        }
    }

    fn name(&mut self, name: &str, this: Place<'a>) -> Result<Place<'a>, String> {
        if let Some((_, place)) = self.variables.iter().rev().find(|(known, _)| known == name) {
            return Ok(*place);
        }
        match name {
            "self" if self.has_self => Ok(this),
            "oldSelf" if self.has_self => {
                self.uses_old = true;
                // It may be an optional one.
                Ok(Place::Unknown)
            }
            name if TYPES.contains(&name) => Ok(Place::Unknown),
            name => Err(format!("undeclared reference to '{name}'")),
        }
    }

    fn call(&mut self, call: &mut CallExpr, this: Place<'a>, depth: usize) -> Result<Place<'a>, String> {
        let mut qualified = None;
        if let Some(target) = &mut call.target {
            qualified = path_of(target).map(|path| format!("{path}.{}", call.func_name));
            if qualified.as_ref().is_some_and(|name| self.runner.has_function(name)) {
                // It is a library, and no value.
            } else {
                qualified = None;
                self.through(target, this, depth)?;
            }
        }
        let mut places = Vec::with_capacity(call.args.len());
        for argument in &mut call.args {
            places.push(self.through(argument, this, depth)?);
        }
        let is_operator = !call.func_name.starts_with(|c: char| c.is_ascii_alphabetic());
        if !is_operator && qualified.is_none() && !self.runner.has_function(&call.func_name) {
            return Err(format!("undeclared reference to '{}'", call.func_name));
        }
        let place = places.first().copied().unwrap_or(Place::Unknown);
        Ok(if call.func_name == operators::INDEX { place.item() } else { Place::Unknown })
    }
}

/// `a.b` as it stands there, if it is nothing but names.
fn path_of(tree: &IdedExpr) -> Option<String> {
    match &tree.expr {
        Expr::Ident(name) => Some(name.clone()),
        Expr::Select(select) => Some(format!("{}.{}", path_of(&select.operand)?, select.field)),
        _ => None,
    }
}

fn while_budget_is_left(goes_on: IdedExpr) -> IdedExpr {
    let left = CallExpr { func_name: GOES_ON.to_owned(), target: None, args: Vec::new() };
    let left = IdedExpr { id: 0, expr: Expr::Call(left) };
    let both =
        CallExpr { func_name: operators::LOGICAL_AND.to_owned(), target: None, args: vec![left, goes_on] };
    IdedExpr { id: 0, expr: Expr::Call(both) }
}
