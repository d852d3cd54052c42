//! Serde helpers for a wire on which absent, null and zero mean the same.

use serde::{Deserialize, Deserializer};

/// Whether a value is its type's zero, and so left out when it is written.
pub(crate) fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Reads `null` as the type's zero.
pub(crate) fn null_as_zero<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}
