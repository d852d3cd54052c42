//! What GitHub (and GitHub Enterprise) adds to a Git server.

mod clients;

pub(crate) use self::clients::GithubClients;
pub use self::clients::{GithubOpenError, GithubRepository};
use crate::{Urls, encoded};

/// Pages of a repository on GitHub.
pub(crate) struct GithubUrls {
    url: String,
    prefix: String,
}

impl GithubUrls {
    /// The pages of the repository at `url`, whose files are under `prefix`.
    pub(crate) fn new(url: &str, prefix: &str) -> Self {
        let url = url.trim_end_matches('/').trim_end_matches(".git").to_owned();
        Self { url, prefix: prefix.trim_matches('/').to_owned() }
    }
}

impl Urls for GithubUrls {
    fn repository(&self) -> String {
        self.url.clone()
    }

    fn file(&self, reference: &str, path: &str) -> String {
        let separator = if self.prefix.is_empty() { "" } else { "/" };
        let path = format!("{}{separator}{path}", self.prefix);
        format!("{}/blob/{}/{}", self.url, encoded(reference, true), encoded(&path, true))
    }

    fn reference(&self, reference: &str) -> String {
        format!("{}/tree/{}", self.url, encoded(reference, true))
    }

    fn compare(&self, base: &str, head: &str) -> String {
        format!("{}/compare/{}...{}", self.url, encoded(base, true), encoded(head, true))
    }

    fn new_pull_request(&self, base: &str, head: &str) -> String {
        format!("{}?quick_pull=1&labels=grafana", self.compare(base, head))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_named_as_github_names_them() {
        let urls = GithubUrls::new("https://github.com/team/repository.git/", "grafana/");
        assert_eq!(urls.repository(), "https://github.com/team/repository");
        assert_eq!(
            urls.file("feature/a", "a b/#1.json"),
            "https://github.com/team/repository/blob/feature/a/grafana/a%20b/%231.json"
        );
        assert_eq!(urls.reference("feature/a"), "https://github.com/team/repository/tree/feature/a");
        assert_eq!(
            urls.compare("main", "feature/ä"),
            "https://github.com/team/repository/compare/main...feature/%C3%A4"
        );
        assert_eq!(
            urls.new_pull_request("main", "x"),
            "https://github.com/team/repository/compare/main...x?quick_pull=1&labels=grafana"
        );
        assert_eq!(
            GithubUrls::new("https://g.example/t/r", "").file("main", "a"),
            "https://g.example/t/r/blob/main/a"
        );
    }
}
