//! Git's smart HTTP, read side: which version a server speaks, its refs, and transfers of objects.
//!
//! Protocol v2 is spoken without asking first: the request for refs is itself the question, and only an answer
//! that is not v2 (or a redirect) is followed by the `GET` that older clients begin with. What was learnt is
//! kept for the remote, so a sync of an unchanged repository is one request and of a changed one two.
//!
//! Transfers ask for one commit without its history (`deepen 1`), and name the commits that the cache has, each
//! as `have` and as `shallow`: the server then leaves out what their trees hold, and does not presume that we
//! have what came before them.

mod frames;
mod v0;
mod v2;

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http::Method;
use url::Url;

use self::frames::Frames;
use crate::http::{Answer, Call, HttpClient, Reply, Request};
use crate::pack::PackSink;
use crate::{GitError, Limits, ObjectId, Ref};

/// Redirects followed within one origin.
const MAX_REDIRECTS: usize = 3;

const ADVERTISEMENT: &str = "application/x-git-upload-pack-advertisement";
const RESULT: &str = "application/x-git-upload-pack-result";

/// What was learnt about a remote: where it really is, and what it speaks. Starts over when it stops being true.
pub(crate) struct Endpoint {
    known: Mutex<Known>,
    configured: Url,
}

#[derive(Clone)]
struct Known {
    base: Url,
    dialect: Option<Dialect>,
}

/// The protocol version that a server speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Dialect {
    V2,
    V0,
}

/// What a transfer asks for.
pub(crate) struct Wish<'a> {
    pub(crate) wants: &'a [ObjectId],
    pub(crate) haves: &'a [ObjectId],
}

impl Endpoint {
    pub(crate) fn new(url: Url) -> Self {
        Self { known: Mutex::new(Known { base: url.clone(), dialect: None }), configured: url }
    }

    fn known(&self) -> Known {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn learn(&self, known: Known) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = known;
    }

    fn forget(&self) {
        self.learn(Known { base: self.configured.clone(), dialect: None });
    }

    /// Refs whose names start with one of `prefixes`.
    pub(crate) async fn refs(
        &self,
        http: &HttpClient,
        call: &Call<'_>,
        prefixes: &[String],
        limits: &Limits,
    ) -> Result<Vec<Ref>, GitError> {
        let known = self.known();
        match known.dialect {
            Some(Dialect::V0) => {}
            Some(Dialect::V2) => {
                let asked = v2::refs(http, call, &known.base, prefixes, limits).await;
                return asked.inspect_err(|_| self.forget());
            }
            None => match v2::refs(http, call, &known.base, prefixes, limits).await {
                Ok(refs) => {
                    self.learn(Known { dialect: Some(Dialect::V2), ..known });
                    return Ok(refs);
                }
                Err(error) if !worth_asking(&error) => return Err(error),
                Err(_) => {}
            },
        }
        let advertised =
            discover(http, call, &self.configured, limits).await.inspect_err(|_| self.forget())?;
        let Some(refs) = advertised.refs else {
            let refs = v2::refs(http, call, &advertised.base, prefixes, limits).await?;
            self.learn(Known { base: advertised.base, dialect: Some(Dialect::V2) });
            return Ok(refs);
        };
        self.learn(Known { base: advertised.base, dialect: Some(Dialect::V0) });
        let wanted = |name: &str| {
            prefixes.is_empty() || prefixes.iter().any(|prefix| name.starts_with(prefix.as_str()))
        };
        Ok(refs.into_iter().filter(|found| wanted(&found.name)).collect())
    }

    /// Transfers what `wish` asks for into `sink`. The sink is not finished: the caller does that on success.
    pub(crate) async fn fetch(
        &self,
        http: &HttpClient,
        call: &Call<'_>,
        wish: &Wish<'_>,
        limits: &Limits,
        sink: &mut PackSink,
    ) -> Result<(), GitError> {
        let mut known = self.known();
        if known.dialect.is_none() {
            let advertised = discover(http, call, &self.configured, limits).await?;
            let dialect = if advertised.refs.is_some() { Dialect::V0 } else { Dialect::V2 };
            known = Known { base: advertised.base, dialect: Some(dialect) };
            self.learn(known.clone());
        }
        let result = if known.dialect == Some(Dialect::V0) {
            v0::fetch(http, call, &known.base, wish, limits, sink).await
        } else {
            v2::fetch(http, call, &known.base, wish, limits, sink).await
        };
        result.inspect_err(|error| {
            if worth_asking(error) {
                self.forget();
            }
        })
    }
}

/// Whether an error may only mean that the server does not speak v2, or lives at another path.
fn worth_asking(error: &GitError) -> bool {
    match error {
        GitError::NotFound { .. } | GitError::NotGit { .. } => true,
        GitError::Protocol { .. } | GitError::Remote { .. } => true,
        GitError::Unavailable { status, .. } => matches!(status, 500 | 501),
        _ => false,
    }
}

/// What a server says about itself.
struct Advertised {
    base: Url,
    /// The refs of a server that speaks v0; one that speaks v2 lists none here.
    refs: Option<Vec<Ref>>,
}

/// The `GET` that older clients begin with; follows redirects within the origin, as Git does.
async fn discover(
    http: &HttpClient,
    call: &Call<'_>,
    configured: &Url,
    limits: &Limits,
) -> Result<Advertised, GitError> {
    let mut url = join(configured, "info/refs");
    url.set_query(Some("service=git-upload-pack"));
    for _ in 0..=MAX_REDIRECTS {
        let request = Request {
            method: Method::GET,
            url: url.clone(),
            body: Bytes::new(),
            v2: true,
            expect: ADVERTISEMENT,
            cap: ("refs_bytes", limits.refs_bytes),
        };
        match http.send(call, request).await? {
            Reply::Redirect(target) => url = target,
            Reply::Answer(answer) => {
                let base = base_of(&url).ok_or_else(|| {
                    call.protocol(format!("the redirect to {} is not to a repository", url.path()))
                })?;
                let refs = v0::advertisement(Frames::new(answer), limits).await?;
                return Ok(Advertised { base, refs });
            }
        }
    }
    Err(call.protocol(format!("more than {MAX_REDIRECTS} redirects")))
}

/// Sends a request to the repository's upload-pack.
async fn post<'a>(
    http: &'a HttpClient,
    call: &'a Call<'a>,
    base: &Url,
    body: Bytes,
    v2: bool,
    cap: (&'static str, u64),
) -> Result<Answer<'a>, GitError> {
    let url = join(base, "git-upload-pack");
    match http.send(call, Request { method: Method::POST, url, body, v2, expect: RESULT, cap }).await? {
        Reply::Answer(answer) => Ok(answer),
        Reply::Redirect(target) => Err(GitError::NotGit {
            url: call.url.to_string(),
            detail: format!("it redirects to {}", crate::error::printable(target.path(), 100)),
        }),
    }
}

fn join(base: &Url, tail: &str) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("{}/{tail}", base.path().trim_end_matches('/')));
    url
}

fn base_of(url: &Url) -> Option<Url> {
    let path = url.path().strip_suffix("/info/refs")?.to_owned();
    let mut base = url.clone();
    base.set_query(None);
    base.set_fragment(None);
    base.set_path(&path);
    Some(base)
}

/// The error behind a server's own words.
fn remote_error(call: &Call<'_>, message: &str) -> GitError {
    let message = crate::error::printable(message, 300);
    if let Some(revision) = message.split("not our ref").nth(1) {
        let revision = revision.trim().to_owned();
        return GitError::RevisionMissing { url: call.url.to_string(), revision };
    }
    GitError::Remote { host: call.host(), message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_behind_a_redirect_is_found_again() {
        let url = Url::parse("https://a/b/c.git/info/refs?service=git-upload-pack").unwrap();
        assert_eq!(base_of(&url).unwrap().as_str(), "https://a/b/c.git");
        assert_eq!(base_of(&Url::parse("https://a/login").unwrap()), None);
        let slash = Url::parse("https://a/b/").unwrap();
        assert_eq!(join(&slash, "git-upload-pack").as_str(), "https://a/b/git-upload-pack");
    }
}
