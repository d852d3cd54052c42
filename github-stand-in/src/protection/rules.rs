//! What a branch is protected by.

/// How every branch of a repository is protected, without rulesets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Protection {
    /// Changes go in by pull request.
    pub pull_requests: bool,
    /// Nobody pushes.
    pub locked: bool,
    /// It holds for those who administer the repository, too.
    pub for_admins: bool,
}

/// A rule of a ruleset that covers every branch of a repository.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Its type, as GitHub names it: `pull_request`, `non_fast_forward`.
    pub kind: String,
    /// The number of its ruleset.
    pub ruleset: u64,
    /// Whom its ruleset lets through: `always`, `never`, …; nothing where the caller may not see that.
    pub bypass: Option<String>,
}

impl Rule {
    /// One that lets nobody through.
    pub fn new(kind: &str, ruleset: u64) -> Self {
        Self { kind: kind.to_owned(), ruleset, bypass: Some("never".to_owned()) }
    }
}
