//! Answers that may be used again: as they are for as long as GitHub says, revalidated afterwards (RFC 9111).

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{AGE, CACHE_CONTROL, ETAG, HeaderMap, HeaderName, LAST_MODIFIED};
use tokio::time::Instant;

/// No answer is believed longer than this without asking.
const LONGEST: Duration = Duration::from_hours(1);
/// What an entry takes beside its body, roughly.
const OVERHEAD: usize = 512;

/// An answer with status 200.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) body: Bytes,
    /// Whether there is a next page.
    pub(crate) more: bool,
}

/// How to ask whether an answer still holds.
#[derive(Clone, Debug)]
pub(crate) enum Validator {
    /// `If-None-Match`.
    Tag(String),
    /// `If-Modified-Since`.
    Modified(String),
}

/// Kept answers, bounded by their bytes; what was not used for longest goes first.
pub(crate) struct Cache {
    max: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    entries: HashMap<String, Entry>,
    bytes: usize,
    uses: u64,
}

struct Entry {
    answer: Answer,
    validator: Option<Validator>,
    fresh_until: Instant,
    used: u64,
}

/// What is kept of a question.
pub(crate) enum Found {
    /// It holds.
    Fresh(Answer),
    /// It may hold: ask.
    Stale(Validator),
    /// Nothing.
    Nothing,
}

impl Cache {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, kept: Mutex::default() }
    }

    pub(crate) fn find(&self, question: &str) -> Found {
        let mut kept = self.kept();
        kept.uses += 1;
        let used = kept.uses;
        let Some(entry) = kept.entries.get_mut(question) else {
            return Found::Nothing;
        };
        entry.used = used;
        if Instant::now() < entry.fresh_until {
            return Found::Fresh(entry.answer.clone());
        }
        match &entry.validator {
            Some(validator) => Found::Stale(validator.clone()),
            None => Found::Nothing,
        }
    }

    /// Keeps a whole answer, unless its headers forbid it.
    pub(crate) fn store(&self, question: &str, headers: &HeaderMap, answer: &Answer) {
        let mut kept = self.kept();
        kept.remove(question);
        let Some(fresh) = freshness(headers) else {
            return;
        };
        let validator = validator(headers);
        let size = size(question, answer);
        if size > self.max || (validator.is_none() && fresh.is_zero()) {
            return;
        }
        kept.uses += 1;
        let entry =
            Entry { answer: answer.clone(), validator, fresh_until: Instant::now() + fresh, used: kept.uses };
        kept.entries.insert(question.to_owned(), entry);
        kept.bytes += size;
        while kept.bytes > self.max {
            let oldest = kept.entries.iter().min_by_key(|(_, entry)| entry.used).map(|(key, _)| key.clone());
            match oldest {
                Some(oldest) => kept.remove(&oldest),
                None => break,
            }
        }
    }

    /// The kept answer, which GitHub said still holds (304), for as long as these headers say.
    pub(crate) fn revalidated(&self, question: &str, headers: &HeaderMap) -> Option<Answer> {
        let mut kept = self.kept();
        let entry = kept.entries.get_mut(question)?;
        entry.fresh_until = Instant::now() + freshness(headers).unwrap_or_default();
        Some(entry.answer.clone())
    }

    /// Drops what is kept of a question.
    pub(crate) fn forget(&self, question: &str) {
        self.kept().remove(question);
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn remove(&mut self, question: &str) {
        if let Some(entry) = self.entries.remove(question) {
            self.bytes -= size(question, &entry.answer);
        }
    }
}

fn size(question: &str, answer: &Answer) -> usize {
    question.len() + answer.body.len() + OVERHEAD
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn validator(headers: &HeaderMap) -> Option<Validator> {
    let tag = text(headers, ETAG).map(|tag| Validator::Tag(tag.to_owned()));
    tag.or_else(|| text(headers, LAST_MODIFIED).map(|at| Validator::Modified(at.to_owned())))
}

/// How long an answer with these headers holds; nothing if it must not be kept.
fn freshness(headers: &HeaderMap) -> Option<Duration> {
    let control = text(headers, CACHE_CONTROL).unwrap_or_default().to_ascii_lowercase();
    let mut fresh = Duration::ZERO;
    let mut ask_always = false;
    for directive in control.split(',').map(str::trim) {
        match directive.split_once('=') {
            Some(("max-age", seconds)) => {
                let seconds = seconds.trim_matches('"').parse().unwrap_or_default();
                fresh = Duration::from_secs(seconds).min(LONGEST);
            }
            _ if directive == "no-store" => return None,
            _ if directive == "no-cache" => ask_always = true,
            _ => {}
        }
    }
    let age = text(headers, AGE).and_then(|age| age.parse().ok()).map_or(Duration::ZERO, Duration::from_secs);
    Some(if ask_always { Duration::ZERO } else { fresh.saturating_sub(age) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(list: &[(HeaderName, &str)]) -> HeaderMap {
        list.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect()
    }

    fn answer(bytes: usize) -> Answer {
        Answer { body: Bytes::from(vec![b'x'; bytes]), more: false }
    }

    fn check(control: &str, expected: Option<u64>) {
        let found = freshness(&headers(&[(CACHE_CONTROL, control)])).map(|fresh| fresh.as_secs());
        assert_eq!(found, expected, "for {control}");
    }

    #[test]
    fn freshness_is_what_cache_control_says() {
        check("private, max-age=60, s-maxage=60", Some(60));
        check("Max-Age=\"60\"", Some(60));
        check("no-cache, max-age=60", Some(0));
        check("max-age=60, no-store", None);
        check("max-age=99999999999999999999", Some(0));
        check("max-age=31536000", Some(3600));
        check("", Some(0));
        let aged = headers(&[(CACHE_CONTROL, "max-age=60"), (AGE, "50")]);
        assert_eq!(freshness(&aged), Some(Duration::from_secs(10)));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_fresh_then_asked_for_by_its_tag_then_fresh_again() {
        let cache = Cache::new(10_000);
        let given = headers(&[(CACHE_CONTROL, "max-age=60"), (ETAG, "\"a\"")]);
        cache.store("q", &given, &answer(10));
        assert!(matches!(cache.find("q"), Found::Fresh(_)));
        tokio::time::advance(Duration::from_mins(1)).await;
        assert!(matches!(cache.find("q"), Found::Stale(Validator::Tag(tag)) if tag == "\"a\""));
        assert!(cache.revalidated("q", &given).is_some());
        assert!(matches!(cache.find("q"), Found::Fresh(_)));
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first_and_what_is_too_large_is_not_kept() {
        let cache = Cache::new(3 * (1_000 + OVERHEAD + 1));
        let given = headers(&[(ETAG, "\"a\"")]);
        for question in ["a", "b", "c"] {
            cache.store(question, &given, &answer(1_000));
        }
        assert!(matches!(cache.find("a"), Found::Stale(_)));
        cache.store("d", &given, &answer(1_000));
        let left: Vec<_> = ["a", "b", "c", "d"]
            .into_iter()
            .filter(|question| matches!(cache.find(question), Found::Stale(_)))
            .collect();
        assert_eq!(left, ["a", "c", "d"]);
        cache.store("e", &given, &answer(100_000));
        assert!(matches!(cache.find("e"), Found::Nothing));
        assert!(cache.kept().bytes <= cache.max);
    }

    #[test]
    fn an_answer_that_must_not_be_kept_replaces_the_kept_one_by_nothing() {
        let cache = Cache::new(10_000);
        cache.store("q", &headers(&[(ETAG, "\"a\"")]), &answer(10));
        cache.store("q", &headers(&[(ETAG, "\"b\""), (CACHE_CONTROL, "no-store")]), &answer(10));
        assert!(matches!(cache.find("q"), Found::Nothing));
        assert_eq!(cache.kept().bytes, 0);
    }
}
