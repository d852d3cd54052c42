//! The reasons of a job's results that are no file's or object's, and the reference of all.

use std::fmt::Write as _;

use windlass_resources::Reason;

/// The repository cannot be worked on as it is.
pub(crate) const SKIPPED: &str = "Skipped";
/// What was to be deleted is not there.
pub(crate) const NOT_FOUND: &str = "NotFound";

const OWN: [(&str, &str); 2] = [
    (NOT_FOUND, "What the job was to delete is not there."),
    (SKIPPED, "Nothing was tried: the repository's credentials are refused, or it is paused."),
];

/// The reasons that a job's results and `status.unsynced` may give, as a table in Markdown.
pub fn reasons_reference() -> String {
    let mut text = "| Reason | The job ends as | What it means |\n| --- | --- | --- |\n".to_owned();
    let known = Reason::ALL.iter().map(|reason| (reason.as_str(), reason.is_warning(), reason.meaning()));
    for (word, is_warning, meaning) in known.chain(OWN.map(|(word, meaning)| (word, true, meaning))) {
        let ends = if is_warning { "warning" } else { "error" };
        // Writing to a string does not fail.
        let _ = writeln!(text, "| `{word}` | {ends} | {meaning} |");
    }
    text
}
