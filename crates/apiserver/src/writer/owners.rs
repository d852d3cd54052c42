//! Who owns the fields of an object after a write.

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::Writer;
use crate::attributes::Attributes;
use crate::kinds::Builtin;
use windlass_apimachinery::document;
use windlass_apimachinery::fields::{
    self, Ignored, Managers, Operation, Update, Versions as _, fits, is_reset,
};

/// Where the managers of an object come from.
pub(crate) enum Owners {
    /// From the ones that it has, or those that the client sent with it, and what the write changes.
    Sent(Sent),
    /// They are known.
    Known(Managers),
}

/// What a written object says of its managers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sent {
    /// The `managedFields` in it.
    pub(crate) managers: Option<Value>,
    /// All of it, when it has fields that the stored version does not know: they are owned, though not stored. A real
    /// server then cannot say what that means to managers in other versions, and forgets them all.
    pub(crate) whole: Option<Map<String, Value>>,
}

impl Sent {
    /// The object that is written, with what is not stored of it.
    fn with_the_rest<'a>(&self, written: &'a Map<String, Value>) -> Cow<'a, Map<String, Value>> {
        let Some(whole) = &self.whole else { return Cow::Borrowed(written) };
        let mut object = written.clone();
        for (name, value) in whole.iter().filter(|(name, _)| *name != "metadata") {
            if let Some(stored) = object.get_mut(name) {
                stored.clone_from(value);
            }
        }
        Cow::Owned(object)
    }
}

impl Writer {
    /// This write, as it is filed among the managers.
    pub(crate) fn update_of(&self, operation: Operation) -> Update<'_> {
        let Attributes { field_manager, target, .. } = &self.attributes;
        let manager = if field_manager.is_empty() { "unknown" } else { field_manager };
        let writer = fields::Writer {
            manager: manager.to_owned(),
            operation,
            api_version: target.served.served().api_version.clone(),
            subresource: target.part.name().to_owned(),
        };
        Update {
            versions: &**self.kind(),
            writer,
            ignored: self.ignored(),
            now: Timestamp::from_second((self.inner.now)().as_second()).unwrap_or_default(),
        }
    }

    /// The fields that a request to this path cannot change.
    fn ignored(&self) -> Ignored {
        let served = self.attributes.target.served.served();
        let (fields, in_all_versions): (&'static [&'static str], bool) =
            match (self.kind().builtin, self.is_status()) {
                (None, true) => (&["metadata", "spec"], true),
                (None, false) if served.status_subresource => (&["status"], false),
                (Some(Builtin::Namespace), true) => (&["spec"], false),
                (Some(Builtin::Definition), true) => (&["metadata", "spec"], false),
                (Some(Builtin::Namespace | Builtin::Definition), false) => (&["status"], false),
                _ => (&[], false),
            };
        Ignored { fields, in_all_versions }
    }

    /// An object of this kind that holds nothing: what there is before a create.
    pub(crate) fn nothing(&self) -> Map<String, Value> {
        let kind = self.kind();
        Map::from_iter([
            ("apiVersion".to_owned(), json!(kind.stored().api_version)),
            ("kind".to_owned(), json!(kind.kind)),
        ])
    }

    /// The managers of an object after a write: of a changed one, which was `old` and had these, or of a new one.
    pub(crate) fn owners(
        &self,
        old: Option<&Map<String, Value>>,
        new: &Map<String, Value>,
        before: &Managers,
        owners: Owners,
    ) -> Managers {
        let sent = match owners {
            Owners::Known(managers) => return managers,
            // A sub-resource is no place to set the managers.
            Owners::Sent(sent) if self.is_status() => Sent { managers: None, ..sent },
            Owners::Sent(sent) => sent,
        };
        let whole = sent.with_the_rest(new);
        // What a status is sent with is not stored and may be anything, but a real server has to read it.
        if self.is_status() && !self.is_readable(&whole) {
            return Managers::default();
        }
        let base = match sent.managers {
            Some(sent) if is_reset(&sent) => Managers::default(),
            Some(sent) => match Managers::decode(&sent) {
                Some(managers) if !managers.is_empty() => managers,
                _ => before.clone(),
            },
            None => before.clone(),
        };
        // Of an object whose managers were forgotten, none are recorded until it is applied.
        if old.is_some() && base.is_empty() {
            return base;
        }
        let old = old.map_or_else(|| Cow::Owned(self.nothing()), Cow::Borrowed);
        self.update_of(Operation::Update).update(&old, &whole, base).unwrap_or_else(|error| {
            tracing::debug!(%error, "the owners of an object's fields are not known");
            Managers::default()
        })
    }

    /// Whether the values of an object are of the types that its shape in the request's version has.
    fn is_readable(&self, object: &Map<String, Value>) -> bool {
        let version = &self.attributes.target.served.served().api_version;
        let kind = self.kind();
        kind.shape(version).is_some_and(|shape| fits(shape, &kind.to_version(object, version)))
    }
}

/// The managers in the stored bytes of an object.
pub(crate) fn stored_owners(value: &[u8]) -> Managers {
    Managers::read(document::split(value).1)
}
