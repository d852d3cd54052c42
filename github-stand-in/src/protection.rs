//! What protects the branches of a repository.

mod rules;

use serde_json::{Value, json};

pub use self::rules::{Protection, Rule};

use crate::answers::{self, Place};
use crate::description::Description;
use crate::reply::Reply;
use crate::repository::Repository;
use crate::request::Incoming;

const BRANCH: &str = "GET /repos/{owner}/{repo}/branches/{branch}";
const PROTECTION: &str = "GET /repos/{owner}/{repo}/branches/{branch}/protection";
const RULESET: &str = "GET /repos/{owner}/{repo}/rulesets/{ruleset_id}";

impl Repository {
    /// Protects its branches, or does not any more.
    pub fn protect(&self, protection: Option<Protection>) {
        self.content().protection = protection;
    }

    /// Covers its branches with rules, and no others.
    pub fn cover(&self, rules: &[Rule]) {
        self.content().rules = rules.to_vec();
    }

    /// Makes it one that nobody writes to.
    pub fn archive(&self) {
        self.content().archived = true;
    }
}

/// The reply to a request about branches and rules; `below` is the path after the repository's name.
pub(crate) fn respond(
    description: &Description,
    place: &Place,
    repository: &Repository,
    below: &[&str],
    (incoming, is_admin): (&Incoming, bool),
) -> Reply {
    let tip = repository.commit("main");
    let content = repository.content();
    let is_protected = content.protection.is_some() || !content.rules.is_empty();
    match below {
        ["branches"] => {
            let wanted = incoming.query("protected").is_none_or(|wanted| (wanted == "true") == is_protected);
            let one = |(name, sha): (&String, &String)| {
                json!({ "name": name, "protected": is_protected,
                        "commit": { "sha": sha, "url": place.link(&format!("commits/{sha}")) } })
            };
            let all: Vec<Value> = content.branches.iter().filter(|_| wanted).map(one).collect();
            let (page, next_page) = incoming.page(&all);
            Reply { next_page, ..Reply::ok(page.to_vec().into()) }
        }
        ["branches", "main"] => {
            let Some(tip) = tip else { return Reply::not_found() };
            let mut body = description.least(BRANCH);
            body["name"] = json!("main");
            body["commit"] = answers::listed_commit(place, &tip);
            body["protected"] = json!(is_protected);
            Reply::ok(body)
        }
        ["branches", "main", "protection"] if is_admin => match content.protection {
            None => Reply::refuse(404, "Branch not protected"),
            Some(protection) => {
                let mut body = description.least(PROTECTION);
                body["enforce_admins"] =
                    json!({ "url": "https://example.org/", "enabled": protection.for_admins });
                body["lock_branch"] = json!({ "enabled": protection.locked });
                if protection.pull_requests {
                    let mut reviews = description.least_schema("protected-branch-pull-request-review");
                    reviews["required_approving_review_count"] = json!(1);
                    body["required_pull_request_reviews"] = reviews;
                }
                Reply::ok(body)
            }
        },
        ["branches", "main", "protection"] => Reply::not_found(),
        ["rules", "branches", "main"] => {
            let one = |rule: &Rule| {
                let mut body = json!({ "type": rule.kind, "ruleset_id": rule.ruleset,
                                       "ruleset_source_type": "Repository", "ruleset_source": repository.name() });
                if rule.kind == "pull_request" {
                    body["parameters"] = json!({
                        "dismiss_stale_reviews_on_push": false, "require_code_owner_review": false,
                        "require_last_push_approval": false, "required_approving_review_count": 1,
                        "required_review_thread_resolution": false });
                }
                body
            };
            Reply::ok(content.rules.iter().map(one).collect::<Value>())
        }
        ["rulesets", id] => {
            let Some(rule) = content.rules.iter().find(|rule| rule.ruleset.to_string() == **id) else {
                return Reply::not_found();
            };
            let mut body = description.least(RULESET);
            body["id"] = json!(rule.ruleset);
            body["name"] = json!("rules");
            body["enforcement"] = json!("active");
            if let Some(bypass) = &rule.bypass {
                body["current_user_can_bypass"] = json!(bypass);
            }
            Reply::ok(body)
        }
        _ => Reply::not_found(),
    }
}
