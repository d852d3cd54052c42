//! Which URLs may be used, and which addresses connected to.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};
use windlass_http_client::printable;

use crate::GitError;

/// Scheme, host and port: what credentials are bound to and what an exception is made for.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Origin {
    scheme: String,
    host: String,
    port: u16,
}

impl Origin {
    /// The origin of `url`; nothing for a URL without a host or a port.
    pub fn of(url: &Url) -> Option<Self> {
        Some(Self {
            scheme: url.scheme().to_owned(),
            host: url.host_str()?.trim_end_matches('.').to_owned(),
            port: url.port_or_known_default().or(match url.scheme() {
                "ssh" => Some(22),
                "socks5" => Some(1080),
                _ => None,
            })?,
        })
    }

    /// `host:port`, for messages.
    pub(crate) fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}:{}", self.scheme, self.host, self.port)
    }
}

/// Which URLs may be used: https and ssh on public addresses, and whatever else an allowed origin makes an exception
/// for. The check is made on the URL, and again on every address when it is connected to, so that a name which
/// resolves elsewhere the second time gains nothing.
#[derive(Clone, Debug, Default)]
pub struct UrlPolicy {
    allowed: Vec<Origin>,
}

impl UrlPolicy {
    /// Lifts the rules for exactly this `scheme://host:port` (http, https, ssh, or socks5 of a proxy; the port may be left out when it is
    /// the scheme's own). Private and loopback addresses are then fine there.
    pub fn allow_origin(mut self, origin: &str) -> Result<Self, GitError> {
        let refuse = |detail: &str| GitError::PolicyRefused {
            url: without_user_info(origin),
            detail: format!("{detail}; write an allowed origin as scheme://host:port"),
        };
        let url = Url::parse(origin).map_err(|error| refuse(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https" | "ssh" | "socks5") {
            return Err(refuse("its scheme is none of http, https, ssh and socks5"));
        }
        if !matches!(url.path(), "" | "/")
            || url.query().is_some()
            || url.fragment().is_some()
            || has_user_info(&url)
        {
            return Err(refuse("it is more than an origin"));
        }
        self.allowed.push(Origin::of(&url).ok_or_else(|| refuse("it has no host"))?);
        Ok(self)
    }

    /// Whether an exception is made for `origin`.
    pub(crate) fn lifted(&self, origin: &Origin) -> bool {
        self.allowed.contains(origin)
    }

    /// Parses a repository's URL, or says why it may not be used. `over_ssh`: who asks has a key for it.
    pub(crate) fn check(&self, text: &str, over_ssh: bool) -> Result<Url, GitError> {
        let shown = without_user_info(text);
        let refuse = |detail: String| GitError::PolicyRefused { url: shown.clone(), detail };
        let url = Url::parse(text.trim())
            .map_err(|error| refuse(format!("it is not a URL ({error}); write https://host/path")))?;
        match url.scheme() {
            "https" | "http" => {}
            "ssh" if over_ssh && is_plain_host(&url) => {}
            "file" => return Err(refuse("file: is not a remote; use a repository of type local".into())),
            "ssh" | "git" | "git+ssh" => {
                return Err(refuse(format!("{}: is not supported; use https:", url.scheme())));
            }
            other => return Err(refuse(format!("scheme {other:?} is not supported; use https:"))),
        }
        if has_user_info(&url) && (url.scheme() != "ssh" || url.password().is_some()) {
            return Err(refuse("it carries a user name or password; use the token field".into()));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(refuse("it has a query or a fragment".into()));
        }
        self.check_request(&url)?;
        Ok(url)
    }

    /// Judges one request's URL, redirects' included: scheme, and the address if the host is one.
    pub(crate) fn check_request(&self, url: &Url) -> Result<(), GitError> {
        let refuse =
            |detail: String| GitError::PolicyRefused { url: without_user_info(url.as_str()), detail };
        let origin = Origin::of(url).ok_or_else(|| refuse("it has no host".into()))?;
        if self.lifted(&origin) {
            return Ok(());
        }
        if !matches!(url.scheme(), "https" | "ssh") {
            return Err(refuse(format!(
                "only https: is used; add {origin} to allowed_git_origins to allow it"
            )));
        }
        check_address(url, &origin).map_err(refuse)
    }

    /// Judges the address of a proxy, if it is one; a name's are judged when they are connected to.
    pub(crate) fn check_proxy(&self, url: &Url) -> Result<(), GitError> {
        let refuse = |detail: String| GitError::PolicyRefused { url: url.to_string(), detail };
        let origin = Origin::of(url).ok_or_else(|| refuse("it has no host".into()))?;
        if self.lifted(&origin) { Ok(()) } else { check_address(url, &origin).map_err(refuse) }
    }
}

/// Why the host of `url` may not be connected to, if it is an address.
fn check_address(url: &Url, origin: &Origin) -> Result<(), String> {
    let address = match url.host() {
        Some(Host::Ipv4(address)) => IpAddr::V4(address),
        Some(Host::Ipv6(address)) => IpAddr::V6(address),
        // Of a scheme that is not the web's, addresses are not told from names.
        Some(Host::Domain(name)) if let Ok(address) = name.parse() => address,
        _ => return Ok(()),
    };
    if is_public(address) {
        return Ok(());
    }
    Err(format!("{address} is not a public address; add {origin} to allowed_git_origins to allow it"))
}

fn has_user_info(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

/// `text` as it may be shown: without what stands before an `@` in its authority.
pub(crate) fn without_user_info(text: &str) -> String {
    let start = text.find("://").map_or(0, |at| at + 3);
    let end = text[start..].find(['/', '?', '#']).map_or(text.len(), |at| start + at);
    let clean = match text[start..end].rfind('@') {
        Some(at) => format!("{}{}", &text[..start], &text[start + at + 1..]),
        None => text.to_owned(),
    };
    printable(&clean, 300)
}

/// Whether anyone on the internet could be meant by it: not loopback, private, link-local, carrier-grade NAT,
/// multicast, documentation, benchmarking or reserved (RFC 6890 and its registry). Addresses that carry an
/// IPv4 address inside (mapped, NAT64, 6to4, Teredo) are not public: they would be a way around.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !matches!(
        (a, b, c),
        (0 | 10 | 127 | 224..=255, ..)
            | (100, 64..=127, _)
            | (169, 254, _)
            | (172, 16..=31, _)
            | (192, 0, 0 | 2)
            | (192, 88, 99)
            | (192, 168, _)
            | (198, 18..=19, _)
            | (198, 51, 100)
            | (203, 0, 113)
    )
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, ..] = address.segments();
    let global_unicast = a & 0xe000 == 0x2000;
    let special = (a == 0x2001 && (b < 0x0200 || b == 0x0db8)) // IETF assignments and Teredo; documentation
        || a == 0x2002 // 6to4
        || (a == 0x3fff && b < 0x1000); // documentation
    global_unicast && !special
}

/// Why `address` is not connected to where no exception is made.
pub(crate) fn refused(address: IpAddr) -> Option<&'static str> {
    let why = "it is not a public address; add the server's origin to allowed_git_origins to allow it";
    (!is_public(address)).then_some(why)
}

/// Whether an `ssh:` URL names nothing that a resolver or a shell would read in a way of its own.
fn is_plain_host(url: &Url) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']');
    url.host_str().is_some_and(|host| !host.starts_with('-') && host.chars().all(plain))
        && Origin::of(url).is_some()
}

#[cfg(test)]
mod tests;
