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

mod exchange;
mod frames;
mod receive_pack;
mod scope;
mod v0;
mod v2;

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use url::Url;

pub(crate) use self::receive_pack::{RefUpdate, Report};
pub(crate) use self::scope::{FetchRequest, FetchScope, Shallow};

use self::exchange::advertised;
use self::frames::Frames;
use crate::call::Call;
use crate::http::HttpClient;
use crate::pack::PackSink;
use crate::service::Service;
use crate::{GitError, Limits, ObjectId, Ref};

/// Branches whose histories are asked for at a server that gives no other commits.
const MAX_BRANCHES: usize = 64;

/// The depth that stands for a whole history.
const EVERYTHING: u32 = 0x7fff_ffff;

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

/// A history that was transferred.
pub(crate) struct Fetched {
    /// The sink it went into, not finished yet.
    pub(crate) sink: PackSink,
    pub(crate) shallow: Shallow,
    /// Whether the commits that were wanted are what was asked for. Else the server gives the tips of branches only,
    /// and these were.
    pub(crate) exact: bool,
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
