//! Reading a request's query string.

use axum::extract::Query as AxumQuery;
use http::Uri;
use serde_json::Value;

use crate::failure::{Failure, FieldError, Result};
use crate::kinds::ServedKind;
use windlass_apimachinery::selector::{FieldSelector, LabelSelector};

/// The parameters of a query string, in order.
#[derive(Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(uri: &Uri) -> Result<Self> {
        let AxumQuery(pairs) = AxumQuery::<Vec<(String, String)>>::try_from_uri(uri)
            .map_err(|error| Failure::bad_request(error.to_string()))?;
        Ok(Self(pairs))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        // As Go's conversion of query parameters has it: present and not false is true.
        self.0
            .iter()
            .find(|(key, _)| key == name)
            .is_some_and(|(_, value)| !matches!(value.to_ascii_lowercase().as_str(), "false" | "0"))
    }

    /// A parameter that is a number, if it is there.
    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>> {
        let Some((_, text)) = self.0.iter().find(|(key, _)| key == name) else { return Ok(None) };
        text.parse().map(Some).map_err(|error: std::num::ParseIntError| {
            Failure::bad_request(format!("{name}: Invalid value: {text:?}: {error}"))
        })
    }

    /// `resourceVersion` as a number; 0 is "any". A list (`listed`) says more of a bad one than others do.
    pub(crate) fn version(&self, listed: bool) -> Result<Option<u64>> {
        let Some(text) = self.get("resourceVersion") else { return Ok(None) };
        text.parse().map(Some).map_err(|error: std::num::ParseIntError| {
            let prefix = if listed { "invalid resource version: " } else { "" };
            Failure::bad_request(format!("{prefix}resourceVersion: Invalid value: {text:?}: {error}"))
        })
    }
}

/// How a list's resourceVersion is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VersionMatch {
    Exact,
    NotOlderThan,
}

/// What a list or a watch asks for.
#[derive(Debug, Default)]
pub(crate) struct ListQuery {
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
    pub(crate) limit: usize,
    pub(crate) continue_token: Option<String>,
    pub(crate) version: Option<u64>,
    pub(crate) version_match: Option<VersionMatch>,
    pub(crate) watch: bool,
    pub(crate) bookmarks: bool,
    pub(crate) send_initial_events: Option<bool>,
    pub(crate) timeout_seconds: Option<u64>,
}

impl ListQuery {
    /// Of a list of objects in this version of their kind.
    pub(crate) fn parse(query: &Query, served: &ServedKind) -> Result<Self> {
        let version_match = query.get("resourceVersionMatch");
        let number = |name: &str| query.number(name).map(|number| number.filter(|number| *number > 0));
        let parsed = Self {
            labels: LabelSelector::parse(query.get("labelSelector").unwrap_or_default())
                .map_err(Failure::bad_request)?,
            fields: FieldSelector::parse(query.get("fieldSelector").unwrap_or_default(), served.selectable())
                .map_err(Failure::bad_request)?
                .stored(served.served().renames),
            limit: number("limit")?.map_or(0, |limit| usize::try_from(limit).unwrap_or(usize::MAX)),
            continue_token: query.get("continue").map(str::to_owned),
            version: None,
            version_match: match version_match {
                Some("Exact") => Some(VersionMatch::Exact),
                Some("NotOlderThan") => Some(VersionMatch::NotOlderThan),
                _ => None,
            },
            watch: query.flag("watch"),
            bookmarks: query.flag("allowWatchBookmarks"),
            send_initial_events: query.get("sendInitialEvents").map(|_| query.flag("sendInitialEvents")),
            timeout_seconds: number("timeoutSeconds")?.map(i64::unsigned_abs),
        };
        let errors = parsed.check(version_match, query.get("resourceVersion"));
        Failure::refuse("ListOptions", "meta.k8s.io", "", errors)?;
        let version = query.version(!parsed.watch)?;
        if !parsed.watch && parsed.continue_token.is_some() && version.is_some_and(|version| version > 0) {
            return Err(Failure::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        Ok(Self { version, ..parsed })
    }

    /// The combinations that are refused, as a real server refuses them.
    fn check(&self, version_match: Option<&str>, version: Option<&str>) -> Vec<FieldError> {
        const MATCH: &str = "resourceVersionMatch";
        let wanted = version_match.unwrap_or_default();
        let (is_matched, is_continued) = (version_match.is_some(), self.continue_token.is_some());
        let (is_initial, not_older) = (self.send_initial_events.is_some(), wanted == "NotOlderThan");
        let with_continue = "resourceVersionMatch is forbidden when continue is provided";
        let forbidden = |holds: bool, detail: &str| holds.then(|| FieldError::forbidden(MATCH, detail));
        let supported = |holds: bool, allowed: &[&str]| {
            let allowed: Vec<String> = allowed.iter().map(|one| (*one).to_owned()).collect();
            (is_matched && !holds).then(|| FieldError::not_supported(MATCH, &wanted.into(), &allowed))
        };
        let detail = "sendInitialEvents is forbidden for list";
        let errors = if self.watch {
            [
                forbidden(
                    is_initial && !not_older,
                    "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                ),
                forbidden(
                    is_matched && !is_initial,
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                ),
                supported(not_older, &["NotOlderThan"]),
                forbidden(is_matched && is_continued, with_continue),
                None,
            ]
        } else {
            [
                forbidden(
                    is_matched && version.is_none(),
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                ),
                forbidden(is_matched && is_continued, with_continue),
                supported(self.version_match.is_some(), &["Exact", "NotOlderThan", ""]),
                forbidden(
                    wanted == "Exact" && version == Some("0"),
                    "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                ),
                is_initial.then(|| FieldError::forbidden("sendInitialEvents", detail)),
            ]
        };
        errors.into_iter().flatten().collect()
    }
}

/// What is done about fields that the schema does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Strict,
    Warn,
    Ignore,
}

/// What a write asks for beside its body.
#[derive(Debug, Clone)]
pub(crate) struct WriteQuery {
    pub(crate) dry_run: bool,
    pub(crate) field_validation: FieldValidation,
    /// Under which name the fields are owned that are written; empty for the name in the User-Agent.
    pub(crate) field_manager: String,
    /// Whether an apply takes fields from their managers; `None` when not given.
    pub(crate) force: Option<bool>,
}

/// The longest name of a field manager, in bytes.
pub(crate) const FIELD_MANAGER_MAX: usize = 128;

impl WriteQuery {
    /// `options` is the kind that errors name: `CreateOptions`, …; `ApplyOptions` for an apply patch.
    pub(crate) fn parse(query: &Query, options: &str) -> Result<Self> {
        let mut errors = Vec::new();
        let field_manager = query.get("fieldManager").unwrap_or_default().to_owned();
        let force = query.get("force").map(|_| query.flag("force"));
        match options {
            "ApplyOptions" if field_manager.is_empty() => {
                errors.push(FieldError::required("fieldManager", "is required for apply patch"));
            }
            "PatchOptions" if force.is_some() => {
                errors.push(FieldError::forbidden("force", "may not be specified for non-apply patch"));
            }
            _ => {}
        }
        check_field_manager(&field_manager, &mut errors);
        let mut dry_run = false;
        let values: Vec<&str> = query.all("dryRun").collect();
        if values.iter().all(|value| *value == "All") {
            dry_run = !values.is_empty();
        } else {
            errors.push(dry_run_error(&values));
        }
        let field_validation = match query.get("fieldValidation") {
            Some("Strict") => FieldValidation::Strict,
            None | Some("Warn") => FieldValidation::Warn,
            Some("Ignore") => FieldValidation::Ignore,
            Some(other) => {
                errors.push(FieldError::not_supported(
                    "fieldValidation",
                    &Value::String(other.to_owned()),
                    &["", "Ignore", "Strict", "Warn"].map(str::to_owned),
                ));
                FieldValidation::Warn
            }
        };
        let options = if options == "ApplyOptions" { "PatchOptions" } else { options };
        Failure::refuse(options, "meta.k8s.io", "", errors)?;
        Ok(Self { dry_run, field_validation, field_manager, force })
    }
}

/// Refuses names of field managers that are too long or cannot be printed.
fn check_field_manager(name: &str, errors: &mut Vec<FieldError>) {
    if name.len() > FIELD_MANAGER_MAX {
        errors.push(FieldError::too_long("fieldManager", FIELD_MANAGER_MAX as u64));
    }
    for (position, c) in name.char_indices().filter(|(_, c)| !is_printable(*c)) {
        let detail = format!("invalid character U+{:04X} (at position {position})", u32::from(c));
        errors.push(FieldError::invalid("fieldManager", &Value::String(name.to_owned()), &detail));
    }
}

/// Whether Go prints this character: of spaces only the plain one.
pub(crate) fn is_printable(c: char) -> bool {
    c == ' ' || !(c.is_control() || c.is_whitespace())
}

/// A dryRun that is not only `All`.
pub(crate) fn dry_run_error(values: &[&str]) -> FieldError {
    FieldError::not_supported("dryRun", &values.iter().copied().collect(), &["All".to_owned()])
}
