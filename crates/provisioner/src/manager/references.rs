//! References: finalizers that keep an object while others need it.

use sha2::{Digest as _, Sha256};

/// What every reference begins with, so that nobody's finalizer is mistaken for one.
pub const REFERENCE_PREFIX: &str = "reference.provisioner.windlass.dev/";

/// The longest name in a qualified name.
const MAX_NAME: usize = 63;

/// The finalizer by which the object `namespace/name` of the collection `plural.group` refers to another: put on that
/// one with [`windlass_runtime::add_finalizers`], and taken off with [`windlass_runtime::remove_finalizer`]. A manager
/// does not take an object's tree down while it has one.
pub fn reference(collection: &str, namespace: &str, name: &str) -> String {
    let readable = format!("{collection}.{namespace}.{name}");
    if readable.len() <= MAX_NAME {
        return format!("{REFERENCE_PREFIX}{readable}");
    }
    let hash = hex::encode(Sha256::digest(readable));
    format!("{REFERENCE_PREFIX}{}", &hash[..32])
}

pub(super) fn references(finalizers: &[String]) -> Vec<&str> {
    finalizers.iter().filter_map(|finalizer| finalizer.strip_prefix(REFERENCE_PREFIX)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_a_finalizer_that_a_server_takes_and_others_are_none() {
        let short = reference("clusters.example.com", "default", "a");
        assert_eq!(short, "reference.provisioner.windlass.dev/clusters.example.com.default.a");
        let long = reference("clusters.example.com", "default", &"a".repeat(100));
        assert_eq!(long.len(), REFERENCE_PREFIX.len() + 32);
        let finalizers = ["foregroundDeletion".to_owned(), "theirs.example.com/x".to_owned(), short];
        assert_eq!(references(&finalizers), ["clusters.example.com.default.a"]);
    }
}
