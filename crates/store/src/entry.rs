//! The bytes of one entry of the `objects` table: form, revision, checksum, value.
//!
//! The checksum is of the key and of all the rest, so that no flipped bit, and no entry under another's key, is taken for
//! what was stored.
//!
//! The database gives a value of more than a page twice its size in the worst case, and its file grows by doubling:
//! together more than three times the live data. JSON shrinks to a third or less, which is also that much less to
//! write and sync.

use bytes::Bytes;

use super::{Key, Object, StoreError};

/// The value follows as it is, after the checksum (CRC-32, little endian).
const PLAIN: u8 = 0xa4;
/// The value's length (u32, little endian) and an LZ4 block follow, after the checksum.
const LZ4: u8 = 0xa9;
/// As [`PLAIN`] and [`LZ4`], without a checksum: from before there were any. More than one bit is different.
const OLD_PLAIN: u8 = 0;
const OLD_LZ4: u8 = 1;
/// Values smaller than this are left as they are.
const SMALL: usize = 256;
/// An LZ4 block becomes at most this many times as large.
const MAX_RATIO: usize = 255;
const HEAD: usize = 1 + size_of::<u64>();
const SUM: usize = size_of::<u32>();
const LENGTH: usize = size_of::<u32>();

/// The bytes of an entry.
pub(super) fn encode(key: &Key, revision: u64, value: &[u8]) -> Vec<u8> {
    let mut entry = unsealed(revision, value);
    let sum = checksum(key, &entry);
    entry[HEAD..HEAD + SUM].copy_from_slice(&sum.to_le_bytes());
    entry
}

/// The checksum of an entry, whatever stands in its place.
fn checksum(key: &Key, entry: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(key.as_str().as_bytes());
    sum.update(&entry[..HEAD]);
    sum.update(&entry[HEAD + SUM..]);
    sum.finalize()
}

/// An entry with room for its checksum.
fn unsealed(revision: u64, value: &[u8]) -> Vec<u8> {
    let head = |form: u8, rest: usize| {
        let mut entry = Vec::with_capacity(HEAD + SUM + rest);
        entry.push(form);
        entry.extend_from_slice(&revision.to_le_bytes());
        entry.extend_from_slice(&[0; SUM]);
        entry
    };
    if let (SMALL.., Ok(length)) = (value.len(), u32::try_from(value.len())) {
        let mut entry = head(LZ4, LENGTH + lz4_flex::block::get_maximum_output_size(value.len()));
        entry.extend_from_slice(&length.to_le_bytes());
        entry.resize(entry.capacity(), 0);
        // It cannot fail with that much room. An eighth is worth the effort of reading it.
        if let Ok(size) = lz4_flex::block::compress_into(value, &mut entry[HEAD + SUM + LENGTH..])
            && size < value.len() / 8 * 7
        {
            entry.truncate(HEAD + SUM + LENGTH + size);
            return entry;
        }
    }
    let mut entry = head(PLAIN, value.len());
    entry.extend_from_slice(value);
    entry
}

/// The object in an entry.
pub(super) fn decode(key: Key, entry: &[u8]) -> Result<Object, StoreError> {
    match parts(Some(&key), entry) {
        Ok((revision, value)) => Ok(Object { key, revision, value }),
        Err(problem) => Err(StoreError::Corrupt { entry: key.to_string(), problem }),
    }
}

/// What can be told of a value whose checksum is another.
pub(super) fn salvage(entry: &[u8]) -> Option<Bytes> {
    Some(parts(None, entry).ok()?.1)
}

/// Revision and value; the checksum is looked at where the key is given.
fn parts(key: Option<&Key>, entry: &[u8]) -> Result<(u64, Bytes), &'static str> {
    let short = "it is too short";
    let (form, rest) = entry.split_first().ok_or(short)?;
    let (revision, mut rest) = rest.split_first_chunk().ok_or(short)?;
    if !matches!(*form, OLD_PLAIN | OLD_LZ4) {
        let (sum, value) = rest.split_first_chunk().ok_or(short)?;
        if key.is_some_and(|key| u32::from_le_bytes(*sum) != checksum(key, entry)) {
            return Err("it is damaged: its checksum is another");
        }
        rest = value;
    }
    let value = match *form {
        PLAIN | OLD_PLAIN => Bytes::copy_from_slice(rest),
        LZ4 | OLD_LZ4 => {
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
        assert!(encode(&key(), 7, text.as_bytes()).len() < text.len() / 10);
        for value in [random(5000), b"short".to_vec(), Vec::new()] {
            assert_eq!(encode(&key(), 7, &value).len(), value.len() + HEAD + SUM);
        }
    }

    #[test]
    fn a_damaged_entry_is_an_error_that_names_it() {
        let whole = encode(&key(), 7, "abcdefgh".repeat(100).as_bytes());
        assert_eq!(whole[0], LZ4);
        let mut damaged: Vec<Vec<u8>> = (0..whole.len()).map(|end| whole[..end].to_vec()).collect();
        damaged.push([&[9], &whole[1..]].concat());
        // A length that would take all memory.
        damaged.push([&[OLD_LZ4], &whole[1..HEAD], &[0xff; LENGTH], &whole[HEAD + SUM + LENGTH..]].concat());
        // Any bit.
        damaged.extend((0..whole.len() * 8).map(|bit| {
            let mut entry = whole.clone();
            entry[bit / 8] ^= 1 << (bit % 8);
            entry
        }));
        for entry in damaged {
            let error = decode(key(), &entry).unwrap_err().to_string();
            assert!(error.contains("r.g ns/name"), "{error}");
        }
    }

    #[test]
    fn an_entry_under_the_key_of_another_is_an_error_and_one_of_before_checksums_is_read() {
        let entry = encode(&key(), 7, b"value");
        assert!(decode(Key::new("g", "r", "ns", "other").unwrap(), &entry).is_err());
        let old = [&[OLD_PLAIN], &entry[1..HEAD], b"value"].concat();
        assert_eq!(decode(key(), &old).unwrap(), decode(key(), &entry).unwrap());
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
            let object = decode(key(), &encode(&key(), revision, &value)).unwrap();
            prop_assert_eq!((object.revision, &object.value[..]), (revision, &value[..]));
        }

        #[test]
        fn no_bytes_make_it_panic(entry in proptest::collection::vec(any::<u8>(), 0..300), form in prop_oneof![0..3_u8, Just(PLAIN), Just(LZ4)]) {
            let _ = decode(key(), &[&[form], &entry[..]].concat());
        }
    }
}
