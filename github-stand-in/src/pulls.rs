//! Pull requests of a repository, and the comments on them.

mod stored;

use axum::http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};

pub use self::stored::StoredComment;
pub(crate) use self::stored::StoredPull;

use crate::answers;
use crate::description::Description;
use crate::reply::Reply;
use crate::repository::Repository;
use crate::request::Incoming;

const PULL: &str = "GET /repos/{owner}/{repo}/pulls/{pull_number}";
const FILES: &str = "GET /repos/{owner}/{repo}/pulls/{pull_number}/files";
const COMMENTS: &str = "GET /repos/{owner}/{repo}/issues/{issue_number}/comments";

impl Repository {
    /// Opens a pull request of `branch` into `main` that changes `files` (path, GitHub's word for the change, and the path
    /// before, if that was another), and answers its number.
    pub fn open_pull(&self, title: &str, branch: &str, files: &[(&str, &str, Option<&str>)]) -> u64 {
        let sha = |name: &str| {
            self.commit(name)
                .or_else(|| self.commit("main"))
                .map(|commit| commit.sha.clone())
                .unwrap_or_default()
        };
        let pull = StoredPull {
            title: title.to_owned(),
            head: (branch.to_owned(), sha(branch)),
            base: ("main".to_owned(), sha("main")),
            files: files
                .iter()
                .map(|(path, change, before)| {
                    ((*path).to_owned(), (*change).to_owned(), before.map(str::to_owned))
                })
                .collect(),
            open: true,
            merged: false,
            comments: Vec::new(),
        };
        let mut content = self.content();
        let number = content.number();
        content.pulls.insert(number, pull);
        number
    }

    /// Merges a pull request.
    pub fn merge_pull(&self, number: u64) {
        if let Some(pull) = self.content().pulls.get_mut(&number) {
            (pull.open, pull.merged) = (false, true);
        }
    }

    /// The comments on a pull request.
    pub fn comments(&self, number: u64) -> Vec<StoredComment> {
        self.content().pulls.get(&number).map(|pull| pull.comments.clone()).unwrap_or_default()
    }

    /// Writes a comment, as somebody who is gone since.
    pub fn comment_of_a_ghost(&self, number: u64, body: &str) {
        let mut content = self.content();
        let id = content.number();
        if let Some(pull) = content.pulls.get_mut(&number) {
            pull.comments.push(StoredComment { id, body: body.to_owned(), author: None });
        }
    }
}

/// The reply to a request about pull requests or comments; `below` is the path after the repository.
pub(crate) fn respond(
    description: &Description,
    repository: &Repository,
    below: &[&str],
    incoming: &Incoming,
    body: Option<&Value>,
) -> Reply {
    let mut content = repository.content();
    let text = body.and_then(|body| body["body"].as_str()).unwrap_or_default().to_owned();
    let number: Option<u64> = below.get(1).and_then(|number| number.parse().ok());
    match (incoming.method.as_str(), below) {
        ("PATCH", ["issues", "comments", id]) => {
            let mut all = content.pulls.values_mut().flat_map(|pull| &mut pull.comments);
            match all.find(|comment| comment.id.to_string() == *id) {
                Some(comment) => {
                    comment.body = text;
                    Reply::ok(comment_body(description, comment))
                }
                None => Reply::not_found(),
            }
        }
        (method, [kind, _, rest @ ..]) => {
            let id = content.number();
            let Some((number, pull)) = number.and_then(|it| Some((it, content.pulls.get_mut(&it)?))) else {
                return Reply::not_found();
            };
            match (method, *kind, rest) {
                ("GET", "pulls", []) => Reply::ok(pull_body(description, number, pull)),
                ("GET", "pulls", ["files"]) => {
                    let (page, next_page) = incoming.page(&pull.files);
                    let files = page.iter().map(|file| file_body(description, file)).collect();
                    Reply { next_page, ..Reply::ok(files) }
                }
                ("GET", "issues", ["comments"]) => {
                    let (page, next_page) = incoming.page(&pull.comments);
                    let comments = page.iter().map(|comment| comment_body(description, comment)).collect();
                    Reply { next_page, ..Reply::ok(comments) }
                }
                ("POST", "issues", ["comments"]) => {
                    let comment = StoredComment { id, body: text, author: Some("windlass[bot]".to_owned()) };
                    let reply = Reply::new(StatusCode::CREATED, comment_body(description, &comment));
                    pull.comments.push(comment);
                    reply
                }
                _ => Reply::not_found(),
            }
        }
        _ => Reply::not_found(),
    }
}

fn pull_body(description: &Description, number: u64, pull: &StoredPull) -> Value {
    let mut body = description.least(PULL);
    body["number"] = json!(number);
    body["title"] = json!(pull.title);
    body["state"] = json!(if pull.open { "open" } else { "closed" });
    body["merged"] = json!(pull.merged);
    for (end, (name, sha)) in [("head", &pull.head), ("base", &pull.base)] {
        body[end]["ref"] = json!(name);
        body[end]["sha"] = json!(sha);
    }
    body
}

fn file_body(description: &Description, file: &(String, String, Option<String>)) -> Value {
    let (path, change, before) = file;
    let mut body = description.least_element(FILES);
    body["filename"] = json!(path);
    body["status"] = json!(change);
    if let Some(before) = before {
        body["previous_filename"] = json!(before);
    }
    body
}

fn comment_body(description: &Description, comment: &StoredComment) -> Value {
    let mut body = description.least_element(COMMENTS);
    body["id"] = json!(comment.id);
    body["body"] = json!(comment.body);
    body["created_at"] = json!(Timestamp::UNIX_EPOCH.to_string());
    body["user"] = match &comment.author {
        Some(login) => answers::user(description, login),
        None => Value::Null,
    };
    body
}
