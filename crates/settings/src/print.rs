//! The effective values, and the reference of all keys.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::{
    keys::{KEYS, Key, Kind},
    load::Values,
};

/// Every value with where it comes from, as an ini file that could be read again (but for the secrets).
pub(crate) fn effective(values: &Values) -> String {
    let mut out = String::new();
    let mut section = "";
    for (key, effective) in values.iter() {
        if key.section != section {
            section = key.section;
            let gap = if out.is_empty() { "" } else { "\n" };
            let _ = writeln!(out, "{gap}[{section}]");
        }
        let without_user = without_user(&effective.text);
        let shown = match without_user.as_ref() {
            "" => String::new(),
            _ if key.secret => "[redacted]".to_owned(),
            text if text.contains([';', '#', '\n', '"', '\'', '`']) => format!("\"\"\"{text}\"\"\""),
            text => text.to_owned(),
        };
        let assignment = format!("{} = {shown}", key.key);
        let _ = writeln!(out, "{assignment:<60} ; {}", effective.origin);
    }
    out
}

/// An address without the user and password in it: they belong into keys of their own, but are there before anybody says
/// so. Rather too much is taken away than too little.
fn without_user(text: &str) -> Cow<'_, str> {
    let Some((before, after)) = text.rsplit_once('@') else { return text.into() };
    let (scheme, user) = match before.split_once("://") {
        Some((scheme, user)) => (format!("{scheme}://"), user),
        // `user:password@host`, and neither `somebody@example.org` nor `git@example.org:path`.
        None if before.contains(':') => (String::new(), before),
        None => return text.into(),
    };
    if user.is_empty() { text.into() } else { format!("{scheme}[redacted]@{after}").into() }
}

/// What comes before the tables of the reference.
const REFERENCE: &str = "\
# Configuration reference

Every key of `operator.ini` that the operators read, as `windlass server target --config=conf/operator.ini`, `jobs-controller`, `repository-controller` and `flux-commit-tracker` take it.
A value comes from the first that has one: flag (`--set SECTION.KEY=VALUE` for any key), variable `GF_<SECTION>_<KEY>` (for the commit tracker then also the variables of grafana/flux-commit-tracker), file, default; `--print-config` prints what is in force and where it came from.

Durations are Go's: `30s`, `1h30m`.
`$__file{/path}` stands for what a file holds, `$__env{NAME}` for a variable.
An unknown key in one of these sections is an error; other sections are left alone.

";

/// The configuration reference: every key, in tables by section.
pub fn reference_markdown() -> String {
    let mut out = REFERENCE.to_owned();
    let mut section = "";
    for key in KEYS {
        if key.section != section {
            let gap = if section.is_empty() { "" } else { "\n" };
            section = key.section;
            let _ = writeln!(out, "{gap}## [{section}]\n");
            out.push_str(
                "| Key | Value | Default | Variable | What it does |\n| --- | --- | --- | --- | --- |\n",
            );
        }
        let _ = writeln!(
            out,
            "| `{}` | {} | {} | `{}` | {} |",
            key.key,
            kind(key.kind),
            default(key),
            key.variable(),
            description(key),
        );
    }
    out
}

fn default(key: &Key) -> String {
    if key.default.is_empty() { String::new() } else { code(key.default) }
}

/// A value as code in a table, where a bar has to be escaped.
fn code(text: &str) -> String {
    format!("`{}`", text.replace('|', "\\|"))
}

fn description(key: &Key) -> String {
    let mut text = key.description.replace('|', "\\|");
    if !key.required_for.is_empty() {
        let operators: Vec<String> = key.required_for.iter().map(|name| format!("`{name}`")).collect();
        let _ = write!(
            text,
            " Required for {}, unless a kubeconfig or the pod's service account is used.",
            operators.join(", ")
        );
    }
    if let Some(name) = key.original {
        let _ = write!(text, " The commit tracker reads `{name}` as well.");
    }
    if key.secret && !key.unused {
        text.push_str(" Never printed.");
    }
    text
}

fn kind(kind: Kind) -> String {
    match kind {
        Kind::Text => "text".to_owned(),
        Kind::Bool => "`true` or `false`".to_owned(),
        Kind::Integer(least, most) if most >= 1 << 40 => format!("number from {least}"),
        Kind::Integer(least, most) => format!("number from {least} to {most}"),
        Kind::Duration => "duration, 0 or more".to_owned(),
        Kind::PositiveDuration => "duration above 0".to_owned(),
        Kind::Path => "path".to_owned(),
        Kind::Paths => "paths, separated by `\\|`".to_owned(),
        Kind::List => "list, separated by `\\|`".to_owned(),
        Kind::Url => "URL".to_owned(),
        Kind::Origins => "origins, separated by `\\|`".to_owned(),
        Kind::Address => "`host:port`".to_owned(),
        Kind::Resources => "plurals with their groups, separated by `\\|`".to_owned(),
        Kind::Switch => "`auto`, `true` or `false`".to_owned(),
        Kind::Namespace => "namespace".to_owned(),
        Kind::Choice(known) => known.iter().map(|name| code(name)).collect::<Vec<_>>().join(" or "),
        Kind::Choices(known) => {
            let names: Vec<String> = known.iter().map(|name| code(name)).collect();
            format!("any of {}, separated by `\\|`", names.join(", "))
        }
    }
}
