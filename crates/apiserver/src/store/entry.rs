//! The bytes of one entry of the `objects` table: form, revision, value.
//!
//! The database gives a value of more than a page twice its size in the worst case, and its file grows by doubling:
//! together more than three times the live data. JSON shrinks to a third or less, which is also that much less to
//! write and sync.

use bytes::Bytes;

use super::{Key, Object, StoreError};

/// The value follows as it is.
const PLAIN: u8 = 0;
/// The value's length (u32, little endian) and an LZ4 block follow.
const LZ4: u8 = 1;
/// Values smaller than this are left as they are.
const SMALL: usize = 256;
/// An LZ4 block becomes at most this many times as large.
const MAX_RATIO: usize = 255;
const HEAD: usize = 1 + size_of::<u64>();
const LENGTH: usize = size_of::<u32>();

/// The bytes of an entry.
pub(super) fn encode(revision: u64, value: &[u8]) -> Vec<u8> {
    let head = |form: u8, rest: usize| {
        let mut entry = Vec::with_capacity(HEAD + rest);
        entry.push(form);
        entry.extend_from_slice(&revision.to_le_bytes());
        entry
    };
    if let (SMALL.., Ok(length)) = (value.len(), u32::try_from(value.len())) {
        let mut entry = head(LZ4, LENGTH + lz4_flex::block::get_maximum_output_size(value.len()));
        entry.extend_from_slice(&length.to_le_bytes());
        entry.resize(entry.capacity(), 0);
        // It cannot fail with that much room. An eighth is worth the effort of reading it.
        if let Ok(size) = lz4_flex::block::compress_into(value, &mut entry[HEAD + LENGTH..])
            && size < value.len() / 8 * 7
        {
            entry.truncate(HEAD + LENGTH + size);
            return entry;
        }
    }
    let mut entry = head(PLAIN, value.len());
    entry.extend_from_slice(value);
    entry
}

/// The object in an entry.
pub(super) fn decode(key: Key, entry: &[u8]) -> Result<Object, StoreError> {
    match parts(entry) {
        Ok((revision, value)) => Ok(Object { key, revision, value }),
        Err(problem) => Err(StoreError::Corrupt { entry: key.to_string(), problem }),
    }
}

fn parts(entry: &[u8]) -> Result<(u64, Bytes), &'static str> {
    let short = "it is too short";
    let (form, rest) = entry.split_first().ok_or(short)?;
    let (revision, rest) = rest.split_first_chunk().ok_or(short)?;
    let value = match *form {
        PLAIN => Bytes::copy_from_slice(rest),
        LZ4 => {
            let (length, block) = rest.split_first_chunk().ok_or(short)?;
            let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| "it is too long")?;
            if length > block.len().saturating_mul(MAX_RATIO) {
                return Err("it names a length that it cannot have");
            }
            let value = lz4_flex::block::decompress(block, length).map_err(|_| "it is damaged")?;
            if value.len() != length {
                return Err("it has not the length that it names");
            }
            value.into()
        }
        _ => return Err("it is in an unknown form"),
    };
    Ok((u64::from_le_bytes(*revision), value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key() -> Key {
        Key::new("g", "r", "ns", "name").unwrap()
    }

    fn random(length: usize) -> Vec<u8> {
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state.to_be_bytes()[0]
        };
        (0..length).map(|_| next()).collect()
    }

    #[test]
    fn a_value_that_repeats_itself_is_stored_small_and_another_as_it_is() {
        let text = r#"{"type":"timeseries","gridPos":{"h":8,"w":12}},"#.repeat(100);
        assert!(encode(7, text.as_bytes()).len() < text.len() / 10);
        for value in [random(5000), b"short".to_vec(), Vec::new()] {
            assert_eq!(encode(7, &value).len(), value.len() + HEAD);
        }
    }

    #[test]
    fn a_damaged_entry_is_an_error_that_names_it() {
        let whole = encode(7, "abcdefgh".repeat(100).as_bytes());
        assert_eq!(whole[0], LZ4);
        let mut damaged: Vec<Vec<u8>> = (0..whole.len()).map(|end| whole[..end].to_vec()).collect();
        damaged.push([&[9], &whole[1..]].concat());
        // A length that would take all memory.
        damaged.push([&whole[..HEAD], &[0xff; LENGTH], &whole[HEAD + LENGTH..]].concat());
        for entry in damaged {
            let error = decode(key(), &entry).unwrap_err().to_string();
            assert!(error.contains("r.g ns/name"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded(
            revision: u64,
            value in prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..2000),
                proptest::collection::vec(0..3_u8, 0..9000),
            ],
        ) {
            let object = decode(key(), &encode(revision, &value)).unwrap();
            prop_assert_eq!((object.revision, &object.value[..]), (revision, &value[..]));
        }

        #[test]
        fn no_bytes_make_it_panic(entry in proptest::collection::vec(any::<u8>(), 0..300), form in 0..3_u8) {
            let _ = decode(key(), &[&[form], &entry[..]].concat());
        }
    }
}
