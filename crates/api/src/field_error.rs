//! Errors about one field of an object.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::StatusCause;
use serde_json::Value;

use crate::health::ErrorDetails;

/// What is wrong with one field, and what to do about it.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// Path of the field, for example `spec.git.branch`.
    pub field: String,
    /// Kind of the error.
    pub reason: FieldErrorReason,
    /// What is wrong, for a reader.
    pub message: String,
    /// The value that was refused; never a secret.
    pub bad_value: Option<Value>,
}

/// Kind of a field error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldErrorReason {
    /// The field is missing.
    Required,
    /// The value cannot be.
    Invalid,
    /// The value is not one of those that are known.
    NotSupported,
    /// The field may not be set, or not be changed.
    Forbidden,
    /// The list is too long.
    TooMany,
    /// The text is too long.
    TooLong,
    /// The value is there already and has to be unique.
    Duplicate,
}

impl FieldErrorReason {
    /// The wire's name, as Kubernetes writes it in causes.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooMany => "FieldValueTooMany",
            Self::TooLong => "FieldValueTooLong",
            Self::Duplicate => "FieldValueDuplicate",
        }
    }

    fn prefix(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooMany => "Too many",
            Self::TooLong => "Too long",
            Self::Duplicate => "Duplicate value",
        }
    }
}

impl FieldError {
    fn new(
        field: &str,
        reason: FieldErrorReason,
        message: impl Into<String>,
        bad_value: Option<Value>,
    ) -> Self {
        Self { field: field.to_owned(), reason, message: message.into(), bad_value }
    }

    /// A missing field.
    pub fn required(field: &str, message: impl Into<String>) -> Self {
        Self::new(field, FieldErrorReason::Required, message, None)
    }

    /// A value that cannot be.
    pub fn invalid(field: &str, value: impl Into<Value>, message: impl Into<String>) -> Self {
        Self::new(field, FieldErrorReason::Invalid, message, Some(value.into()))
    }

    /// A value that is none of those that are known.
    pub fn not_supported(field: &str, value: impl Into<Value>, known: &[&str]) -> Self {
        let known: Vec<String> = known.iter().map(|name| format!("{name:?}")).collect();
        let message = format!("supported values: {}", known.join(", "));
        Self::new(field, FieldErrorReason::NotSupported, message, Some(value.into()))
    }

    /// This error, which a setting of the operators and of the API server decides.
    #[must_use]
    pub fn set_by(mut self, setting: &str) -> Self {
        self.message = format!("{}; {setting} decides which", self.message);
        self
    }

    /// A field that may not be set or changed.
    pub fn forbidden(field: &str, message: impl Into<String>) -> Self {
        Self::new(field, FieldErrorReason::Forbidden, message, None)
    }

    /// A list that is too long.
    pub fn too_many(field: &str, count: usize, most: usize) -> Self {
        let message = format!("must have at most {most} items");
        Self::new(field, FieldErrorReason::TooMany, message, Some(count.into()))
    }

    /// The error as a repository's status carries it.
    pub fn details(&self) -> ErrorDetails {
        ErrorDetails {
            kind: self.reason.as_str().to_owned(),
            field: self.field.clone(),
            detail: self.message.clone(),
            origin: String::new(),
            bad_value: self.bad_value.clone(),
        }
    }

    fn describe(&self) -> String {
        let prefix = self.reason.prefix();
        let value = self.bad_value.as_ref().map(|value| format!(": {value}")).unwrap_or_default();
        if self.message.is_empty() {
            format!("{prefix}{value}")
        } else {
            format!("{prefix}{value}: {}", self.message)
        }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.describe())
    }
}

impl std::error::Error for FieldError {}

impl From<&FieldError> for StatusCause {
    fn from(error: &FieldError) -> Self {
        Self {
            field: Some(error.field.clone()),
            message: Some(error.describe()),
            reason: Some(error.reason.as_str().to_owned()),
        }
    }
}

impl From<FieldError> for StatusCause {
    fn from(error: FieldError) -> Self {
        Self::from(&error)
    }
}
