//! Proxies between us and a server.
//!
//! Names of servers are resolved by the proxy, so that their addresses cannot be judged here. The proxy's own address is:
//! one that is not public has to be an allowed origin, and whoever allows it answers for where it leads.

#[cfg(feature = "ssh")]
mod tunnel;

use std::fmt;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};
use url::Url;

use crate::GitError;
use crate::policy::without_user_info;

/// A proxy that a repository is asked through, and as whom.
#[derive(Clone)]
pub struct Proxy {
    url: Url,
    login: Option<(String, SecretString)>,
}

impl Proxy {
    /// The proxy at `http://host:port`, `https://…` or `socks5://…`, without user-info.
    ///
    /// # Errors
    /// [`GitError::PolicyRefused`] for everything else.
    pub fn new(address: &str, login: Option<(String, SecretString)>) -> Result<Self, GitError> {
        let refuse = |detail: &str| GitError::PolicyRefused {
            url: without_user_info(address),
            detail: format!("{detail}; write a proxy as http://host:port or socks5://host:port"),
        };
        let url = Url::parse(address.trim()).map_err(|error| refuse(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https" | "socks5") {
            return Err(refuse("its scheme is none of http, https and socks5"));
        }
        let is_bare = matches!(url.path(), "" | "/") && url.query().is_none() && url.username().is_empty();
        if !is_bare || url.password().is_some() || url.host_str().is_none_or(str::is_empty) {
            return Err(refuse("it is more than the address of a proxy"));
        }
        Ok(Self { url, login })
    }

    /// For whoever sends others than Git's requests through it.
    ///
    /// # Errors
    /// The HTTP client cannot use it.
    pub fn for_others(&self) -> Result<reqwest::Proxy, GitError> {
        self.for_http().map_err(|_error| GitError::SetUp {
            action: "set up the proxy",
            detail: format!("{} cannot be used", without_user_info(self.url.as_str())),
        })
    }

    /// What tells it from others; no part of the password can be had from it.
    pub fn fingerprint(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        let (user, password) = self.login.as_ref().map_or(("", ""), |(user, it)| (user, it.expose_secret()));
        for part in [self.url.as_str(), user, password] {
            hash.update(part.len().to_le_bytes());
            hash.update(part);
        }
        hash.finalize().into()
    }

    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    /// As the HTTP client takes it. Names go to the proxy as they are.
    pub(crate) fn for_http(&self) -> reqwest::Result<reqwest::Proxy> {
        let (scheme, rest) = self.url.as_str().split_once("://").unwrap_or_default();
        let scheme = if scheme == "socks5" { "socks5h" } else { scheme };
        let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let login = self.login.as_ref().map_or_else(String::new, |(user, password)| {
            format!("{}:{}@", encoded(user), encoded(password.expose_secret()))
        });
        reqwest::Proxy::all(format!("{scheme}://{login}{rest}"))
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("url", &self.url.as_str()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_are_addresses_and_show_no_password() {
        for address in ["http://squid:3128", "https://proxy", "socks5://[::1]:1080/"] {
            let login = Some(("me".to_owned(), SecretString::from("p@ss/word")));
            let proxy = Proxy::new(address, login).unwrap();
            proxy.for_http().unwrap();
            assert!(!format!("{proxy:?}").contains("p@ss"));
        }
        for address in ["squid:3128", "ftp://a", "http://u:hidden@a", "http://a/b", "socks5://"] {
            let error = Proxy::new(address, None).unwrap_err().to_string();
            assert!(!error.contains("hidden"), "{error}");
        }
        let of = |password: &str| {
            Proxy::new("http://a", Some(("u".to_owned(), password.into()))).unwrap().fingerprint()
        };
        assert_ne!(of("a"), of("b"));
    }
}
