//! The text of the comment. Pure. Names, titles and errors come from whoever opened the pull request: nothing of theirs is
//! Markdown, a link or a mention. Grafana: `webhooks/pullrequest/commenter.go`.

use std::fmt::Write as _;

use super::look::{Action, FileReport};

/// Characters of an error that are told.
const LONGEST_ERROR: usize = 256;
/// Characters of a name or a title that are told.
const LONGEST_NAME: usize = 200;

/// What is told.
pub(super) enum Comment {
    /// It comes from a fork.
    Fork,
    /// What merging it would do.
    Files {
        /// Each file that was looked at; one at least.
        files: Vec<FileReport>,
        /// How many were not.
        skipped: usize,
        /// Whether there are more than GitHub lists.
        truncated: bool,
    },
}

/// What stands under each comment.
pub(super) struct Footer<'a> {
    /// Title of the repository.
    pub(super) repository: &'a str,
    /// What the comment is known by.
    pub(super) marker: &'a str,
}

impl Comment {
    /// The comment as Markdown.
    pub(super) fn render(&self, footer: &Footer<'_>) -> String {
        let mut text = String::from("Hey there! 👋\n");
        match self {
            Self::Fork => text.push_str(
                "\nPreviews are not supported for pull requests of forks. Push the branch to this repository to have \
                 one.\n",
            ),
            Self::Files { files, skipped: 0, truncated: false }
                if files.len() == 1 && files[0].is_dashboard() =>
            {
                single(&mut text, &files[0]);
            }
            Self::Files { files, skipped, truncated } => table(&mut text, files, *skipped, *truncated),
        }
        let title = plain(footer.repository, LONGEST_NAME);
        let marker = footer.marker;
        let _ = write!(text, "\n---\n<sub>Told by Windlass for the repository {title}.</sub>\n{marker}\n");
        text
    }
}

fn single(text: &mut String, file: &FileReport) {
    let title = plain(&file.title, LONGEST_NAME);
    let path = linked(&plain(&file.path, LONGEST_NAME), file.source.as_deref());
    let _ = write!(text, "\nMerging this will {} the dashboard **{title}** ({path}).\n", verb(file.action));
    let links = [("the dashboard as it is", &file.current), ("a preview of it", &file.preview)];
    let links: Vec<String> =
        links.into_iter().filter_map(|(name, url)| Some(linked(name, Some(url.as_deref()?)))).collect();
    if !links.is_empty() {
        let _ = write!(text, "\nSee {}.\n", links.join(" and "));
    }
    if let Some(error) = &file.error {
        let _ = write!(text, "\n⚠️ It would not be taken:\n\n> {}\n", plain(error, LONGEST_ERROR));
    }
}

fn table(text: &mut String, files: &[FileReport], skipped: usize, truncated: bool) {
    text.push_str("\nThis is what merging would do:\n\n");
    text.push_str("| Action | Kind | Resource | File | Preview | Status |\n");
    text.push_str("| --- | --- | --- | --- | --- | --- |\n");
    for file in files {
        let title = linked(&plain(&file.title, LONGEST_NAME), file.current.as_deref());
        let path = linked(&plain(&file.path, LONGEST_NAME), file.source.as_deref());
        let preview = file.preview.as_deref().map_or_else(String::new, |url| linked("preview", Some(url)));
        let status = if file.error.is_some() { "⚠️" } else { "✅" };
        let (verb, kind) = (verb(file.action), plain(&file.kind, LONGEST_NAME));
        let _ = writeln!(text, "| {verb} | {kind} | {title} | {path} | {preview} | {status} |");
    }
    if skipped > 0 {
        let least = if truncated { " at least" } else { "" };
        let _ = write!(text, "\nand{least} {skipped} more files, which were not looked at.\n");
    }
    let failed: Vec<&FileReport> = files.iter().filter(|file| file.error.is_some()).collect();
    if failed.is_empty() {
        return;
    }
    text.push_str("\n#### What would not be taken\n\n| File | Error |\n| --- | --- |\n");
    for file in failed {
        let error = plain(file.error.as_deref().unwrap_or_default(), LONGEST_ERROR);
        let _ = writeln!(text, "| {} | {error} |", plain(&file.path, LONGEST_NAME));
    }
}

fn verb(action: Action) -> &'static str {
    match action {
        Action::Create => "create",
        Action::Update => "update",
        Action::Move => "move",
        Action::Delete => "delete",
    }
}

/// `text`, which is Markdown, as a link. A URL has nothing in it that would end it.
fn linked(text: &str, url: Option<&str>) -> String {
    let good = |url: &&str| {
        url.starts_with("http")
            && url.bytes().all(|byte| byte.is_ascii_graphic() && !b"()<>\\|`\"".contains(&byte))
    };
    match url.filter(good) {
        Some(url) if !text.is_empty() => format!("[{text}]({url})"),
        _ => text.to_owned(),
    }
}

/// Somebody's text as Markdown that shows it and does nothing: one line, at most `longest` characters of it.
///
/// GitHub looks for mentions, references and bare links in what has been rendered, where an escape is gone: a character
/// without width keeps them apart.
fn plain(text: &str, longest: usize) -> String {
    const APART: char = '\u{200b}';
    let mut shown = String::new();
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for (index, c) in flat.chars().filter(|c| !is_steering(*c)).enumerate() {
        if index == longest {
            shown.push('…');
            break;
        }
        match c {
            '@' | ':' | '.' => shown.extend([c, APART]),
            '#' => shown.extend(['\\', c, APART]),
            '<' => shown.push_str("&lt;"),
            '>' => shown.push_str("&gt;"),
            '&' => shown.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '(' | ')' | '+' | '-' | '!' | '|' | '~'
            | '=' | '$' => shown.extend(['\\', c]),
            c => shown.push(c),
        }
    }
    shown
}

/// What is not seen, or turns the direction of what is.
fn is_steering(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests;
