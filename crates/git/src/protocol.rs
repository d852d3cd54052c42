//! Git's smart HTTP, and the same over SSH: which version a server speaks, its refs, transfers of objects, and pushes (`receive_pack.rs`).
//!
//! Protocol v2 is spoken without asking first: the request for refs is itself the question, and only an answer
//! that is not v2 (or a redirect) is followed by the `GET` that older clients begin with. What was learnt is
//! kept for the remote, so a sync of an unchanged repository is one request and of a changed one two.
//!
//! Transfers ask for one commit without its history (`deepen 1`), and name the commits that the cache has, each
//! as `have` and as `shallow`: the server then leaves out what their trees hold, and does not presume that we
//! have what came before them.
//!
//! Histories are asked for down to a depth and without files (`filter tree:0`, also without asking first; a server
//! that has no filters sends the files along). There the `have`s stand for all that came before them: what they
//! hold is left out, whether or not anybody here has it.

mod frames;
mod receive_pack;
mod v0;
mod v2;

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use url::Url;

pub(crate) use self::receive_pack::{RefUpdate, Report};

use self::frames::Frames;
use crate::call::Call;
use crate::http::{Answer, HttpClient, Payload, Reply, Request};
use crate::pack::PackSink;
use crate::pktline::Body;
use crate::service::Service;
use crate::{GitError, Limits, ObjectId, Ref};

/// Branches whose histories are asked for at a server that gives no other commits.
const MAX_BRANCHES: usize = 64;

/// The depth that stands for a whole history.
const EVERYTHING: u32 = 0x7fff_ffff;

/// Redirects followed within one origin.
const MAX_REDIRECTS: usize = 3;

/// What was learnt about a remote: where it really is, and what it speaks. Starts over when it stops being true.
pub(crate) struct Endpoint {
    known: Mutex<Known>,
    configured: Url,
}

#[derive(Clone)]
struct Known {
    base: Url,
    dialect: Option<Dialect>,
    /// Whether a v2 server leaves out what a filter names, when that is known.
    filter: Option<bool>,
}

/// The protocol version that a server speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Dialect {
    V2,
    V0,
}

/// What a transfer asks for.
pub(crate) struct FetchRequest<'a> {
    pub(crate) wants: &'a [ObjectId],
    pub(crate) haves: &'a [ObjectId],
    pub(crate) scope: FetchScope,
}

/// How much of what is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FetchScope {
    /// The commits themselves with all files, on top of what the cache has of others.
    Tips,
    /// The commits and so many generations before them, without what the `have`s hold, and without what the filter names
    /// where the server can do that.
    History { depth: u32, filter: Option<&'static str> },
}

/// Commits whose parents a server left out because of the depth.
pub(crate) type Shallow = HashSet<ObjectId>;

/// A history that was transferred.
pub(crate) struct Fetched {
    /// The sink it went into, not finished yet.
    pub(crate) sink: PackSink,
    pub(crate) shallow: Shallow,
    /// Whether the commits that were wanted are what was asked for. Else the server gives the tips of branches only,
    /// and these were.
    pub(crate) exact: bool,
}

impl FetchRequest<'_> {
    /// The lines that say how much.
    fn bounds(&self, body: &mut Body) {
        match self.scope {
            FetchScope::Tips => {
                for have in self.haves {
                    body.line(&format!("shallow {have}"));
                }
                body.line("deepen 1");
            }
            FetchScope::History { depth, filter } => {
                body.line(&format!("deepen {depth}"));
                if let Some(filter) = filter {
                    body.line(&format!("filter {filter}"));
                }
            }
        }
    }

    /// Reads a line about what was cut off.
    fn note(&self, line: &str, shallow: &mut Shallow) {
        if self.scope != FetchScope::Tips
            && let Some(Ok(id)) = line.strip_prefix("shallow ").map(str::parse)
        {
            shallow.insert(id);
        }
    }
}

impl Endpoint {
    pub(crate) fn new(url: Url) -> Self {
        Self { known: Mutex::new(Known { base: url.clone(), dialect: None, filter: None }), configured: url }
    }

    fn known(&self) -> Known {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn learn(&self, known: Known) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = known;
    }

    fn forget(&self) {
        self.learn(Known { base: self.configured.clone(), dialect: None, filter: None });
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
        let discovered =
            discover(http, call, &self.configured, limits).await.inspect_err(|_| self.forget())?;
        let known = discovered.known();
        let Some(refs) = discovered.server.refs else {
            let refs = v2::refs(http, call, &known.base, prefixes, limits).await?;
            self.learn(known);
            return Ok(refs);
        };
        self.learn(known);
        let wanted = |name: &str| {
            prefixes.is_empty() || prefixes.iter().any(|prefix| name.starts_with(prefix.as_str()))
        };
        Ok(refs.into_iter().filter(|found| wanted(&found.name)).collect())
    }

    /// Transfers what `request` asks for into `sink`, and answers whether it was asked for itself; else all that the server
    /// has came, and it may not be among that. The sink is not finished: the caller does that on success.
    pub(crate) async fn fetch(
        &self,
        http: &HttpClient,
        call: &Call<'_>,
        request: &FetchRequest<'_>,
        limits: &Limits,
        sink: &mut PackSink,
    ) -> Result<bool, GitError> {
        let mut known = self.known();
        if known.dialect.is_none() {
            known = discover(http, call, &self.configured, limits).await?.known();
            self.learn(known.clone());
        }
        let result = if known.dialect == Some(Dialect::V0) {
            match v0::fetch(http, call, &known.base, request, limits, sink).await {
                // Over HTTP such a server gives whatever its refs hold.
                Err(GitError::RevisionMissing { .. })
                    if request.scope == FetchScope::Tips && call.url.scheme() == "ssh" =>
                {
                    self.fetch_below_tips(http, call, request, limits, sink).await
                }
                result => result.map(|_shallow| true),
            }
        } else {
            v2::fetch(http, call, &known.base, request, limits, sink).await.map(|_shallow| true)
        };
        result.inspect_err(|error| {
            if worth_asking(error) {
                self.forget();
            }
        })
    }

    /// Transfers commits from a server that gives nothing but what its refs point at, as one does that speaks v0 over SSH:
    /// what an annotated tag points at comes with the tag, anything else with all that there is.
    async fn fetch_below_tips(
        &self,
        http: &HttpClient,
        call: &Call<'_>,
        request: &FetchRequest<'_>,
        limits: &Limits,
        sink: &mut PackSink,
    ) -> Result<bool, GitError> {
        let discovered = discover(http, call, &self.configured, limits).await?;
        let refs = discovered.server.refs.as_deref().unwrap_or_default();
        let tip = |want: &ObjectId| {
            let has = |found: &&Ref| found.id == *want || found.peeled == Some(*want);
            refs.iter().find(has).map(|found| found.id)
        };
        let tips: Option<Vec<ObjectId>> = request.wants.iter().map(tip).collect();
        let all: HashSet<ObjectId> = refs.iter().map(|found| found.id).collect();
        let all: Vec<ObjectId> = all.into_iter().collect();
        let whole = FetchScope::History { depth: EVERYTHING, filter: None };
        let request = match &tips {
            Some(wants) => FetchRequest { wants, ..*request },
            None => FetchRequest { wants: &all, haves: &[], scope: whole },
        };
        v0::fetch(http, call, &discovered.base, &request, limits, sink).await?;
        Ok(tips.is_some())
    }

    /// Transfers the history of `wants` down to `depth`, without what `haves` hold and what the filter `without` names
    /// (`tree:0`: trees and files; `blob:none`: files), into a sink from `open`, which is told whether that is left out;
    /// `bare` are the limits if it is, `whole` if not.
    pub(crate) async fn history(
        &self,
        http: &HttpClient,
        call: &Call<'_>,
        (wants, haves, depth): (&[ObjectId], &[ObjectId], u32),
        without: &'static str,
        (bare, whole): (&Limits, &Limits),
        open: impl Fn(bool) -> PackSink,
    ) -> Result<Fetched, GitError> {
        let known = self.known();
        let limits = |filter| if filter { bare } else { whole };
        let scope = |filter: bool| FetchScope::History { depth, filter: filter.then_some(without) };
        let request = |filter| FetchRequest { wants, haves, scope: scope(filter) };
        if known.dialect != Some(Dialect::V0) {
            let filter = known.filter.unwrap_or(true);
            let mut sink = open(filter);
            match v2::fetch(http, call, &known.base, &request(filter), limits(filter), &mut sink).await {
                Ok(shallow) => {
                    self.learn(Known { dialect: Some(Dialect::V2), filter: Some(filter), ..known });
                    return Ok(Fetched { sink, shallow, exact: true });
                }
                Err(error) if !worth_asking(&error) => return Err(error),
                Err(_) => {}
            }
        }
        let discovered =
            discover(http, call, &self.configured, whole).await.inspect_err(|_| self.forget())?;
        let (known, filter) = (discovered.known(), discovered.server.filter);
        let mut sink = open(filter);
        let Some(refs) = &discovered.server.refs else {
            let shallow =
                v2::fetch(http, call, &known.base, &request(filter), limits(filter), &mut sink).await?;
            self.learn(known);
            return Ok(Fetched { sink, shallow, exact: true });
        };
        let exact =
            discovered.server.any_want || wants.iter().all(|want| refs.iter().any(|tip| tip.id == *want));
        let tips = if exact { vec![] } else { branches(refs) };
        let wants = if exact { wants } else { &tips };
        let request = FetchRequest { wants, haves, scope: scope(filter) };
        let shallow = v0::fetch(http, call, &known.base, &request, limits(filter), &mut sink).await?;
        self.learn(known);
        Ok(Fetched { sink, shallow, exact })
    }
}

/// Where the branches of a server point that gives nothing else, each commit once.
fn branches(refs: &[Ref]) -> Vec<ObjectId> {
    let mut tips: Vec<ObjectId> = Vec::new();
    for tip in refs.iter().filter(|tip| tip.name == "HEAD" || tip.branch().is_some()) {
        if tips.len() < MAX_BRANCHES && !tips.contains(&tip.id) {
            tips.push(tip.id);
        }
    }
    tips
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

/// What a server says about itself, and where that was.
struct Discovered {
    base: Url,
    server: v0::ServerInfo,
}

impl Discovered {
    fn known(&self) -> Known {
        let dialect = if self.server.refs.is_some() { Dialect::V0 } else { Dialect::V2 };
        Known { base: self.base.clone(), dialect: Some(dialect), filter: Some(self.server.filter) }
    }
}

/// Asks what a server speaks, and where the repository really is.
async fn discover(
    http: &HttpClient,
    call: &Call<'_>,
    configured: &Url,
    limits: &Limits,
) -> Result<Discovered, GitError> {
    let (base, answer) = advertised(http, call, configured, limits, Service::UploadPack).await?;
    let server = v0::server_info(Frames::new(answer), limits).await?;
    Ok(Discovered { base, server })
}

/// The `GET` that older clients begin with; follows redirects within the origin, as Git does.
async fn advertised<'a>(
    http: &'a HttpClient,
    call: &'a Call<'a>,
    configured: &Url,
    limits: &Limits,
    service: Service,
) -> Result<(Url, Answer<'a>), GitError> {
    let mut url = join(configured, "info/refs");
    url.set_query(Some(&format!("service={}", service.name())));
    for _ in 0..=MAX_REDIRECTS {
        let request = Request {
            service,
            url: url.clone(),
            payload: Payload::Nothing,
            v2: service == Service::UploadPack,
            expect: service.advertisement(),
            cap: ("refs_bytes", limits.refs_bytes),
        };
        match http.send(call, request).await? {
            Reply::Redirect(target) => url = target,
            Reply::Answer(answer) => {
                let base = base_of(&url).ok_or_else(|| {
                    call.protocol(format!("the redirect to {} is not to a repository", url.path()))
                })?;
                return Ok((base, answer));
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
    let service = Service::UploadPack;
    let url = join(base, service.name());
    let request = Request { service, url, payload: Payload::Bytes(body), v2, expect: service.result(), cap };
    answered(http.send(call, request).await?, call)
}

/// The answer to a request that nobody may redirect.
fn answered<'a>(reply: Reply<'a>, call: &Call<'_>) -> Result<Answer<'a>, GitError> {
    match reply {
        Reply::Answer(answer) => Ok(answer),
        Reply::Redirect(target) => Err(GitError::NotGit {
            url: call.url.to_string(),
            detail: format!("it redirects to {}", call.printable(target.path(), 100)),
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
    let message = call.printable(message, 300);
    // Git's words, and JGit's: "want … not valid".
    let refused = message
        .split("not our ref")
        .nth(1)
        .or_else(|| message.strip_suffix("not valid")?.split("want").nth(1));
    if let Some(revision) = refused {
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
