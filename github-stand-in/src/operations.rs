//! Which reply a request gets: who calls, whether they may, and what there is.

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::answers::{self, Place};
use crate::apps::{Grants, NoToken, Wanted};
use crate::description::Description;
use crate::reply::Reply;
use crate::repository::Repository;
use crate::request::Incoming;
use crate::state::State;
use crate::{hooks, protection, pulls};

pub(crate) const LIMITS: &str = "GET /rate_limit";
pub(crate) const TOKENS: &str = "POST /app/installations/{installation_id}/access_tokens";
const APP: &str = "GET /app";
const INSTALLATION: &str = "GET /app/installations/{installation_id}";
const OF_ORGANISATION: &str = "GET /orgs/{org}/installation";
const OF_USER: &str = "GET /users/{username}/installation";
const REPOSITORIES: &str = "GET /installation/repositories";
const REPOSITORY: &str = "GET /repos/{owner}/{repo}";

/// Who calls.
enum Caller {
    Anonymous,
    /// A person, who may do anything.
    Person,
    /// A token of an installation: what it may do, and where.
    Installation(Grants, Vec<String>),
}

/// The operation of a request, and the reply to it; or what about it is not as GitHub describes it.
pub(crate) fn respond<'a>(
    state: &mut State,
    description: &'a Description,
    api: &str,
    incoming: &Incoming,
) -> Result<(&'a str, Reply), String> {
    let operation = identify(description, incoming)?;
    let path: Vec<&str> = incoming.path.iter().map(String::as_str).collect();
    let body = incoming.json()?;
    let reply = match operation {
        APP | INSTALLATION | TOKENS | OF_ORGANISATION | OF_USER => {
            let id = match operation {
                OF_ORGANISATION | OF_USER => state.apps.installed_by(operation == OF_ORGANISATION, path[1]),
                _ => path.get(2).and_then(|id| id.parse().ok()).unwrap_or_default(),
            };
            as_app(state, description, operation, incoming, id, body)
        }
        _ => as_user(state, description, api, operation, incoming, &path, body.as_ref()),
    };
    Ok((operation, reply))
}

/// The operation of a request, whose parameters and body are as GitHub describes them.
pub(crate) fn identify<'a>(description: &'a Description, incoming: &Incoming) -> Result<&'a str, String> {
    if !incoming.headers.contains_key("user-agent") {
        return Err("a request without User-Agent: GitHub refuses it".to_owned());
    }
    let path: Vec<&str> = incoming.path.iter().map(String::as_str).collect();
    let found = description.operation_of(incoming.method.as_str(), &path);
    let (operation, parameters) =
        found.ok_or_else(|| format!("{} {} is none of the operations", incoming.method, incoming.target))?;
    let body = incoming.json()?;
    description.request(operation, &parameters, &incoming.query, body.as_ref())?;
    Ok(operation)
}

/// What an App is told that shows a claim.
fn as_app(
    state: &mut State,
    description: &Description,
    operation: &str,
    incoming: &Incoming,
    id: u64,
    body: Option<Value>,
) -> Reply {
    if !state.apps.any() {
        return Reply::refuse(401, "Integration not found");
    }
    let claim = incoming.token();
    let reply = match operation {
        APP => state.apps.claimed(claim).map(|app| {
            let mut body = description.least(APP);
            body["id"] = json!(app.parse().unwrap_or(1_u64));
            body["name"] = json!("Windlass");
            body["slug"] = json!("windlass");
            body["permissions"] = json!({ "contents": "write", "metadata": "read" });
            Reply::ok(body)
        }),
        INSTALLATION | OF_ORGANISATION | OF_USER => state.apps.installed(claim, id).map(|installed| {
            let mut body = description.least(operation);
            body["id"] = json!(id);
            body["app_id"] = json!(installed.app.parse().unwrap_or(1_u64));
            body["account"] = answers::user(description, &installed.owner);
            body["repository_selection"] = json!("selected");
            body["permissions"] = json!(installed.grants);
            if installed.suspended {
                body["suspended_at"] = json!("2026-03-04T09:15:00Z");
            }
            Reply::ok(body)
        }),
        _ => {
            let wanted: Wanted = body.and_then(|body| serde_json::from_value(body).ok()).unwrap_or_default();
            let there = |name: &String| {
                state.repositories.keys().any(|it| it.split_once('/').is_some_and(|(_, own)| own == name))
            };
            if !wanted.repositories.iter().all(there) {
                let message = "There is at least one repository that does not exist or is not accessible to the \
                               parent installation.";
                return Reply::refuse(422, message);
            }
            state.apps.mint(claim, id, wanted).map(|(token, until, grants)| {
                let until = until.round(jiff::Unit::Second).unwrap_or(until);
                let body = json!({ "token": token, "expires_at": until.to_string(), "permissions": grants,
                                   "repository_selection": "selected" });
                Reply::new(StatusCode::CREATED, body)
            })
        }
    };
    reply.unwrap_or_else(|refused| match refused {
        NoToken::Claim(message) => Reply::refuse(401, message),
        NoToken::Installation => Reply::not_found(),
        NoToken::Suspended => Reply::refuse(403, "This installation has been suspended"),
        NoToken::Permissions => {
            Reply::refuse(422, "The permissions requested are not granted to this installation.")
        }
    })
}

/// What everybody else is told.
fn as_user(
    state: &mut State,
    description: &Description,
    api: &str,
    operation: &str,
    incoming: &Incoming,
    path: &[&str],
    body: Option<&Value>,
) -> Reply {
    let caller = match incoming.token() {
        None => Caller::Anonymous,
        Some(token) if state.tokens.contains(token) => Caller::Person,
        Some(token) => match state.apps.token(token) {
            Some(token) => Caller::Installation(token.grants.clone(), token.repositories.clone()),
            None => return Reply::refuse(401, "Bad credentials"),
        },
    };
    if operation == LIMITS {
        return Reply::ok(answers::limits(state.limit()));
    }
    if state.is_used_up() {
        return Reply::refuse(403, "API rate limit exceeded for user ID 1.");
    }
    if operation == REPOSITORIES {
        return repositories(state, description, &caller, incoming);
    }
    let name = format!("{}/{}", path[1], path[2]);
    let sees = |repository: &&Repository| match &caller {
        Caller::Anonymous => !repository.is_private(),
        Caller::Person => true,
        Caller::Installation(_, only) => {
            !repository.is_private() || only.is_empty() || only.iter().any(|name| name == path[2])
        }
    };
    let Some(repository) = state.repositories.get(&name).filter(sees).cloned() else {
        return Reply::not_found();
    };
    let below = &path[3..];
    if let Some(refused) = forbidden(&caller, incoming.method == "GET", below) {
        return refused;
    }
    match below {
        [] => {
            let mut body = description.least(REPOSITORY);
            let can_push = match &caller {
                Caller::Person => state.push,
                Caller::Installation(grants, _) => grants.get("contents").is_some_and(|it| it == "write"),
                Caller::Anonymous => false,
            };
            answers::describe_repository(&mut body, &repository, can_push);
            body["archived"] = json!(repository.content().archived);
            body["permissions"]["admin"] = json!(matches!(caller, Caller::Person) && state.administer);
            if matches!(caller, Caller::Anonymous)
                && let Some(body) = body.as_object_mut()
            {
                body.remove("permissions");
            }
            Reply::ok(body)
        }
        ["hooks", below @ ..] => hooks::respond(description, &repository, below, incoming, body),
        ["pulls" | "issues", ..] => pulls::respond(description, &repository, below, incoming, body),
        ["branches" | "rules" | "rulesets", ..] => {
            let is_admin = matches!(caller, Caller::Person) && state.administer;
            let place = Place { api: api.to_owned(), repository: name };
            protection::respond(description, &place, &repository, below, (incoming, is_admin))
        }
        _ => read(&Place { api: api.to_owned(), repository: name }, &repository, below, incoming),
    }
}

/// The refusal, where the caller may not do that.
fn forbidden(caller: &Caller, reads: bool, below: &[&str]) -> Option<Reply> {
    let needed = match below.first() {
        Some(&"hooks") => "repository_hooks",
        Some(&("pulls" | "issues")) => "pull_requests",
        Some(_) => "contents",
        None => "metadata",
    };
    match caller {
        Caller::Person => None,
        // Hooks are shown to nobody who may not change them.
        Caller::Anonymous if needed == "repository_hooks" => Some(Reply::not_found()),
        Caller::Anonymous if !reads => Some(Reply::refuse(401, "Requires authentication")),
        Caller::Anonymous => None,
        Caller::Installation(grants, _) => {
            let enough = match grants.get(needed).map(String::as_str) {
                Some("read") => reads,
                Some("write" | "admin") => true,
                _ => false,
            };
            let extent = if reads { "read" } else { "write" };
            let refused = Reply::refuse(403, "Resource not accessible by integration");
            (!enough).then(|| Reply { needs: Some(format!("{needed}={extent}")), ..refused })
        }
    }
}

/// The repositories of an installation.
fn repositories(state: &State, description: &Description, caller: &Caller, incoming: &Incoming) -> Reply {
    let Caller::Installation(_, only) = caller else {
        return Reply::refuse(403, "You must authenticate with an installation access token");
    };
    let mut all: Vec<&Repository> = state.repositories.values().collect();
    all.retain(|it| only.is_empty() || only.iter().any(|only| it.name().ends_with(&format!("/{only}"))));
    all.sort_by_key(|repository| repository.name().to_owned());
    let (page, next_page) = incoming.page(&all);
    let list = page.iter().map(|repository| {
        let mut body = description.least_schema("repository");
        answers::describe_repository(&mut body, repository, false);
        body
    });
    let body = json!({ "total_count": all.len(), "repositories": list.collect::<Vec<_>>() });
    Reply { next_page, ..Reply::ok(body) }
}

/// The reply about a repository's content; `below` is the path after its name.
fn read(place: &Place, repository: &Repository, below: &[&str], incoming: &Incoming) -> Reply {
    if repository.is_empty() {
        return Reply::refuse(409, "Git Repository is empty.");
    }
    match below {
        ["commits"] => {
            let Some(head) = repository.commit(incoming.query("sha").unwrap_or("main")) else {
                return Reply::not_found();
            };
            let all = repository.history(&head, incoming.query("path"));
            let (page, next_page) = incoming.page(&all);
            let list = page.iter().map(|commit| answers::listed_commit(place, commit)).collect();
            Reply { next_page, ..Reply::ok(list) }
        }
        ["git", "blobs", sha] => match repository.blob(sha) {
            Some(bytes) => Reply::ok(answers::blob(place, sha, &bytes)),
            None => Reply::not_found(),
        },
        ["contents", path @ ..] => {
            let reference = incoming.query("ref").unwrap_or("main");
            let path = path.join("/");
            let Some(commit) = repository.commit(reference) else {
                return Reply::refuse(404, &format!("No commit found for the ref {reference}"));
            };
            if let Some(bytes) = commit.files.get(&path).and_then(|sha| repository.blob(sha)) {
                return Reply::ok(answers::file(place, &path, reference, &bytes));
            }
            let folder = format!("{path}/");
            let files: Vec<_> = commit
                .files
                .iter()
                .filter_map(|(file, sha)| Some((file.strip_prefix(&folder)?.to_owned(), sha.clone())))
                .filter(|(name, _)| !name.contains('/'))
                .map(|(name, sha)| (name, sha.clone(), repository.blob(&sha).map_or(0, |bytes| bytes.len())))
                .collect();
            if files.is_empty() {
                return Reply::not_found();
            }
            Reply::ok(answers::folder(place, &path, reference, &files))
        }
        _ => Reply::not_found(),
    }
}
