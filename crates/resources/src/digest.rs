//! Hashes by which the documents of one file are told apart that have changed.
//!
//! Each object of such a file carries the hash of its own document, and the one of all documents as they were when it was
//! last written. So only those whose document changed are written, and the file is known to be in step without reading
//! it: some object was written from it as it is, and what that one says of all is what they say of themselves.

use sha2::{Digest as _, Sha256};

use crate::Kind;

/// The hash of an object's own document, out of the two that [`windlass_api::annotations::SOURCE_DOCUMENT`] has.
pub(crate) fn own(hashes: &str) -> Option<&str> {
    hashes.split(' ').next()
}

/// The hash of all documents, likewise.
pub(crate) fn all(hashes: &str) -> Option<&str> {
    hashes.split(' ').nth(1)
}

/// Hash of texts, which are told apart: 32 hexadecimal digits.
pub(crate) fn of<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let mut digest = Sha256::new();
    for text in texts {
        digest.update((text.len() as u64).to_be_bytes());
        digest.update(text);
    }
    let digest: [u8; 32] = digest.finalize().into();
    let mut half = [0; 16];
    half.copy_from_slice(&digest[..16]);
    format!("{:032x}", u128::from_be_bytes(half))
}

/// Hash of objects and their documents, in whatever order.
pub(crate) fn of_all<'a>(objects: impl IntoIterator<Item = (&'a Kind, &'a str, &'a str)>) -> String {
    let mut lines: Vec<String> =
        objects.into_iter().map(|(kind, name, document)| format!("{kind} {name} {document}")).collect();
    lines.sort_unstable();
    of(lines.iter().map(String::as_str))
}
