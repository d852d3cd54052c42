//! SSH under the protocol: each request runs Git's program on the server in a session of its own, and what the program
//! writes is the answer that smart HTTP would give.
//!
//! A session is one request: a `GET` of HTTP is what the program says first, a `POST` is what it answers after that. So
//! everything above this module is the same for both transports, pushes included. A server that does not take the
//! variable `GIT_PROTOCOL` speaks v0, which costs no more requests.
//!
//! Nobody is connected to whose key `known_hosts` does not name: only the algorithms of the keys that it has of the
//! server are offered, and a host without any is not connected to at all.

mod algorithms;
mod answer;
mod identity;
mod known_hosts;
mod until;
mod verifier;

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use russh::client::{self, AuthResult, Handle};
use russh::keys::{Algorithm, HashAlg, PrivateKeyWithHashAlg};
use russh::{Preferred, compression, kex};
use ssh_key::public::KeyData;
use tokio::net::TcpStream;
use url::Url;
use windlass_http_client::{Failure, printable};

pub use self::algorithms::SshAlgorithms;
pub(crate) use self::answer::SshAnswer;
pub use self::identity::SshIdentity;
use self::until::Until;
use self::verifier::Verifier;

use crate::call::Call;
use crate::policy;
use crate::request::{Payload, Request};
use crate::{Credentials, GitError, Proxy};

/// The user of URLs that name none.
const USER: &str = "git";

/// Sends requests over SSH.
#[derive(Clone, Debug)]
pub(crate) struct SshClient {
    key_exchange: Cow<'static, [kex::Name]>,
    host_keys: Vec<Algorithm>,
    connect: Duration,
}

/// Where a session goes, out of a URL.
struct Target {
    host: String,
    port: u16,
    user: String,
    path: String,
}

impl Target {
    fn of(url: &Url) -> Option<Self> {
        let decoded = |text: &str| Some(percent_decode_str(text).decode_utf8().ok()?.into_owned());
        let user = if url.username().is_empty() { USER.to_owned() } else { decoded(url.username())? };
        let path = decoded(url.path())?;
        // `/~user/…` is a path in somebody's home, as Git has it.
        let path = path.strip_prefix('/').filter(|rest| rest.starts_with('~')).unwrap_or(&path).to_owned();
        let plain = |text: &str| !text.is_empty() && !text.chars().any(char::is_control);
        let host = url.host_str()?.trim_matches(['[', ']']).to_owned();
        (plain(&user) && plain(&path)).then(|| Self { host, port: url.port().unwrap_or(22), user, path })
    }
}

/// Text as one word of a shell's command, as Git quotes it.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''").replace('!', r"'\!'"))
}

impl SshClient {
    pub(crate) fn new(algorithms: &SshAlgorithms, connect: Duration) -> Result<Self, GitError> {
        let unknown = |name: &String| GitError::SetUp {
            action: "set up SSH",
            detail: format!("there is no algorithm {:?}", printable(name, 60)),
        };
        let find = |name: &String| kex::Name::try_from(name.as_str()).ok().filter(|it| *it != kex::NONE);
        let found = algorithms.key_exchange.iter().map(|name| find(name).ok_or_else(|| unknown(name)));
        let mut names = found.collect::<Result<Vec<_>, _>>()?;
        let key_exchange = if names.is_empty() {
            Preferred::DEFAULT.kex
        } else {
            names.extend([kex::EXTENSION_SUPPORT_AS_CLIENT, kex::EXTENSION_OPENSSH_STRICT_KEX_AS_CLIENT]);
            Cow::Owned(names)
        };
        let known = |name: &String| Preferred::DEFAULT.key.iter().find(|it| it.as_str() == name).cloned();
        let host_keys = algorithms.host_keys.iter().map(|name| known(name).ok_or_else(|| unknown(name)));
        Ok(Self { key_exchange, host_keys: host_keys.collect::<Result<_, _>>()?, connect })
    }

    /// Runs the program that the request is for, and answers what it writes. `lifted`: its address is judged by nobody.
    pub(crate) async fn send(
        &self,
        call: &Call<'_>,
        request: Request,
        lifted: bool,
    ) -> Result<SshAnswer, GitError> {
        let Some(Credentials::Ssh(identity)) = call.credentials else {
            return Err(GitError::SshIdentity { detail: "there is none for an ssh: URL".to_owned() });
        };
        let target = Target::of(call.url).ok_or_else(|| GitError::PolicyRefused {
            url: call.url.to_string(),
            detail: "its user or its path cannot be sent over SSH".to_owned(),
        })?;
        let open = Box::pin(self.open(call, identity, &target, lifted));
        // Keys are exchanged and the user is known within the time that a connection has.
        let session = call.within_connect(self.connect, open).await?;
        let command = format!("{} {}", request.service.name(), quoted(&target.path));
        let (head, tail) = match request.payload {
            Payload::Nothing => (None, None),
            Payload::Bytes(bytes) => (Some(bytes), None),
            Payload::Upload(upload) => (None, Some(upload)),
        };
        SshAnswer::run(call, session, (&command, request.v2), head, tail).await
    }

    async fn open(
        &self,
        call: &Call<'_>,
        identity: &SshIdentity,
        target: &Target,
        lifted: bool,
    ) -> Result<Handle<Verifier>, GitError> {
        let keys = identity.unlocked().await?;
        let known = keys.known_hosts.keys_of(&target.host, target.port);
        let key = self.offered(&known).map_err(|detail| GitError::HostKey { host: call.host(), detail })?;
        let preferred = Preferred {
            kex: self.key_exchange.clone(),
            key: Cow::Owned(key),
            compression: Cow::Borrowed(&[compression::NONE]),
            ..Preferred::DEFAULT
        };
        let config = client::Config { preferred, nodelay: true, ..client::Config::default() };
        let broken = |error: &dyn std::fmt::Display| GitError::Unreachable {
            host: call.host(),
            detail: printable(&error.to_string(), 200),
        };
        let stream = dial(target, lifted, call).await.map_err(|error| match error {
            DialError::Refused(error) => error,
            DialError::Broken(error) => broken(&error),
        })?;
        let stream = Until::new(stream, call.deadline.until());
        let verifier = Verifier { trusted: known };
        let mut session = client::connect_stream(Arc::new(config), stream, verifier).await.map_err(
            |error| match error {
                russh::Error::UnknownKey => GitError::HostKey {
                    host: call.host(),
                    detail: "it shows another key than known_hosts has of it".to_owned(),
                },
                other => broken(&other),
            },
        )?;
        let hash = if keys.private.algorithm().is_rsa() {
            match session.best_supported_rsa_hash().await.map_err(|error| broken(&error))? {
                Some(found) => found,
                None => Some(HashAlg::Sha512),
            }
        } else {
            None
        };
        let key = PrivateKeyWithHashAlg::new(Arc::clone(&keys.private), hash);
        let user = target.user.as_str();
        match session.authenticate_publickey(user, key).await.map_err(|error| broken(&error))? {
            AuthResult::Success => Ok(session),
            AuthResult::Failure { .. } => {
                Err(GitError::SshKeyRefused { host: call.host(), user: printable(user, 80) })
            }
        }
    }

    /// The algorithms of the keys that a server is known by.
    fn offered(&self, known: &[KeyData]) -> Result<Vec<Algorithm>, String> {
        if known.is_empty() {
            return Err(
                "known_hosts has no key of it; add what ssh-keyscan prints, once it was compared".to_owned()
            );
        }
        // RSA with SHA-1 has to be asked for by name.
        let usual = |it: &&Algorithm| !matches!(it, Algorithm::Rsa { hash: None });
        let named: Vec<_> = match self.host_keys.as_slice() {
            [] => Preferred::DEFAULT.key.iter().filter(usual).cloned().collect(),
            names => names.to_vec(),
        };
        let fits = |one: &Algorithm, key: &KeyData| match one {
            Algorithm::Rsa { .. } => key.algorithm().is_rsa(),
            other => *other == key.algorithm(),
        };
        let offered: Vec<_> =
            named.into_iter().filter(|one| known.iter().any(|key| fits(one, key))).collect();
        if offered.is_empty() {
            return Err("known_hosts has keys of it of other types than are allowed".to_owned());
        }
        Ok(offered)
    }
}

enum DialError {
    Refused(GitError),
    Broken(std::io::Error),
}

/// Connects to the server, or to the proxy before it, all of whose addresses are judged before that.
async fn dial(target: &Target, lifted: bool, call: &Call<'_>) -> Result<TcpStream, DialError> {
    let (host, port) = call.proxy.map_or_else(|| (target.host.clone(), target.port), Proxy::server);
    let found = tokio::net::lookup_host((host.as_str(), port)).await;
    let addresses: Vec<SocketAddr> = found.map_err(DialError::Broken)?.collect();
    for address in addresses.iter().map(SocketAddr::ip).filter(|_| !lifted) {
        if let Some(why) = policy::refused(address) {
            let detail = format!("{host} resolves to {address}: {why}");
            let url = call.url;
            return Err(DialError::Refused(GitError::PolicyRefused { url: url.to_string(), detail }));
        }
    }
    let stream = TcpStream::connect(addresses.as_slice()).await.map_err(DialError::Broken)?;
    match call.proxy {
        Some(proxy) => proxy.tunnel(stream, &target.host, target.port).await.map_err(DialError::Broken),
        None => Ok(stream),
    }
}

impl Call<'_> {
    async fn within_connect<T>(
        &self,
        limit: Duration,
        future: impl Future<Output = Result<T, GitError>>,
    ) -> Result<T, GitError> {
        let timed_out = |_| Err(self.failed(Failure::Timeout(limit)));
        let limited = async { tokio::time::timeout(limit, future).await.unwrap_or_else(timed_out) };
        self.within(limited).await?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_who_is_asked_for_what() {
        let target = |url: &str| {
            let target = Target::of(&Url::parse(url).unwrap())?;
            Some((target.user, target.host, target.port, target.path))
        };
        let of = |user: &str, host: &str, port, path: &str| {
            Some((user.to_owned(), host.to_owned(), port, path.to_owned()))
        };
        assert_eq!(target("ssh://host/a/b.git"), of("git", "host", 22, "/a/b.git"));
        assert_eq!(target("ssh://me@[::1]:2222/~me/b%20c"), of("me", "::1", 2222, "~me/b c"));
        assert_eq!(target("ssh://host/a%0Ab"), None);
        assert_eq!(quoted("/it's!"), r"'/it'\''s'\!''");
    }

    #[test]
    fn algorithms_are_known_by_name_and_none_is_no_algorithm() {
        let made = |kex: &str, key: &str| {
            let list = |text: &str| text.split_whitespace().map(str::to_owned).collect();
            SshClient::new(
                &SshAlgorithms { key_exchange: list(kex), host_keys: list(key) },
                Duration::from_secs(1),
            )
        };
        assert!(made("curve25519-sha256 ecdh-sha2-nistp256", "ssh-ed25519 rsa-sha2-256").is_ok());
        for (kex, key) in [("none", ""), ("nonsense", ""), ("", "nonsense")] {
            assert!(made(kex, key).unwrap_err().to_string().contains("no algorithm"), "{kex} {key}");
        }
    }
}
