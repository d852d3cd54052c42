//! What keeps a caller from pushing to a branch: the branch's protection, and the rulesets that cover it.

use std::collections::BTreeSet;

use octocrab::Page;
use serde::{Deserialize, Serialize};

use crate::route::segment;
use crate::{ErrorKind, Github, GithubError, RepositoryName};

/// Rules that one request lists.
const PER_PAGE: u8 = 100;
/// Pages of rules that are looked through.
const PAGES: u32 = 5;

/// What keeps a caller from pushing commits to a branch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Protection {
    /// What refuses them, each in words: `changes go in by pull request (ruleset 7)`. Empty where nothing does.
    pub refuses: Vec<String>,
    /// Whether the branch is protected by something that these credentials may not look at, or may: nobody knows
    /// whether it refuses them.
    pub is_hidden: bool,
}

#[derive(Serialize)]
struct PageQuery {
    per_page: u8,
    page: u32,
}

/// The branch's own protection, of which only those read who administer the repository.
#[derive(Deserialize)]
struct WireProtection {
    required_pull_request_reviews: Option<Present>,
    required_status_checks: Option<WireChecks>,
    restrictions: Option<Present>,
    lock_branch: Option<WireSwitch>,
    enforce_admins: Option<WireSwitch>,
}

#[derive(Deserialize)]
struct Present {}

#[derive(Deserialize)]
struct WireChecks {
    #[serde(default)]
    contexts: Vec<String>,
    #[serde(default)]
    checks: Vec<Present>,
}

#[derive(Deserialize)]
struct WireSwitch {
    #[serde(default)]
    enabled: bool,
}

#[derive(Deserialize)]
struct WireBranch {
    #[serde(default)]
    protected: bool,
}

#[derive(Serialize)]
struct ProtectedQuery {
    protected: bool,
    per_page: u8,
    page: u32,
}

#[derive(Deserialize)]
struct WireNamedBranch {
    name: String,
    #[serde(default)]
    protected: bool,
}

#[derive(Deserialize)]
struct WireRule {
    #[serde(rename = "type")]
    kind: String,
    ruleset_id: Option<u64>,
}

#[derive(Deserialize)]
struct WireRuleset {
    current_user_can_bypass: Option<String>,
}

impl WireProtection {
    /// What refuses a push; nothing does so to an administrator whom the protection leaves out.
    fn refuses(&self, is_admin: bool) -> Vec<String> {
        let on = |switch: &Option<WireSwitch>| switch.as_ref().is_some_and(|switch| switch.enabled);
        let mut refuses = Vec::new();
        if on(&self.lock_branch) {
            refuses.push("the branch is locked".to_owned());
        }
        if is_admin && !on(&self.enforce_admins) {
            return refuses;
        }
        if self.required_pull_request_reviews.is_some() {
            refuses.push("changes go in by pull request (branch protection)".to_owned());
        }
        if self
            .required_status_checks
            .as_ref()
            .is_some_and(|it| !it.contexts.is_empty() || !it.checks.is_empty())
        {
            refuses.push("changes have to pass status checks first (branch protection)".to_owned());
        }
        refuses
    }
}

/// What a rule does to a push, if it refuses one. Others judge the commit, or deletions and forced pushes, of which we
/// make none.
fn refusal(kind: &str) -> Option<&'static str> {
    match kind {
        "pull_request" | "merge_queue" => Some("changes go in by pull request"),
        "update" => Some("only those push who may bypass the ruleset"),
        "required_status_checks" => Some("changes have to pass status checks first"),
        "required_deployments" => Some("changes have to be deployed first"),
        _ => None,
    }
}

impl Github {
    /// What keeps these credentials from pushing to `branch`. `is_admin` says whether they may administer the repository.
    ///
    /// Two requests, and one more for each ruleset that refuses pushes: it may let these credentials through.
    pub async fn protection(
        &self,
        name: &RepositoryName,
        branch: &str,
        is_admin: bool,
    ) -> Result<Protection, GithubError> {
        let mut found = self.rulesets(name, branch).await?;
        let action = format!("read the protection of branch {branch:?} of {name}");
        let route = format!("/repos/{name}/branches/{}/protection", segment(branch));
        match self.get::<WireProtection>(&action, route, None::<&()>).await {
            Ok(protection) => {
                found.refuses.extend(protection.refuses(is_admin));
                found.is_hidden = found.refuses.is_empty() && !is_admin && protection.restrictions.is_some();
            }
            // Who may read it is told that there is none, as others are told of what is hidden from them.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound { .. }) && is_admin => {}
            Err(error) if is_kept_from_us(&error) => {
                found.is_hidden = found.refuses.is_empty() && self.is_protected(name, branch).await?;
            }
            Err(error) => return Err(error),
        }
        Ok(found)
    }

    /// Whether anything protects the branch, which everybody may know who may read it.
    async fn is_protected(&self, name: &RepositoryName, branch: &str) -> Result<bool, GithubError> {
        let action = format!("read branch {branch:?} of {name}");
        let route = format!("/repos/{name}/branches/{}", segment(branch));
        match self.get::<WireBranch>(&action, route, None::<&()>).await {
            Ok(branch) => Ok(branch.protected),
            // An empty repository has a branch that is not there yet.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The names of the branches that anything protects, of 500 at most; nothing if there are more. One request for each
    /// hundred.
    pub async fn protected_branches(
        &self,
        name: &RepositoryName,
    ) -> Result<Option<BTreeSet<String>>, GithubError> {
        let action = format!("list the protected branches of {name}");
        let route = format!("/repos/{name}/branches");
        let mut found = BTreeSet::new();
        for page in 1..=PAGES {
            let query = ProtectedQuery { protected: true, per_page: PER_PAGE, page };
            let listed = self.get::<Page<WireNamedBranch>>(&action, route.clone(), Some(&query)).await?;
            found
                .extend(listed.items.into_iter().filter(|branch| branch.protected).map(|branch| branch.name));
            if listed.next.is_none() {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// What the rulesets refuse that cover the branch. Servers that know no rulesets have none.
    async fn rulesets(&self, name: &RepositoryName, branch: &str) -> Result<Protection, GithubError> {
        let action = format!("list the rules of branch {branch:?} of {name}");
        let route = format!("/repos/{name}/rules/branches/{}", segment(branch));
        let mut rules = Vec::new();
        for page in 1..=PAGES {
            let query = PageQuery { per_page: PER_PAGE, page };
            match self.get::<Page<WireRule>>(&action, route.clone(), Some(&query)).await {
                Ok(listed) => {
                    rules.extend(listed.items);
                    if listed.next.is_none() {
                        break;
                    }
                }
                Err(error) if matches!(error.kind(), ErrorKind::NotFound { .. }) => break,
                Err(error) => return Err(error),
            }
        }
        let mut refuses = Vec::new();
        for WireRule { kind, ruleset_id } in rules {
            let Some(why) = refusal(&kind) else { continue };
            let id = ruleset_id.unwrap_or_default();
            if !self.is_bypassed(name, id).await? {
                let why = if id == 0 { why.to_owned() } else { format!("{why} (ruleset {id})") };
                refuses.push(why);
            }
        }
        refuses.dedup();
        Ok(Protection { refuses, is_hidden: false })
    }

    /// Whether these credentials are let through by a ruleset. One that cannot be looked at lets nobody through.
    async fn is_bypassed(&self, name: &RepositoryName, id: u64) -> Result<bool, GithubError> {
        if id == 0 {
            return Ok(false);
        }
        let action = format!("read ruleset {id} of {name}");
        match self.get::<WireRuleset>(&action, format!("/repos/{name}/rulesets/{id}"), None::<&()>).await {
            Ok(ruleset) => {
                Ok(matches!(ruleset.current_user_can_bypass.as_deref(), Some("always" | "exempt")))
            }
            Err(error) if is_kept_from_us(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Whether it is there for others, perhaps.
fn is_kept_from_us(error: &GithubError) -> bool {
    matches!(
        error.kind(),
        ErrorKind::NotFound { .. } | ErrorKind::Forbidden { .. } | ErrorKind::Unauthorized { .. }
    )
}
