//! What a write is about and who asks for it, whatever it came in with.

use std::sync::Arc;

use windlass_auth::Caller;

use crate::request::Target;

/// A write: of which object, by whom, and how. Whether it makes an object or changes one is said by what is done with it.
#[derive(Debug, Clone)]
pub struct Attributes {
    pub(crate) caller: Arc<Caller>,
    pub(crate) target: Target,
    pub(crate) dry_run: bool,
    pub(crate) field_manager: String,
}

impl Attributes {
    /// Who asks for it.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The API group of the object.
    pub fn group(&self) -> &str {
        &self.target.served.kind.group
    }

    /// The plural name of the object's kind.
    pub fn resource(&self) -> &str {
        &self.target.served.kind.plural
    }
}
