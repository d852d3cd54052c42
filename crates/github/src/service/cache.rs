//! Answers that may be used again: as they are for as long as GitHub says, revalidated afterwards (RFC 9111).

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::StatusCode;
use http::header::{AGE, CACHE_CONTROL, ETAG, HeaderMap, HeaderName, HeaderValue, LAST_MODIFIED};
use tokio::time::Instant;

use super::transport::Answer;

/// No answer is believed longer than this without asking.
const LONGEST: Duration = Duration::from_hours(1);
/// What an entry takes beside its body, roughly.
const OVERHEAD: usize = 2 << 10;

/// A kept answer, and how to ask whether it still holds.
#[derive(Clone)]
pub(crate) struct Kept {
    pub(crate) answer: Answer,
    /// For `If-None-Match`.
    pub(crate) etag: Option<HeaderValue>,
    /// For `If-Modified-Since`, where there is no tag.
    pub(crate) modified: Option<HeaderValue>,
}

/// Kept answers by their keys, bounded by their bytes; what was not used for longest goes first.
pub(crate) struct Cache {
    max: usize,
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    by_key: HashMap<String, Entry>,
    bytes: usize,
    uses: u64,
    writes: u64,
}

struct Entry {
    kept: Kept,
    fresh_until: Instant,
    used: u64,
}

/// What is kept for a key.
pub(crate) enum Found {
    /// It holds.
    Fresh(Answer),
    /// It may hold: ask.
    Stale(Kept),
    /// Nothing.
    Nothing,
}

impl Cache {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, entries: Mutex::default() }
    }

    pub(crate) fn find(&self, key: &str) -> Found {
        let mut entries = self.entries();
        entries.uses += 1;
        let used = entries.uses;
        let Some(entry) = entries.by_key.get_mut(key) else {
            return Found::Nothing;
        };
        entry.used = used;
        if Instant::now() < entry.fresh_until {
            return Found::Fresh(entry.kept.answer.clone());
        }
        if entry.kept.etag.is_none() && entry.kept.modified.is_none() {
            return Found::Nothing;
        }
        Found::Stale(entry.kept.clone())
    }

    /// Keeps a whole answer that was asked for after `writes`, unless its headers forbid it.
    pub(crate) fn store(&self, key: &str, answer: &Answer, writes: u64) {
        let mut entries = self.entries();
        entries.remove(key);
        let Some(fresh) = freshness(&answer.headers).filter(|_| answer.status == StatusCode::OK) else {
            return;
        };
        let etag = answer.headers.get(ETAG).cloned();
        let modified = answer.headers.get(LAST_MODIFIED).filter(|_| etag.is_none()).cloned();
        let size = size(key, answer);
        let is_useless = etag.is_none() && modified.is_none() && fresh.is_zero();
        if size > self.max || is_useless || writes != entries.writes {
            return;
        }
        entries.uses += 1;
        let kept = Kept { answer: answer.clone(), etag, modified };
        let entry = Entry { kept, fresh_until: Instant::now() + fresh, used: entries.uses };
        entries.by_key.insert(key.to_owned(), entry);
        entries.bytes += size;
        while entries.bytes > self.max {
            let oldest =
                entries.by_key.iter().min_by_key(|(_, entry)| entry.used).map(|(key, _)| key.clone());
            match oldest {
                Some(oldest) => entries.remove(&oldest),
                None => break,
            }
        }
    }

    /// GitHub said that what is kept still holds (304): it does for as long as these headers say.
    pub(crate) fn revalidated(&self, key: &str, headers: &HeaderMap) {
        if let Some(entry) = self.entries().by_key.get_mut(key) {
            entry.fresh_until = Instant::now() + freshness(headers).unwrap_or_default();
        }
    }

    /// Drops what is kept for a key.
    pub(crate) fn forget(&self, key: &str) {
        self.entries().remove(key);
    }

    /// How many writes were made.
    pub(crate) fn writes(&self) -> u64 {
        self.entries().writes
    }

    /// Something was written at `target`: drops what is kept of the repository that this is in, and what is still under
    /// way is not kept.
    pub(crate) fn forget_repository(&self, target: &str) {
        let mut entries = self.entries();
        entries.writes += 1;
        // `/repos/owner/name/…`
        let Some((end, _)) = target.match_indices('/').nth(3) else { return };
        let repository = &target[..=end];
        let gone =
            |key: &&String| key.split_once(' ').is_some_and(|(_, target)| target.starts_with(repository));
        let gone: Vec<String> = entries.by_key.keys().filter(gone).cloned().collect();
        for key in gone {
            entries.remove(&key);
        }
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    fn remove(&mut self, key: &str) {
        if let Some(entry) = self.by_key.remove(key) {
            self.bytes -= size(key, &entry.kept.answer);
        }
    }
}

fn size(key: &str, answer: &Answer) -> usize {
    key.len() + answer.body.len() + OVERHEAD
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
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
    use bytes::Bytes;

    use super::*;

    fn headers(list: &[(HeaderName, &str)]) -> HeaderMap {
        list.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect()
    }

    fn answer(bytes: usize, list: &[(HeaderName, &str)]) -> Answer {
        Answer { status: StatusCode::OK, headers: headers(list), body: Bytes::from(vec![b'x'; bytes]) }
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
        let given = answer(10, &[(CACHE_CONTROL, "max-age=60"), (ETAG, "\"a\"")]);
        cache.store("k", &given, 0);
        assert!(matches!(cache.find("k"), Found::Fresh(_)));
        tokio::time::advance(Duration::from_mins(1)).await;
        assert!(matches!(cache.find("k"), Found::Stale(Kept { etag: Some(tag), .. }) if tag == "\"a\""));
        cache.revalidated("k", &given.headers);
        assert!(matches!(cache.find("k"), Found::Fresh(_)));
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first_and_what_is_too_large_is_not_kept() {
        let cache = Cache::new(3 * (1_000 + OVERHEAD + 1));
        let given = |size| answer(size, &[(ETAG, "\"a\"")]);
        for key in ["a", "b", "c"] {
            cache.store(key, &given(1_000), 0);
        }
        assert!(matches!(cache.find("a"), Found::Stale(_)));
        cache.store("d", &given(1_000), 0);
        let left: Vec<_> = ["a", "b", "c", "d"]
            .into_iter()
            .filter(|key| matches!(cache.find(key), Found::Stale(_)))
            .collect();
        assert_eq!(left, ["a", "c", "d"]);
        cache.store("e", &given(100_000), 0);
        assert!(matches!(cache.find("e"), Found::Nothing));
        assert!(cache.entries().bytes <= cache.max);
    }

    #[test]
    fn an_answer_that_must_not_be_kept_replaces_the_kept_one_by_nothing() {
        let cache = Cache::new(10_000);
        cache.store("k", &answer(10, &[(ETAG, "\"a\"")]), 0);
        cache.store("k", &answer(10, &[(ETAG, "\"b\""), (CACHE_CONTROL, "no-store")]), 0);
        assert!(matches!(cache.find("k"), Found::Nothing));
        assert_eq!(cache.entries().bytes, 0);
    }

    #[test]
    fn a_write_ends_what_is_kept_of_its_repository_and_of_no_other() {
        let cache = Cache::new(100_000);
        let given = answer(10, &[(CACHE_CONTROL, "max-age=60")]);
        let keys = ["j /repos/o/a/hooks", "j /repos/o/a/pulls/1", "j /repos/o/ab/hooks", "j /app"];
        for key in keys {
            cache.store(key, &given, 0);
        }
        cache.forget_repository("/repos/o/a/hooks/7");
        let left: Vec<_> =
            keys.into_iter().filter(|key| matches!(cache.find(key), Found::Fresh(_))).collect();
        assert_eq!(left, ["j /repos/o/ab/hooks", "j /app"]);
        cache.store("j /repos/o/a/hooks", &given, 0);
        assert!(matches!(cache.find("j /repos/o/a/hooks"), Found::Nothing), "it was read before the write");
        cache.store("j /repos/o/a/hooks", &given, cache.writes());
        assert!(matches!(cache.find("j /repos/o/a/hooks"), Found::Fresh(_)));
    }
}
