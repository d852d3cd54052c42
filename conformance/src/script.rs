//! The language of scripts, read.

/// One script: requests in the order in which they are sent.
#[derive(Debug, Clone)]
pub struct Script {
    /// `area/title`.
    pub name: String,
    /// The `@name = value` lines of its file.
    pub values: Vec<(String, String)>,
    /// What is sent and read.
    pub steps: Vec<Step>,
}

/// One step of a script.
#[derive(Debug, Clone)]
pub struct Step {
    /// The line of the file that it starts at.
    pub line: usize,
    /// What is done.
    pub action: Action,
    /// Values to take from the answer: name and path.
    pub captures: Vec<(String, String)>,
    /// Compares no more than these parts of the body, when there are any.
    pub only: Vec<String>,
    /// The status that the real server must answer with, so that a script shows what it says.
    pub expected: Option<u16>,
}

/// What a step does.
#[derive(Debug, Clone)]
pub enum Action {
    /// Sends a request and reads its answer.
    Send(Request),
    /// Sends a request again until a condition holds; only the last answer counts.
    Wait {
        /// What is sent.
        request: Request,
        /// When to stop: a status code, or a path and the text that it must hold.
        until: Until,
    },
    /// Opens a watch, which is then read by [`Action::Read`].
    Watch {
        /// What the watch is called.
        name: String,
        /// What is sent.
        request: Request,
    },
    /// Reads from an open watch.
    Read {
        /// Which watch.
        name: String,
        /// How far.
        amount: Amount,
    },
}

/// When [`Action::Wait`] is over.
#[derive(Debug, Clone)]
pub enum Until {
    /// The answer has this status code.
    Status(u16),
    /// The value at this path of the body is this text.
    Equal(String, String),
}

/// How much [`Action::Read`] reads.
#[derive(Debug, Clone)]
pub enum Amount {
    /// That many events other than bookmarks.
    Events(usize),
    /// Everything up to the end of the watch.
    End,
    /// Everything up to and with the next bookmark.
    Bookmark,
    /// Everything up to and with the first event of the object of this name.
    Named(String),
}

/// An HTTP request, its text not yet expanded.
#[derive(Debug, Clone)]
pub struct Request {
    /// The method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Header names and values.
    pub headers: Vec<(String, String)>,
    /// What is sent as the body.
    pub body: Body,
}

/// The body of a request.
#[derive(Debug, Clone)]
pub enum Body {
    /// None at all.
    Empty,
    /// YAML in the script, sent as JSON.
    Json(String),
    /// Sent as it stands.
    Raw(String),
}

/// A script that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct ScriptError {
    /// Where.
    pub line: usize,
    /// Why.
    pub problem: String,
}

impl Step {
    /// The step as one line.
    pub fn summary(&self) -> String {
        match &self.action {
            Action::Send(request) => format!("{} {}", request.method, request.path),
            Action::Wait { request, .. } => format!("WAIT {}", request.path),
            Action::Watch { name, request } => format!("WATCH {name} {}", request.path),
            Action::Read { name, amount } => match amount {
                Amount::Events(count) => format!("READ {name} {count}"),
                Amount::End => format!("READ {name} end"),
                Amount::Bookmark => format!("READ {name} bookmark"),
                Amount::Named(object) => format!("READ {name} to {object}"),
            },
        }
    }
}

const METHODS: &[&str] = &["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE"];

/// Methods that say the kind of patch.
const PATCHES: &[(&str, &str)] = &[
    ("MERGE", "application/merge-patch+json"),
    ("JSONPATCH", "application/json-patch+json"),
    ("STRATEGIC", "application/strategic-merge-patch+json"),
    ("APPLY", "application/apply-patch+yaml"),
];

/// The scripts of a file; `area` is the file's name without its extension.
pub fn parse(area: &str, text: &str) -> Result<Vec<Script>, ScriptError> {
    let mut values = Vec::new();
    let mut scripts: Vec<Script> = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at];
        let number = at + 1;
        at += 1;
        let problem = |problem: &str| ScriptError { line: number, problem: format!("{problem}: {line}") };
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(definition) = line.strip_prefix('@') {
            let (name, value) = definition.split_once('=').ok_or_else(|| problem("no `=`"))?;
            values.push((name.trim().to_owned(), value.trim().to_owned()));
            continue;
        }
        if let Some(title) = line.strip_prefix("=== ") {
            let name = format!("{area}/{}", title.trim());
            if scripts.iter().any(|script| script.name == name) {
                return Err(problem("a second script of this name"));
            }
            scripts.push(Script { name, values: Vec::new(), steps: Vec::new() });
            continue;
        }
        let script = scripts.last_mut().ok_or_else(|| problem("no `=== title` before"))?;
        if let Some(directive) = line.strip_prefix("> ") {
            let step = script.steps.last_mut().ok_or_else(|| problem("no request before"))?;
            directive_of(step, directive).ok_or_else(|| problem("no such directive"))?;
            continue;
        }
        let action = action(line, &lines, &mut at).ok_or_else(|| problem("neither request nor directive"))?;
        script.steps.push(Step {
            line: number,
            action,
            captures: Vec::new(),
            only: Vec::new(),
            expected: None,
        });
    }
    for script in &mut scripts {
        script.values.clone_from(&values);
    }
    Ok(scripts)
}

/// `> 409`, `> only .path`, `> name = .path`
fn directive_of(step: &mut Step, directive: &str) -> Option<()> {
    if let Some(path) = directive.strip_prefix("only ") {
        step.only.push(path.trim().to_owned());
    } else if let Some((name, path)) = directive.split_once(" = ") {
        step.captures.push((name.trim().to_owned(), path.trim().to_owned()));
    } else {
        step.expected = Some(directive.split(' ').next()?.parse().ok()?);
    }
    Some(())
}

/// The action that `line` starts; `at` is moved behind its headers and body.
fn action(line: &str, lines: &[&str], at: &mut usize) -> Option<Action> {
    let (method, rest) = line.split_once(' ')?;
    match method {
        "READ" => {
            let (name, amount) = rest.split_once(' ')?;
            let amount = match amount {
                "end" => Amount::End,
                "bookmark" => Amount::Bookmark,
                other => match other.strip_prefix("to ") {
                    Some(object) => Amount::Named(object.to_owned()),
                    None => Amount::Events(other.parse().ok()?),
                },
            };
            Some(Action::Read { name: name.to_owned(), amount })
        }
        "WAIT" => {
            let (path, until) = rest.split_once(" until ")?;
            let until = match until.split_once(" = ") {
                Some((path, wanted)) => Until::Equal(path.to_owned(), wanted.to_owned()),
                None => Until::Status(until.parse().ok()?),
            };
            Some(Action::Wait { request: request("GET", path, lines, at), until })
        }
        "WATCH" => {
            let (name, path) = rest.split_once(' ')?;
            let separator = if path.contains('?') { '&' } else { '?' };
            let path = format!("{path}{separator}watch=true");
            Some(Action::Watch { name: name.to_owned(), request: request("GET", &path, lines, at) })
        }
        method if METHODS.contains(&method) => Some(Action::Send(request(method, rest, lines, at))),
        method => {
            let (_, content_type) = PATCHES.iter().find(|(name, _)| *name == method)?;
            let mut request = request("PATCH", rest, lines, at);
            if let (Body::Json(text), "APPLY") = (&request.body, method) {
                request.body = Body::Raw(text.clone());
            }
            request.headers.push(("Content-Type".to_owned(), (*content_type).to_owned()));
            Some(Action::Send(request))
        }
    }
}

fn request(method: &str, path: &str, lines: &[&str], at: &mut usize) -> Request {
    let mut headers = Vec::new();
    let mut raw = false;
    while let Some((name, value)) = lines.get(*at).and_then(|line| header(line)) {
        *at += 1;
        if name == "Body" {
            raw = value == "raw";
        } else {
            headers.push((name.to_owned(), value.to_owned()));
        }
    }
    let mut body: Vec<&str> = Vec::new();
    while let Some(line) = lines.get(*at)
        && !starts_something(line)
    {
        body.push(line);
        *at += 1;
    }
    // Comments before the next request are its own.
    while body.last().is_some_and(|line| line.trim().is_empty() || line.starts_with('#')) {
        body.pop();
    }
    let text = body.join("\n").trim_start_matches('\n').to_owned();
    let body = match (text.is_empty(), raw) {
        (true, _) => Body::Empty,
        (false, true) => Body::Raw(text),
        (false, false) => Body::Json(text),
    };
    if matches!(body, Body::Json(_))
        && method != "PATCH"
        && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"))
    {
        headers.push(("Content-Type".to_owned(), "application/json".to_owned()));
    }
    Request { method: method.to_owned(), path: path.trim().to_owned(), headers, body }
}

fn starts_something(line: &str) -> bool {
    line.starts_with("=== ")
        || line.starts_with("> ")
        || line.split_once(' ').is_some_and(|(word, _)| {
            METHODS.contains(&word)
                || PATCHES.iter().any(|(name, _)| *name == word)
                || matches!(word, "READ" | "WAIT" | "WATCH")
        })
}

fn header(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(": ").or_else(|| line.strip_suffix(':').map(|name| (name, "")))?;
    let is_name = name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    is_name.then(|| (name, value.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# The file's own comment.
@cm = /api/v1/configmaps

=== a stale update is a conflict
# Says why.
POST {{cm}}
Accept: application/yaml

kind: ConfigMap
# inside
data: {a: b}

# about the next
> 201 Created
> rv = .metadata.resourceVersion
MERGE {{cm}}/a
{data: null}
WATCH w {{cm}}?x=y
READ w 2
WAIT {{cm}}/a until .status.phase = Active

=== another
DELETE {{cm}}/a
Body: raw

{not json
> only .a
> only .b
";

    #[test]
    fn files_hold_scripts_of_requests() {
        let scripts = parse("area", TEXT).unwrap();
        let names: Vec<&str> = scripts.iter().map(|script| script.name.as_str()).collect();
        assert_eq!(names, ["area/a stale update is a conflict", "area/another"]);
        let steps: Vec<String> = scripts[0].steps.iter().map(Step::summary).collect();
        assert_eq!(
            steps,
            ["POST {{cm}}", "PATCH {{cm}}/a", "WATCH w {{cm}}?x=y&watch=true", "READ w 2", "WAIT {{cm}}/a"]
        );
        let create = &scripts[0].steps[0];
        assert_eq!(create.expected, Some(201));
        assert_eq!(create.captures, [("rv".to_owned(), ".metadata.resourceVersion".to_owned())]);
        let Action::Send(request) = &create.action else { panic!("a request") };
        let Body::Json(body) = &request.body else { panic!("a body") };
        assert_eq!(body, "kind: ConfigMap\n# inside\ndata: {a: b}");
        assert_eq!(request.headers.len(), 2);
        let last = &scripts[1].steps[0];
        assert_eq!(last.only, [".a", ".b"]);
        assert!(
            matches!(&last.action, Action::Send(Request { body: Body::Raw(text), .. }) if text == "{not json")
        );
    }

    #[test]
    fn what_is_no_request_is_an_error_with_its_line() {
        for (text, line) in
            [("GET /x", 1), ("=== a\nnonsense", 2), ("=== a\nREAD w many", 2), ("=== a\n> 1 = x", 2)]
        {
            assert_eq!(parse("area", text).unwrap_err().line, line, "{text}");
        }
    }
}
