//! What an App, or a token of its installation, may do.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Deserializer};

/// How far a permission goes. Each holds those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// `read`.
    Read,
    /// `write`.
    Write,
    /// `admin`.
    Admin,
}

impl Access {
    fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }
}

/// Permissions by GitHub's names for them: `contents`, `metadata`, `pull_requests`, `repository_hooks`, …
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permissions(BTreeMap<String, Access>);

impl Permissions {
    /// These.
    pub fn new<const N: usize>(list: [(&str, Access); N]) -> Self {
        Self(list.into_iter().map(|(name, access)| (name.to_owned(), access)).collect())
    }

    /// How far the permission `name` goes; nothing if it is not granted.
    pub fn get(&self, name: &str) -> Option<Access> {
        self.0.get(name).copied()
    }

    /// Name and extent of each.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Access)> {
        self.0.iter().map(|(name, access)| (name.as_str(), *access))
    }

    /// Those that `granted` does not hold.
    #[must_use]
    pub fn missing_from(&self, granted: &Self) -> Self {
        let missing = self.iter().filter(|(name, access)| granted.get(name) < Some(*access));
        Self(missing.map(|(name, access)| (name.to_owned(), access)).collect())
    }

    pub(crate) fn to_wire(&self) -> HashMap<String, String> {
        self.iter().map(|(name, access)| (name.to_owned(), access.as_str().to_owned())).collect()
    }
}

impl<'de> Deserialize<'de> for Permissions {
    /// Extents that are not known grant nothing.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = BTreeMap::<String, String>::deserialize(deserializer)?;
        let known = wire.into_iter().filter_map(|(name, extent)| {
            let access = match extent.as_str() {
                "read" => Access::Read,
                "write" => Access::Write,
                "admin" => Access::Admin,
                _ => return None,
            };
            Some((name, access))
        });
        Ok(Self(known.collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_what_is_granted_less_or_not_at_all() {
        let wanted = Permissions::new([
            ("contents", Access::Write),
            ("metadata", Access::Read),
            ("repository_hooks", Access::Write),
        ]);
        let granted = Permissions::new([("contents", Access::Read), ("metadata", Access::Admin)]);
        let missing = wanted.missing_from(&granted);
        assert_eq!(
            missing.iter().collect::<Vec<_>>(),
            [("contents", Access::Write), ("repository_hooks", Access::Write)]
        );
        assert_eq!(wanted.missing_from(&wanted), Permissions::default());
    }
}
