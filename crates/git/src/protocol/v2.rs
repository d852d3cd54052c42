//! Protocol v2 (Git: `protocol-v2`). Capabilities that every server has had since v2 exists are used without
//! being advertised; ones that a server must name first (`agent`, `object-format`) are left out.

use url::Url;

use super::exchange::post;
use super::frames::Frames;
use super::scope::{FetchRequest, FetchScope, Shallow};
use crate::call::Call;
use crate::http::HttpClient;
use crate::pack::PackSink;
use crate::pktline::{Body, Pkt};
use crate::{GitError, Limits, ObjectId, Ref};

pub(super) async fn refs(
    http: &HttpClient,
    call: &Call<'_>,
    base: &Url,
    prefixes: &[String],
    limits: &Limits,
) -> Result<Vec<Ref>, GitError> {
    let mut body = Body::default();
    body.line("command=ls-refs").delimiter().line("peel").line("symrefs");
    for prefix in prefixes {
        body.line(&format!("ref-prefix {prefix}"));
    }
    let body = body.flush().take();
    let answer = post(http, call, base, body, true, ("refs_bytes", limits.refs_bytes)).await?;
    let mut frames = Frames::new(answer);
    let mut refs = Vec::new();
    loop {
        match frames.line().await? {
            Ok(line) => {
                if refs.len() >= limits.refs {
                    return Err(too_many_refs(limits));
                }
                refs.extend(parse_ref(&line).map_err(|what| call.protocol(what))?);
            }
            Err(Pkt::Flush) => {
                frames.end().await;
                return Ok(refs);
            }
            Err(other) => return Err(call.protocol(format!("{other:?} among the refs"))),
        }
    }
}

pub(super) fn too_many_refs(limits: &Limits) -> GitError {
    GitError::LimitExceeded {
        limit: "refs",
        max: limits.refs as u64,
        what: "the number of refs listed".to_owned(),
    }
}

/// `<id> <name> [symref-target:<name>] [peeled:<id>]`; a `HEAD` that points nowhere yet is `unborn`, and left out.
fn parse_ref(line: &str) -> Result<Option<Ref>, String> {
    let mut words = line.split(' ');
    let (Some(id), Some(name)) = (words.next(), words.next()) else {
        return Err(format!("{line:?} instead of a ref"));
    };
    if id == "unborn" {
        return Ok(None);
    }
    let id = parse_id(id)?;
    let mut found = Ref { name: name.to_owned(), id, peeled: None, symref_target: None };
    for word in words {
        if let Some(target) = word.strip_prefix("symref-target:") {
            found.symref_target = Some(target.to_owned());
        } else if let Some(peeled) = word.strip_prefix("peeled:") {
            found.peeled = Some(parse_id(peeled)?);
        }
    }
    Ok(Some(found))
}

pub(super) fn parse_id(text: &str) -> Result<ObjectId, String> {
    if text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err("SHA-256 object names, which are not supported yet".to_owned());
    }
    text.parse().map_err(|_| format!("{text:?} instead of an object id"))
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
    body.line("command=fetch").delimiter();
    if request.scope == FetchScope::Tips {
        body.line("thin-pack");
    }
    body.line("ofs-delta").line("no-progress");
    request.bounds(&mut body);
    for want in request.wants {
        body.line(&format!("want {want}"));
    }
    for have in request.haves {
        body.line(&format!("have {have}"));
    }
    let body = body.line("done").flush().take();
    let answer = post(http, call, base, body, true, ("pack_bytes", limits.pack_bytes)).await?;
    let mut frames = Frames::new(answer);
    let mut shallow = Shallow::new();
    // Sections come in the server's order; what it cut off and the packfile matter.
    loop {
        match frames.line().await? {
            Ok(section) if section == "packfile" => {
                frames.pack(None, sink).await?;
                return Ok(shallow);
            }
            Ok(section) if matches!(section.as_str(), "shallow-info" | "acknowledgments" | "wanted-refs") => {
                loop {
                    match frames.line().await? {
                        Ok(line) => request.note(&line, &mut shallow),
                        Err(Pkt::Delimiter) => break,
                        Err(_) => return Err(call.protocol("an answer without a packfile")),
                    }
                }
            }
            Ok(section) => return Err(call.protocol(format!("an unknown section {section:?}"))),
            Err(_) => return Err(call.protocol("an answer without a packfile")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef01234567";

    #[test]
    fn refs_are_read_with_their_attributes() {
        let head = parse_ref(&format!("{ID} HEAD symref-target:refs/heads/main")).unwrap().unwrap();
        assert_eq!((head.name.as_str(), head.symref_target.as_deref()), ("HEAD", Some("refs/heads/main")));
        let tag = parse_ref(&format!("{ID} refs/tags/v1 peeled:{ID}")).unwrap().unwrap();
        assert_eq!(tag.peeled, Some(tag.id));
        assert_eq!(parse_ref("unborn HEAD symref-target:refs/heads/main").unwrap(), None);
    }

    #[test]
    fn what_is_no_ref_is_an_error() {
        for line in ["", "garbage", "zz refs/heads/main", &format!("{ID}{ID} refs/heads/main")] {
            assert!(parse_ref(line).is_err(), "{line}");
        }
        assert!(parse_ref(&format!("{0}{0} x", &ID[..32])).unwrap_err().contains("SHA-256"));
    }
}
