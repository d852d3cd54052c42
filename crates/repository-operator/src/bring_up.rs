//! What of a repository's tree is due to be brought up.

use std::fmt;

/// What is due, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BringUp {
    /// The finalizers to add, so that nothing is left behind when the repository is deleted.
    pub(crate) finalizers: Vec<String>,
    /// Getting a token by way of the connection.
    pub(crate) token: Option<TokenWanted>,
    /// Asking the server whether the repository can be written to, and for what the specification leaves out.
    pub(crate) inspection: Option<&'static str>,
    /// Bringing the webhook at the provider to what is wanted, and seeing what did not reach us.
    pub(crate) webhook: Option<&'static str>,
}

/// Why a token is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenWanted {
    /// There is none.
    Missing,
    /// Its server refused it.
    Refused,
    /// It ends soon, or the connection is another one.
    Ending,
}

impl fmt::Display for TokenWanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "there is none",
            Self::Refused => "the one that there is was refused",
            Self::Ending => "it ends soon, or the connection is another one",
        })
    }
}

impl fmt::Display for BringUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let finalizers = (!self.finalizers.is_empty()).then(|| self.finalizers.join(", "));
        let lines = [
            finalizers.map(|names| format!("add finalizers: {names}")),
            self.token.map(|why| format!("get a token: {why}")),
            self.inspection.map(|why| format!("ask the server about it: {why}")),
            self.webhook.map(|why| format!("check the webhook: {why}")),
        ];
        f.write_str(&lines.into_iter().flatten().collect::<Vec<_>>().join("\n"))
    }
}
