//! A commit as a stranger wrote it: whatever it says is read as far as it makes sense, and never refused.

use std::borrow::Cow;

use crate::ObjectId;
use windlass_http_client::printable;

/// Characters of a subject that are kept.
const MAX_SUBJECT: usize = 200;
/// Characters of an author's name that are kept.
const MAX_AUTHOR: usize = 100;
/// Bytes of a message that the subject is looked for in, from its beginning, and trailers, from its end.
const MAX_MESSAGE: usize = 4 << 10;
/// The trailer that names the trace which the commit came of, in any case (W3C Trace Context).
const TRACEPARENT: &str = "traceparent";
/// The trailer that names the job which made a commit.
pub const JOB_TRAILER: &str = "Windlass-Job";
/// Characters of a trailer that is read: those of the first version of a `traceparent`, and more for later ones.
const MAX_TRAILER: usize = 128;

/// What is kept of a commit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Commit {
    pub(super) id: ObjectId,
    pub(super) parents: Vec<ObjectId>,
    /// Seconds since 1970, as its committer's clock had it; its author's where that cannot be read, or else 0.
    pub(super) committed: i64,
    pub(super) author: String,
    pub(super) subject: String,
    /// What the trailer `traceparent` says.
    pub(super) traceparent: Option<Box<str>>,
    /// What the trailer `Windlass-Job` says.
    pub(super) job: Option<Box<str>>,
}

impl Commit {
    /// How many commits it counts as: one, and one more for each parent beyond the two of an ordinary merge. Nothing
    /// in Git bounds them, and they take memory as commits do.
    pub(super) fn weight(&self) -> usize {
        self.parents.len().max(2) - 1
    }

    /// Reads the raw commit `data` (Git: `git-cat-file commit`), whose id is `id`.
    pub(super) fn read(id: ObjectId, data: &[u8]) -> Self {
        let mut commit = Self {
            id,
            parents: Vec::new(),
            committed: 0,
            author: String::new(),
            subject: String::new(),
            traceparent: None,
            job: None,
        };
        let (mut author, mut committer, mut latin1) = (&[][..], &[][..], false);
        let mut rest = data;
        let message = loop {
            let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            let line = &rest[..end];
            rest = rest.get(end + 1..).unwrap_or_default();
            if line.is_empty() {
                break rest;
            }
            let value = |name: &[u8]| line.strip_prefix(name);
            if let Some(parent) = value(b"parent ") {
                let id: Option<ObjectId> = std::str::from_utf8(parent).ok().and_then(|id| id.parse().ok());
                commit.parents.extend(id);
            } else if let Some(who) = value(b"author ") {
                author = who;
            } else if let Some(who) = value(b"committer ") {
                committer = who;
            } else if let Some(name) = value(b"encoding ") {
                latin1 = name.eq_ignore_ascii_case(b"iso-8859-1") || name.eq_ignore_ascii_case(b"latin1");
            }
        };
        let name = author.split(|byte| *byte == b'<').next().unwrap_or_default();
        commit.committed = seconds(committer).or_else(|| seconds(author)).unwrap_or_default();
        commit.author = printable(&decode(name, latin1), MAX_AUTHOR);
        commit.subject = subject(&decode(&message[..message.len().min(MAX_MESSAGE)], latin1));
        let end = &message[message.len().saturating_sub(MAX_MESSAGE)..];
        let (end, is_cut) = (decode(end, latin1), end.len() < message.len());
        commit.traceparent = trailer(&end, is_cut, TRACEPARENT);
        commit.job = trailer(&end, is_cut, JOB_TRAILER);
        commit
    }
}

/// The time in `NAME <EMAIL> SECONDS ZONE`; one that is beyond what can be counted is the last or first that can.
fn seconds(who: &[u8]) -> Option<i64> {
    let after = who.iter().rposition(|byte| *byte == b'>')? + 1;
    let text = std::str::from_utf8(&who[after..]).ok()?.split_whitespace().next()?;
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let beyond = if text.starts_with('-') { i64::MIN } else { i64::MAX };
    Some(text.parse().unwrap_or(beyond))
}

fn decode(bytes: &[u8], latin1: bool) -> Cow<'_, str> {
    if latin1 {
        return bytes.iter().map(|byte| char::from(*byte)).collect();
    }
    String::from_utf8_lossy(bytes)
}

/// The first paragraph in one line.
fn subject(message: &str) -> String {
    let lines = message.trim_start().lines().map(str::trim).take_while(|line| !line.is_empty());
    printable(&lines.collect::<Vec<_>>().join(" "), MAX_SUBJECT)
}

/// What the last trailer of this name says, in the last paragraph of a message, which is not its first one
/// (Git: `git-interpret-trailers`). `is_cut` when the message begins before this.
fn trailer(message: &str, is_cut: bool, wanted: &str) -> Option<Box<str>> {
    let mut paragraph: Vec<&str> =
        message.trim().lines().rev().map(str::trim_end).take_while(|line| !line.is_empty()).collect();
    let is_first = !is_cut && paragraph.len() == message.trim().lines().count();
    if is_first {
        paragraph.clear();
    }
    let values = paragraph.iter().filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.trim_end().eq_ignore_ascii_case(wanted).then(|| value.trim())
    });
    let mut plain = values.filter(|value| {
        (1..=MAX_TRAILER).contains(&value.len()) && value.bytes().all(|byte| byte.is_ascii_graphic())
    });
    plain.next().map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef01234567";

    fn read(data: impl AsRef<[u8]>) -> Commit {
        Commit::read(ID.parse().unwrap(), data.as_ref())
    }

    fn at(committer: &str) -> i64 {
        read(format!("tree {ID}\nauthor A <a@b> 77 +0000\ncommitter {committer}\n\nx\n")).committed
    }

    #[test]
    fn a_commit_is_read_whole() {
        let commit = read(format!(
            "tree {ID}\nparent {ID}\nparent {ID}\nauthor A. Writer <a@b> 5 +0200\ncommitter C <c@d> 1700000000 +0000\n\
             gpgsig -----BEGIN\n parent {ID}\n -----END\n\nadd a thing\nand another\n\nbecause\n"
        ));
        assert_eq!(commit.parents.len(), 2);
        assert_eq!((commit.author.as_str(), commit.committed), ("A. Writer", 1_700_000_000));
        assert_eq!(commit.subject, "add a thing and another");
    }

    #[test]
    fn absurd_dates_are_kept_as_far_as_they_can_be_counted() {
        assert_eq!(at("C <c@d> -62135596800 +0000"), -62_135_596_800);
        assert_eq!(at("C <c@d> 31556889864403199 +0000"), 31_556_889_864_403_199);
        assert_eq!(at("C <c@d> 99999999999999999999999 +0000"), i64::MAX);
        assert_eq!(at("C <c@d> -99999999999999999999999 +0000"), i64::MIN);
        assert_eq!(at("C <c > d> 12 +0000"), 12);
        for unreadable in ["C <c@d> yesterday +0000", "C <c@d>", "", "C <c@d> 1x +0000", "C <c@d> - +0000"] {
            assert_eq!(at(unreadable), 77, "{unreadable}");
        }
        assert_eq!(read("").committed, 0);
    }

    #[test]
    fn the_trace_that_a_commit_came_of_is_named_by_a_trailer() {
        const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let of = |message: &str| read(format!("author A <a@b> 1 +0000\n\n{message}")).traceparent;
        for message in [
            format!("subject\n\ntraceparent: {TRACE}\n"),
            format!("subject\r\n\r\nbody\r\n\r\nSigned-off-by: A <a@b>\r\nTraceparent:{TRACE}\r\n\r\n"),
            format!("subject\n\nTRACEPARENT: 00-older\nTRACEPARENT: {TRACE}\nCo-authored-by: B <b@c>"),
            format!("subject\n\n{}\n\ntraceparent: {TRACE}", "long ".repeat(4_000)),
            format!("subject\n\n{}\ntraceparent: {TRACE}", "trailer: x\n".repeat(1_000).trim_end()),
        ] {
            assert_eq!(of(&message).as_deref(), Some(TRACE), "{message:.60}");
        }
        for message in [
            String::new(),
            format!("traceparent: {TRACE}"),
            format!("subject\n\ntraceparent: {TRACE}\n\nanother paragraph"),
            "subject\n\ntraceparent:".to_owned(),
            "subject\n\ntraceparent: a b".to_owned(),
            format!("subject\n\ntraceparent: {}", "0".repeat(129)),
            format!("subject\n\nthe traceparent: {TRACE}"),
        ] {
            assert_eq!(of(&message), None, "{message:.60}");
        }
    }

    #[test]
    fn texts_are_one_short_line_of_printable_characters() {
        let latin = read(b"author J\xf6rg <j@b> 1 +0000\nencoding ISO-8859-1\n\ngr\xfc\xdfe\n");
        assert_eq!((latin.author.as_str(), latin.subject.as_str()), ("Jörg", "grüße"));
        let broken = read(b"author J\xf6 <j@b> 1 +0000\n\n\n\n  gr\xfc\xdf\x1b[31me\r\nx\n");
        assert_eq!(
            (broken.author.as_str(), broken.subject.as_str()),
            ("J\u{fffd}", "gr\u{fffd}\u{fffd} [31me x")
        );
        let huge = read(format!("author {0} <a@b> 1 +0000\n\n{0}", "é".repeat(1 << 20)));
        assert_eq!((huge.author.chars().count(), huge.subject.chars().count()), (101, 201));
        assert_eq!(read("author A <a> 1 +0000").subject, "");
    }
}
