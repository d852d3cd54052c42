//! Protocol v0 and v1, for servers that do not speak v2 (Git: `pack-protocol`, `http-protocol`). It runs over the
//! same client, caps and deadlines, and takes one `GET` and one `POST` for a sync.

use url::Url;

use super::exchange::post;
use super::frames::Frames;
use super::scope::{FetchRequest, FetchScope, Shallow};
use super::v2::{parse_id, too_many_refs};
use crate::call::Call;
use crate::http::HttpClient;
use crate::pack::PackSink;
use crate::pktline::{Body, Pkt, text};
use crate::{GitError, Limits, Ref};

/// What a server says about itself.
pub(super) struct ServerInfo {
    /// The refs of a server that speaks v0; one that speaks v2 lists none here.
    pub(super) refs: Option<Vec<Ref>>,
    /// Whether it leaves out what a filter names.
    pub(super) filter: bool,
    /// Whether it gives commits that no ref points at.
    pub(super) any_want: bool,
}

/// Refs and capabilities, as v0 lists them.
pub(super) struct Advertisement {
    pub(super) refs: Vec<Ref>,
    pub(super) capabilities: String,
}

impl Advertisement {
    /// The value of `name=value`, or nothing; of a capability without one, nothing in it.
    pub(super) fn capability(&self, name: &str) -> Option<&str> {
        self.capabilities.split(' ').find_map(|word| match word.strip_prefix(name)? {
            "" => Some(""),
            rest => rest.strip_prefix('='),
        })
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.capability(name).is_some()
    }
}

/// Reads an advertisement of upload-pack: the refs of a v0 server, none for one that says it speaks v2.
pub(super) async fn server_info(frames: Frames<'_>, limits: &Limits) -> Result<ServerInfo, GitError> {
    let call = frames.call();
    match advertisement(frames, limits).await? {
        Err(v2) => judge_v2(v2).await,
        Ok(advertisement) => {
            judge_v0(call, &advertisement)?;
            let any_want = advertisement.has("allow-reachable-sha1-in-want");
            let filter = advertisement.has("filter");
            let head_target =
                advertisement.capabilities.split(' ').find_map(|word| word.strip_prefix("symref=HEAD:"));
            let head_target = head_target.map(str::to_owned);
            let mut refs = advertisement.refs;
            if let Some(head) = refs.iter_mut().find(|found| found.name == "HEAD") {
                head.symref_target = head_target;
            }
            Ok(ServerInfo { refs: Some(refs), filter, any_want })
        }
    }
}

/// Reads refs and capabilities. The frames come back from a server that speaks v2, after its first line.
pub(super) async fn advertisement<'a>(
    mut frames: Frames<'a>,
    limits: &Limits,
) -> Result<Result<Advertisement, Frames<'a>>, GitError> {
    let call = frames.call();
    let mut line = frames.line().await?;
    if line.as_ref().is_ok_and(|line| line.starts_with("# service=")) {
        if !matches!(frames.next().await?, Pkt::Flush) {
            return Err(call.protocol("no flush after the service's name"));
        }
        line = frames.line().await?;
    }
    match line.as_deref() {
        Ok("version 2") => return Ok(Err(frames)),
        Ok("version 1") => line = frames.line().await?,
        _ => {}
    }
    let mut found = Advertisement { refs: Vec::new(), capabilities: String::new() };
    loop {
        let text = match &line {
            Ok(text) => text.as_str(),
            Err(Pkt::Flush) => break,
            Err(other) => return Err(call.protocol(format!("{other:?} among the refs"))),
        };
        let text = match text.split_once('\0') {
            Some((text, capabilities)) => {
                capabilities.clone_into(&mut found.capabilities);
                text
            }
            None => text,
        };
        add(&mut found.refs, text).map_err(|what| call.protocol(what))?;
        if found.refs.len() > limits.refs {
            return Err(too_many_refs(limits));
        }
        line = frames.line().await?;
    }
    frames.end().await;
    Ok(Ok(found))
}

/// A v2 server's capabilities: all that matters is that it can list refs, fetch, and names objects by SHA-1.
async fn judge_v2(mut frames: Frames<'_>) -> Result<ServerInfo, GitError> {
    let call = frames.call();
    let (mut fetch, mut filter) = (false, false);
    loop {
        match frames.line().await? {
            Ok(line) if line.starts_with("object-format=") && line != "object-format=sha1" => {
                return Err(sha256(call));
            }
            Ok(line) => {
                let features =
                    line.strip_prefix("fetch").filter(|rest| rest.is_empty() || rest.starts_with('='));
                let Some(features) = features else { continue };
                fetch = true;
                filter |= features.trim_start_matches('=').split(' ').any(|feature| feature == "filter");
            }
            Err(Pkt::Flush) if fetch => {
                frames.end().await;
                return Ok(ServerInfo { refs: None, filter, any_want: true });
            }
            Err(_) => return Err(call.protocol("a server without the fetch command")),
        }
    }
}

fn judge_v0(call: &Call<'_>, advertisement: &Advertisement) -> Result<(), GitError> {
    if advertisement.capability("object-format") == Some("sha256") {
        return Err(sha256(call));
    }
    // An empty repository lists nothing.
    if advertisement.refs.is_empty() || advertisement.has("side-band-64k") && advertisement.has("shallow") {
        return Ok(());
    }
    Err(GitError::Unsupported {
        url: call.url.to_string(),
        detail: "its server speaks neither protocol v2 nor v0 with side-band-64k and shallow".to_owned(),
    })
}

pub(super) fn sha256(call: &Call<'_>) -> GitError {
    let detail = "it names objects by SHA-256, which is not supported yet".to_owned();
    GitError::Unsupported { url: call.url.to_string(), detail }
}

fn add(refs: &mut Vec<Ref>, line: &str) -> Result<(), String> {
    let (id, name) = line.split_once(' ').ok_or_else(|| format!("{line:?} instead of a ref"))?;
    if id == "shallow" {
        return Ok(()); // the server's own history begins there
    }
    let id = parse_id(id)?;
    if matches!(name, "capabilities^{}" | ".have") {
        return Ok(()); // an empty repository; an object of another one that it borrows from
    }
    match (name.strip_suffix("^{}"), refs.last_mut()) {
        (Some(tag), Some(last)) if last.name == tag => last.peeled = Some(id),
        _ => refs.push(Ref { name: name.to_owned(), id, peeled: None, symref_target: None }),
    }
    Ok(())
}

pub(super) async fn fetch(
    http: &HttpClient,
    call: &Call<'_>,
    base: &Url,
    request: &FetchRequest<'_>,
    limits: &Limits,
    sink: &mut PackSink,
) -> Result<Shallow, GitError> {
    let mut body = Body::default();
    let capabilities = match request.scope {
        FetchScope::Tips => " side-band-64k thin-pack ofs-delta no-progress",
        FetchScope::History { filter: None, .. } => " side-band-64k ofs-delta no-progress",
        FetchScope::History { filter: Some(_), .. } => " side-band-64k ofs-delta no-progress filter",
    };
    for (position, want) in request.wants.iter().enumerate() {
        body.line(&format!("want {want}{}", if position == 0 { capabilities } else { "" }));
    }
    request.bounds(&mut body);
    body.flush();
    for have in request.haves {
        body.line(&format!("have {have}"));
    }
    let body = body.line("done").take();
    let answer = post(http, call, base, body, false, ("pack_bytes", limits.pack_bytes)).await?;
    let mut frames = Frames::new(answer);
    let mut shallow = Shallow::new();
    // First what became shallow, up to a flush; then one ACK or NAK for each round of haves; then the packfile.
    loop {
        match frames.next().await? {
            Pkt::Flush => {}
            Pkt::Data(payload) => {
                let line = text(&payload).unwrap_or_default();
                let known = ["shallow ", "unshallow ", "ACK "].iter().any(|word| line.starts_with(word));
                request.note(line, &mut shallow);
                if !known && line != "NAK" {
                    frames.pack(Some(Pkt::Data(payload)), sink).await?;
                    return Ok(shallow);
                }
            }
            other => return Err(call.protocol(format!("{other:?} before the packfile"))),
        }
    }
}
