//! What may be wrong with a delivery.

use serde_json::{Value, json};

/// Numbers that look random and are the same for the same seed (splitmix64).
pub(super) struct Draw(u64);

impl Draw {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; zero when there is none.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        let drawn = usize::try_from(self.next() >> 16).unwrap();
        drawn.checked_rem(bound).unwrap_or(0)
    }

    pub(super) fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    pub(super) fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    fn byte(&mut self) -> u8 {
        self.next().to_be_bytes()[3]
    }
}

/// Texts that mean something to somebody.
const TEXTS: &[&str] = &[
    "",
    "\0",
    "refs/heads/",
    "refs/heads/master",
    "refs/tags/v1",
    "refs/heads/\r\nx",
    "master",
    "../../etc/passwd",
    "0000000000000000000000000000000000000000",
    "http://169.254.169.254/",
    "Codertocat/Hello-World.git",
    "/",
    ".git",
    "@everyone",
    "\u{202e}",
    "💥",
    "opened",
    "synchronize",
    "branch",
    "a b\tc",
    "%00",
    "' OR 1=1",
];

fn junk(draw: &mut Draw) -> Value {
    match draw.below(12) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(i64::MIN),
        3 => json!(u64::MAX),
        4 => json!(1e308),
        5 => json!(-1),
        6 => json!("x".repeat(draw.below(20_000))),
        7 => (0..draw.below(200)).fold(json!([]), |inner, _| json!([inner])),
        8 => (0..draw.below(200)).fold(json!({}), |inner, _| json!({"repository": inner})),
        9 => json!(vec!["y"; draw.below(500)]),
        _ => json!(draw.of(TEXTS)),
    }
}

/// Changes a place of the document.
pub(super) fn document(draw: &mut Draw, place: &mut Value) {
    let deeper = !draw.one_in(4);
    match place {
        Value::Object(fields) if !fields.is_empty() => {
            let key = fields.keys().nth(draw.below(fields.len())).cloned().unwrap_or_default();
            if deeper {
                return document(draw, &mut fields[&key]);
            }
            let taken = fields.remove(&key).unwrap_or_default();
            match draw.below(3) {
                0 => {}
                1 => drop(fields.insert(key, junk(draw))),
                _ => drop(fields.insert(draw.of(TEXTS).to_owned(), taken)),
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let at = draw.below(items.len());
            if deeper {
                return document(draw, &mut items[at]);
            }
            match draw.below(3) {
                0 => drop(items.remove(at)),
                1 => items[at] = junk(draw),
                _ => items.extend(vec![items[at].clone(); draw.below(50)]),
            }
        }
        other => *other = junk(draw),
    }
}

/// Changes a few bytes.
pub(super) fn bytes(draw: &mut Draw, bytes: &mut Vec<u8>) {
    for _ in 0..=draw.below(3) {
        let at = draw.below(bytes.len());
        let end = (at + draw.below(40)).min(bytes.len());
        match draw.below(7) {
            0 if at < bytes.len() => bytes[at] ^= 1 << draw.below(8),
            1 if at < bytes.len() => bytes[at] = draw.byte(),
            2 => bytes.insert(at, draw.byte()),
            3 => drop(bytes.drain(at..end)),
            4 => bytes.truncate(at),
            5 => {
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => drop(bytes.splice(at..at, draw.of(TEXTS).bytes()).count()),
        }
    }
}

/// The payload as a form's, mostly.
pub(super) fn form(draw: &mut Draw, payload: &[u8]) -> Vec<u8> {
    let payload = String::from_utf8_lossy(payload);
    let mut fields = vec![("payload", &*payload)];
    match draw.below(8) {
        0 => fields.push(("payload", "{}")),
        1 => fields[0].0 = "Payload",
        2 => fields.insert(0, ("other", "%")),
        _ => {}
    }
    let mut whole =
        url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish().into_bytes();
    if draw.one_in(4) {
        bytes(draw, &mut whole);
    }
    whole
}
