//! The effective values, and the reference of all keys.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::{
    key::Key,
    keys::{UNUSED, keys},
    values::Merged,
};

/// Every value with where it comes from, as an ini file that could be read again (but for the secrets).
pub(crate) fn effective(values: &Merged) -> String {
    let mut out = String::new();
    let mut section = "";
    for key in keys() {
        if key.section != section {
            section = key.section;
            let gap = if out.is_empty() { "" } else { "\n" };
            let _ = writeln!(out, "{gap}[{section}]");
        }
        let without_user = without_user(values.text(key.section, key.name));
        let shown = match without_user.as_ref() {
            "" => String::new(),
            _ if key.secret => "[redacted]".to_owned(),
            text if text.contains([';', '#', '\n', '"', '\'', '`']) => format!("\"\"\"{text}\"\"\""),
            text => text.to_owned(),
        };
        let assignment = format!("{} = {shown}", key.name);
        let _ = writeln!(out, "{assignment:<60} ; {}", values.origin(key.section, key.name));
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

Every key of `operator.ini` that the operators read, as `windlass server target --config=conf/operator.ini`, `jobs-controller`, `repository-controller`, `source-controller` and `flux-commit-tracker` take it.
A value comes from the first that has one: flag (`--set SECTION.KEY=VALUE` for any key), variable `GF_<SECTION>_<KEY>` (for the commit tracker then also the variables of grafana/flux-commit-tracker), file, default; `--print-config` prints what is in force and where it came from.

Durations are Go's: `30s`, `1h30m`.
`$__file{/path}` stands for what a file holds, `$__env{NAME}` for a variable.
An unknown key in one of these sections is an error; other sections are left alone.

";

/// The configuration reference: every key, in tables by section.
pub fn reference_markdown() -> String {
    let mut out = REFERENCE.to_owned();
    let mut section = "";
    for key in keys() {
        if key.section != section {
            let gap = if section.is_empty() { "" } else { "\n" };
            section = key.section;
            let _ = writeln!(out, "{gap}## [{section}]\n");
            out.push_str(
                "| Key | Value | Default | Variable | What it does |\n| --- | --- | --- | --- | --- |\n",
            );
        }
        let default =
            if key.default.is_empty() { String::new() } else { format!("`{}`", escaped(key.default)) };
        let (name, form, variable) = (key.name, (key.form)(), key.variable());
        let _ = writeln!(out, "| `{name}` | {form} | {default} | `{variable}` | {} |", description(key));
    }
    out.push_str(
        "\n## Keys that are accepted and not used\n\nA file that was written for Grafana may have them.\n\n",
    );
    for (section, names) in UNUSED {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        let _ = writeln!(out, "- `[{section}]`: {}", names.join(", "));
    }
    out
}

/// A text in a table, where a bar has to be escaped.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|")
}

fn description(key: &Key) -> String {
    let lines: Vec<&str> = key.description.iter().map(|line| line.trim()).collect();
    let mut text = escaped(&lines.join(" "));
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
    if key.secret {
        text.push_str(" Never printed.");
    }
    text
}
