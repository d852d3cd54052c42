//! The bodies of answers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use crate::description::Description;
use crate::limit::Limit;
use crate::objects::{self, Commit, PERSON};
use crate::repository::Repository;

/// Files up to this size have their content in the answer; larger ones only their hash.
pub(crate) const INLINE: usize = 1 << 20;

/// Where the links of an answer begin: the API's URL, and `owner/name`.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) api: String,
    pub(crate) repository: String,
}

impl Place {
    pub(crate) fn link(&self, path: &str) -> String {
        format!("{}/repos/{}/{path}", self.api, self.repository)
    }

    fn page(&self, path: &str) -> String {
        format!("{}/{}/{path}", self.api, self.repository)
    }

    fn parents(&self, commit: &Commit) -> Vec<Value> {
        let one = |sha: &String| {
            json!({ "sha": sha, "url": self.link(&format!("commits/{sha}")),
                    "html_url": self.page(&format!("commit/{sha}")) })
        };
        commit.parents.iter().map(one).collect()
    }
}

fn person(commit: &Commit) -> Value {
    let (name, email) = PERSON;
    json!({ "name": name, "email": email, "date": commit.committed.to_string() })
}

fn unsigned() -> Value {
    json!({ "verified": false, "reason": "unsigned", "signature": null, "payload": null, "verified_at": null })
}

/// An element of `commits`.
pub(crate) fn listed_commit(place: &Place, commit: &Commit) -> Value {
    let sha = &commit.sha;
    json!({
        "sha": sha,
        "node_id": node("C", sha),
        "url": place.link(&format!("commits/{sha}")),
        "html_url": place.page(&format!("commit/{sha}")),
        "comments_url": place.link(&format!("commits/{sha}/comments")),
        "commit": {
            "url": place.link(&format!("git/commits/{sha}")),
            "author": person(commit),
            "committer": person(commit),
            "message": commit.message,
            "comment_count": 0,
            "tree": { "sha": commit.tree, "url": place.link(&format!("git/trees/{}", commit.tree)) },
            "verification": unsigned(),
        },
        "author": null,
        "committer": null,
        "parents": place.parents(commit),
    })
}

/// `contents/{path}` of a file.
pub(crate) fn file(place: &Place, path: &str, reference: &str, bytes: &[u8]) -> Value {
    let mut value = entry(place, path, reference, "file", &objects::blob(bytes), bytes.len());
    let inline = bytes.len() <= INLINE;
    value["encoding"] = json!(if inline { "base64" } else { "none" });
    value["content"] = json!(if inline { encoded(bytes) } else { String::new() });
    value
}

/// `contents/{path}` of a folder with these files.
pub(crate) fn folder(place: &Place, path: &str, reference: &str, files: &[(String, String, usize)]) -> Value {
    let mut value = entry(place, path, reference, "dir", &objects::blob(path.as_bytes()), 0);
    let entries = files
        .iter()
        .map(|(name, sha, size)| entry(place, &format!("{path}/{name}"), reference, "file", sha, *size));
    value["entries"] = entries.collect();
    value
}

fn entry(place: &Place, path: &str, reference: &str, kind: &str, sha: &str, size: usize) -> Value {
    let (below, reference) = (encode(path), encode(reference));
    let url = place.link(&format!("contents/{below}?ref={reference}"));
    let git = place.link(&format!("git/blobs/{sha}"));
    let html = place.page(&format!("blob/{reference}/{below}"));
    json!({
        "type": kind,
        "name": path.rsplit('/').next(),
        "path": path,
        "sha": sha,
        "size": size,
        "url": url,
        "git_url": git,
        "html_url": html,
        "download_url": if kind == "file" { json!(place.page(&format!("raw/{reference}/{below}"))) } else { Value::Null },
        "_links": { "self": url, "git": git, "html": html },
    })
}

/// `git/blobs/{sha}`.
pub(crate) fn blob(place: &Place, sha: &str, bytes: &[u8]) -> Value {
    json!({
        "sha": sha,
        "node_id": node("B", sha),
        "size": bytes.len(),
        "url": place.link(&format!("git/blobs/{sha}")),
        "content": encoded(bytes),
        "encoding": "base64",
    })
}

/// `rate_limit`.
pub(crate) fn limits(limit: Limit) -> Value {
    let core = json!({ "limit": limit.most, "used": limit.used, "remaining": limit.remaining(), "reset": limit.reset });
    json!({ "resources": { "core": core, "search": core }, "rate": core })
}

/// A user.
pub(crate) fn user(description: &Description, login: &str) -> Value {
    let mut user = description.least_schema("simple-user");
    user["login"] = json!(login);
    user
}

/// What is said of a repository, put into `body`.
pub(crate) fn describe_repository(body: &mut Value, repository: &Repository, can_push: bool) {
    let name = repository.name();
    body["id"] = json!(repository.number());
    body["name"] = json!(name.rsplit('/').next());
    body["full_name"] = json!(name);
    body["private"] = json!(repository.is_private());
    body["default_branch"] = json!("main");
    body["permissions"] = json!({ "admin": false, "push": can_push, "pull": true });
}

/// A refusal or a failure.
pub(crate) fn error(status: u16, message: &str) -> Value {
    json!({ "message": message, "documentation_url": "https://docs.github.com/rest", "status": status.to_string() })
}

/// A path as URLs have it.
fn encode(path: &str) -> String {
    const RESERVED: &AsciiSet =
        &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');
    utf8_percent_encode(path, RESERVED).to_string()
}

/// Base64 in lines, as GitHub gives it.
pub(crate) fn encoded(bytes: &[u8]) -> String {
    let text = STANDARD.encode(bytes);
    let mut lines = String::with_capacity(text.len() + text.len() / 60 + 1);
    for line in text.as_bytes().chunks(60) {
        lines.push_str(&String::from_utf8_lossy(line));
        lines.push('\n');
    }
    lines
}

fn node(kind: &str, sha: &str) -> String {
    STANDARD.encode(format!("{kind}_{sha}"))
}
