//! Pushes (Git: `pack-protocol`, "Pushing Data To a Server"). Protocol v2 has none, so v0 is spoken: a `GET` for the
//! refs, then a `POST` with one update and the packfile, which the server answers with what became of it.

use bytes::{Buf as _, BytesMut};
use url::Url;
use windlass_http_client::printable;

use super::Endpoint;
use super::exchange::{advertised, answered, join};
use super::frames::Frames;
use super::v0::{Advertisement, advertisement, sha256};
use crate::call::Call;
use crate::http::HttpClient;
use crate::pktline::{self, Body, Pkt};
use crate::request::{Payload, Request};
use crate::service::Service;
use crate::upload::Upload;
use crate::{GitError, Limits, ObjectId};

/// What stands for no object.
const NOTHING: ObjectId = ObjectId::from_bytes([0; 20]);
/// Bytes of a report that are read; it has a line or two.
const MAX_REPORT: usize = 64 << 10;
/// Bytes of the server's and its hooks' messages that are kept, the last ones.
const MAX_MESSAGES: usize = 4 << 10;

/// A change of one ref. Nothing as the old id means that it must not exist.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RefUpdate<'a> {
    pub(crate) name: &'a str,
    pub(crate) old: Option<ObjectId>,
    pub(crate) new: ObjectId,
}

/// A repository that takes pushes, as it was a moment ago.
pub(crate) struct PushTarget {
    base: Url,
    advertisement: Advertisement,
}

/// What a server says became of an update.
pub(crate) enum Report {
    Done,
    /// The server's reason, and what it or its hooks said besides.
    Refused {
        reason: String,
        messages: String,
    },
}

impl PushTarget {
    /// Where the ref `name` points.
    pub(crate) fn at(&self, name: &str) -> Option<ObjectId> {
        self.advertisement.refs.iter().find(|found| found.name == name).map(|found| found.id)
    }
}

impl Endpoint {
    /// Asks for the refs as whoever pushes sees them; a token that may not push is refused here.
    pub(crate) async fn push_target(
        &self,
        http: &HttpClient,
        call: &Call<'_>,
        limits: &Limits,
    ) -> Result<PushTarget, GitError> {
        let found = advertised(http, call, &self.configured, limits, Service::ReceivePack).await;
        let (base, answer) = found.map_err(GitError::of_push)?;
        let Ok(advertisement) = advertisement(Frames::new(answer), limits).await? else {
            return Err(call.protocol("protocol v2, which has no pushes"));
        };
        if advertisement.capability("object-format") == Some("sha256") {
            return Err(sha256(call));
        }
        if !advertisement.has("report-status") && !advertisement.has("report-status-v2") {
            let detail = "its server does not report what became of a push".to_owned();
            return Err(GitError::Unsupported { url: call.url.to_string(), detail });
        }
        Ok(PushTarget { base, advertisement })
    }

    /// Sends the update with the packfile of `upload`, whose head is still empty, and reads what became of it.
    pub(crate) async fn push(
        &self,
        http: &HttpClient,
        call: &Call<'_>,
        target: &PushTarget,
        update: RefUpdate<'_>,
        mut upload: Upload,
    ) -> Result<Report, GitError> {
        let offered = &target.advertisement;
        let status = if offered.has("report-status-v2") { "report-status-v2" } else { "report-status" };
        let mut capabilities = status.to_owned();
        for wanted in ["side-band-64k", "atomic"] {
            if offered.has(wanted) {
                capabilities.push(' ');
                capabilities.push_str(wanted);
            }
        }
        let RefUpdate { name, old, new } = update;
        let old = old.unwrap_or(NOTHING);
        let mut head = Body::default();
        head.line(&format!("{old} {new} {name}\0 {capabilities}")).flush();
        upload.head = head.take();
        let service = Service::ReceivePack;
        let request = Request {
            service,
            url: join(&target.base, service.name()),
            payload: Payload::Upload(upload),
            v2: false,
            expect: service.result(),
            cap: ("refs_bytes", 16 << 20),
        };
        let sent = http.send(call, request).await.map_err(GitError::of_push)?;
        let mut frames = Frames::new(answered(sent, call)?);
        let (report, messages) = if offered.has("side-band-64k") {
            match multiplexed(&mut frames).await? {
                (Ok(report), messages) => (report, messages),
                (Err(reason), messages) => {
                    return Ok(Report::Refused { reason: call.printable(&reason, 300), messages });
                }
            }
        } else {
            (plain(&mut frames).await?, String::new())
        };
        frames.end().await;
        match judge(&report, name) {
            Ok(None) => Ok(Report::Done),
            Ok(Some(reason)) => Ok(Report::Refused { reason: call.printable(&reason, 300), messages }),
            Err(what) => Err(call.protocol(what)),
        }
    }
}

/// The report out of side band 1, or the server's last words out of band 3; and the messages in band 2.
async fn multiplexed(frames: &mut Frames<'_>) -> Result<(Result<Vec<String>, String>, String), GitError> {
    let call = frames.call();
    let (mut report, mut messages, mut cut) = (BytesMut::new(), Vec::new(), false);
    let outcome = loop {
        let mut payload = match frames.next().await? {
            Pkt::Data(payload) if !payload.is_empty() => payload,
            Pkt::Flush => break Ok(()),
            other => return Err(call.protocol(format!("{other:?} in the answer to a push"))),
        };
        match payload.get_u8() {
            1 if report.len() + payload.len() <= MAX_REPORT => report.extend_from_slice(&payload),
            1 => return Err(call.protocol("a report of a push without end")),
            2 => {
                messages.extend_from_slice(&payload);
                // Cut rarely, so that a hook which writes without end costs no time.
                if messages.len() > 4 * MAX_MESSAGES {
                    messages.drain(..messages.len() - 2 * MAX_MESSAGES);
                    cut = true;
                }
            }
            3 => break Err(String::from_utf8_lossy(&payload).into_owned()),
            band => return Err(call.protocol(format!("side band {band}"))),
        }
    };
    let messages = shown(call, &messages, cut);
    if let Err(reason) = outcome {
        return Ok((Err(reason), messages));
    }
    let mut lines = Vec::new();
    loop {
        match pktline::take(&mut report).map_err(|what| call.protocol(what))? {
            Some(Pkt::Data(line)) => lines.push(String::from_utf8_lossy(&line).trim_end().to_owned()),
            Some(_) => break,
            None => return Err(call.protocol("a report of a push without an end")),
        }
    }
    Ok((Ok(lines), messages))
}

async fn plain(frames: &mut Frames<'_>) -> Result<Vec<String>, GitError> {
    let mut lines = Vec::new();
    while let Ok(line) = frames.line().await? {
        if lines.len() > MAX_REPORT / 64 {
            return Err(frames.call().protocol("a report of a push without end"));
        }
        lines.push(line);
    }
    Ok(lines)
}

/// The last lines of the messages in one, each as a terminal would show it in the end: what a carriage return begins
/// again replaces what was before. The first line of what was cut is not whole, and left out: half a secret would not
/// be known as one.
fn shown(call: &Call<'_>, messages: &[u8], cut: bool) -> String {
    let text = String::from_utf8_lossy(messages);
    let whole = if cut { text.split_once('\n').map_or("", |(_, rest)| rest) } else { &text };
    let redacted = call.redact(whole);
    let lines = redacted.lines().filter_map(|line| line.trim_end().rsplit('\r').next());
    let joined = lines.map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ");
    let excess = joined.chars().count().saturating_sub(MAX_MESSAGES);
    printable(&joined.chars().skip(excess).collect::<String>(), MAX_MESSAGES)
}

/// Why the ref `name` was not updated; nothing if it was. An error if the report does not say.
fn judge(report: &[String], name: &str) -> Result<Option<String>, String> {
    let mut lines = report.iter().map(String::as_str);
    match lines.next().and_then(|line| line.strip_prefix("unpack ")) {
        Some("ok") => {}
        Some(why) => return Ok(Some(format!("it failed to unpack what was pushed: {why}"))),
        None => return Err("a report of a push that does not begin with unpack".to_owned()),
    }
    for line in lines {
        if line.strip_prefix("ok ") == Some(name) {
            return Ok(None);
        }
        if let Some((refused, why)) = line.strip_prefix("ng ").and_then(|rest| rest.split_once(' '))
            && refused == name
        {
            return Ok(Some(why.to_owned()));
        }
    }
    Err(format!("a report of a push without {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_says_what_became_of_the_ref() {
        let of = |lines: &[&str]| {
            judge(&lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>(), "refs/heads/main")
        };
        assert_eq!(of(&["unpack ok", "ok refs/heads/main"]), Ok(None));
        assert_eq!(of(&["unpack ok", "ok refs/heads/main", "option refname refs/heads/x"]), Ok(None));
        let declined = of(&["unpack ok", "ng refs/heads/main pre-receive hook declined"]);
        assert_eq!(declined, Ok(Some("pre-receive hook declined".to_owned())));
        let full = of(&["unpack index-pack abnormal exit", "ng refs/heads/main unpacker error"]);
        assert!(full.unwrap().unwrap().contains("index-pack abnormal exit"));
        for nonsense in
            [&[][..], &["ok refs/heads/main"], &["unpack ok"], &["unpack ok", "ok refs/heads/other"]]
        {
            assert!(of(nonsense).is_err(), "{nonsense:?}");
        }
    }
}
