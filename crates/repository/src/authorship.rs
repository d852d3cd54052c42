//! Whom a commit names.

use windlass_api::CommitOptions;

use crate::Signature;

/// Who writes and signs when nobody is named. Grafana: `repository/signature.go`.
const NAME: &str = "Grafana";
const EMAIL: &str = "noreply@grafana.com";

/// Author and committer of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorship {
    /// Who wrote the change.
    pub author: Signature,
    /// Who made the commit, and whose signature it carries if it is signed.
    pub committer: Signature,
}

impl Authorship {
    /// By a repository's options, of a change that `user` asked for. The author is the user, else whom the repository
    /// names. A commit that is signed has the signer as its committer, and as its author if `signerIsAuthor` says so.
    pub fn of(options: Option<&CommitOptions>, user: Option<Signature>) -> Self {
        let named = |name: &str, email: &str| {
            let or =
                |text: &str, other: &str| if text.is_empty() { other.to_owned() } else { text.to_owned() };
            Signature { name: or(name, NAME), email: or(email, EMAIL) }
        };
        let configured = options
            .map_or_else(|| named("", ""), |options| named(&options.author_name, &options.author_email));
        let author = user.unwrap_or(configured);
        match options.filter(|options| options.signing_method.is_some()) {
            Some(options) => {
                let committer = named(&options.signer_name, &options.signer_email);
                let author = if options.signer_is_author { committer.clone() } else { author };
                Self { author, committer }
            }
            None => Self { committer: author.clone(), author },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(options: serde_json::Value, user: Option<&str>, author: &str, committer: &str) {
        let options: CommitOptions = serde_json::from_value(options).unwrap();
        let user = user.map(|name| Signature { name: name.to_owned(), email: format!("{name}@x") });
        let Authorship { author: wrote, committer: made } = Authorship::of(Some(&options), user);
        let shown = |who: Signature| format!("{} <{}>", who.name, who.email);
        assert_eq!((&*shown(wrote), &*shown(made)), (author, committer));
    }

    #[test]
    fn the_user_writes_and_the_signer_commits() {
        let nobody = "Grafana <noreply@grafana.com>";
        check(json!({}), None, nobody, nobody);
        check(json!({}), Some("ada"), "ada <ada@x>", "ada <ada@x>");
        check(json!({"authorName": "Bot"}), None, "Bot <noreply@grafana.com>", "Bot <noreply@grafana.com>");
        check(json!({"authorName": "Bot", "authorEmail": "b@x"}), Some("ada"), "ada <ada@x>", "ada <ada@x>");
        check(json!({"signingMethod": "ssh"}), Some("ada"), "ada <ada@x>", nobody);
        let signed = json!({"signingMethod": "gpg", "signerName": "S", "signerEmail": "s@x"});
        check(signed, Some("ada"), "ada <ada@x>", "S <s@x>");
        let both =
            json!({"signingMethod": "gpg", "signerName": "S", "signerEmail": "s@x", "signerIsAuthor": true});
        check(both, Some("ada"), "S <s@x>", "S <s@x>");
    }
}
