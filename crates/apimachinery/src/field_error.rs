//! What is wrong with one field, as kube-apiserver tells it.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::StatusCause;
use serde_json::Value;

/// The longest value or path that is shown, in bytes.
const LONGEST: usize = 8 << 10;

/// What is wrong with one field of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// Where it stands, as `spec.list[0].name`.
    pub field: String,
    /// A cause's reason, as `FieldValueInvalid`.
    pub reason: String,
    /// What is said of it.
    pub body: String,
}

impl FieldError {
    fn new(field: impl Into<String>, reason: &str, body: String) -> Self {
        let mut field = field.into();
        cut(&mut field);
        Self { field, reason: reason.to_owned(), body }
    }

    /// There has to be something.
    pub fn required(field: impl Into<String>, detail: &str) -> Self {
        Self::new(field, "FieldValueRequired", with_detail("Required value", detail))
    }

    /// There may be nothing, or not this.
    pub fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self::new(field, "FieldValueForbidden", with_detail("Forbidden", detail))
    }

    /// The value is not one that may stand there.
    pub fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        Self::new(field, "FieldValueInvalid", with_detail(&format!("Invalid value: {}", show(value)), detail))
    }

    /// As [`Self::invalid`], of a value that is not shown.
    pub fn invalid_unshown(field: impl Into<String>, detail: &str) -> Self {
        Self::new(field, "FieldValueInvalid", with_detail("Invalid value", detail))
    }

    /// As [`Self::duplicate`], of a value that is not shown.
    pub fn duplicate_unshown(field: impl Into<String>) -> Self {
        Self::new(field, "FieldValueDuplicate", "Duplicate value".to_owned())
    }

    /// The value has another type.
    pub fn wrong_type(field: impl Into<String>, found: &str, detail: &str) -> Self {
        Self::new(field, "FieldValueTypeInvalid", with_detail(&format!("Invalid value: {found:?}"), detail))
    }

    /// Whether rules are not looked at after this error.
    pub fn blocks_rules(&self) -> bool {
        let blocking = [
            "FieldValueNotSupported",
            "FieldValueRequired",
            "FieldValueTooLong",
            "FieldValueTooMany",
            "FieldValueTypeInvalid",
        ];
        blocking.contains(&self.reason.as_str())
    }

    /// What stands for the rules after such an error.
    pub fn rules_not_checked() -> Self {
        let detail = "some validation rules were not checked because the object was invalid; correct the existing \
            errors to complete validation";
        Self::invalid("<nil>", &Value::Null, detail)
    }

    /// The value is none of those that may stand there.
    pub fn not_supported(field: impl Into<String>, value: &Value, allowed: &[impl fmt::Debug]) -> Self {
        let allowed: Vec<String> = allowed.iter().map(|value| format!("{value:?}")).collect();
        let mut body = format!("Unsupported value: {}", show(value));
        if !allowed.is_empty() {
            body.push_str(": supported values: ");
            body.push_str(&allowed.join(", "));
        }
        Self::new(field, "FieldValueNotSupported", body)
    }

    /// The value stands there twice.
    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self::new(field, "FieldValueDuplicate", format!("Duplicate value: {}", show(value)))
    }

    /// The same error of a value that stands at `path`.
    #[must_use]
    pub fn under(mut self, path: &str) -> Self {
        self.field = match self.field.as_str() {
            "" | "<nil>" => path.to_owned(),
            index if index.starts_with('[') => format!("{path}{index}"),
            field => format!("{path}.{field}"),
        };
        self
    }

    /// The text has more than `max` bytes.
    pub fn too_long(field: impl Into<String>, max: u64) -> Self {
        Self::new(field, "FieldValueTooLong", format!("Too long: may not be more than {max} bytes"))
    }

    /// The list has more than `max` items.
    pub fn too_many(field: impl Into<String>, actual: usize, max: u64) -> Self {
        Self::new(field, "FieldValueTooMany", format!("Too many: {actual}: must have at most {max} items"))
    }
}

/// A place in a document, and what was found to be wrong there and elsewhere. Steps from it are as `.name` and `[0]`.
pub(crate) struct Found<'a> {
    path: String,
    pub(crate) errors: &'a mut Vec<FieldError>,
}

impl<'a> Found<'a> {
    pub(crate) fn at(path: impl Into<String>, errors: &'a mut Vec<FieldError>) -> Self {
        Self { path: path.into(), errors }
    }

    pub(crate) fn below(&mut self, step: &str) -> Found<'_> {
        Found { path: self.path(step), errors: self.errors }
    }

    pub(crate) fn path(&self, step: &str) -> String {
        format!("{}{step}", self.path)
    }

    pub(crate) fn required(&mut self, step: &str, detail: &str) {
        self.errors.push(FieldError::required(self.path(step), detail));
    }

    pub(crate) fn forbidden(&mut self, step: &str, detail: &str) {
        self.errors.push(FieldError::forbidden(self.path(step), detail));
    }

    pub(crate) fn invalid(&mut self, step: &str, value: impl Into<Value>, detail: &str) {
        self.errors.push(FieldError::invalid(self.path(step), &value.into(), detail));
    }

    pub(crate) fn not_supported(&mut self, step: &str, value: impl Into<Value>, allowed: &[&str]) {
        self.errors.push(FieldError::not_supported(self.path(step), &value.into(), allowed));
    }

    /// Takes in errors of a value that stands here.
    pub(crate) fn all(&mut self, errors: impl IntoIterator<Item = FieldError>) {
        self.errors.extend(errors.into_iter().map(|error| error.under(&self.path)));
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field.is_empty() {
            f.write_str(&self.body)
        } else {
            write!(f, "{}: {}", self.field, self.body)
        }
    }
}

fn with_detail(what: &str, detail: &str) -> String {
    if detail.is_empty() { what.to_owned() } else { format!("{what}: {detail}") }
}

/// A value as it stands in an error: strings quoted, anything else as JSON.
fn show(value: &Value) -> String {
    let mut shown = match value {
        Value::String(text) => format!("{text:?}"),
        other => other.to_string(),
    };
    cut(&mut shown);
    shown
}

/// Leaves the beginning of a long text.
fn cut(text: &mut String) {
    if text.len() > LONGEST {
        text.truncate(text.floor_char_boundary(LONGEST));
        text.push_str("...");
    }
}

impl From<windlass_api::FieldError> for FieldError {
    fn from(error: windlass_api::FieldError) -> Self {
        let cause = StatusCause::from(&error);
        Self {
            field: error.field,
            reason: cause.reason.unwrap_or_default(),
            body: cause.message.unwrap_or_default(),
        }
    }
}
