//! What a write is about and who asks for it, whatever it came in with.

use windlass_auth::Caller;

use crate::request::Target;

/// A write: of which object, by whom, and how. Whether it makes an object or changes one is said by what is done with it.
#[derive(Debug, Clone)]
pub struct Attributes {
    pub(crate) caller: Caller,
    pub(crate) target: Target,
    pub(crate) dry_run: bool,
    pub(crate) field_manager: String,
}

impl Attributes {
    /// Of the server's own doing.
    pub(crate) fn internal(target: Target) -> Self {
        let caller = Caller::system("garbage-collector");
        Self { caller, target, dry_run: false, field_manager: String::new() }
    }

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

    /// The namespace; `None` for kinds that have none.
    pub fn namespace(&self) -> Option<&str> {
        self.target.namespace.as_deref()
    }

    /// The name that is addressed; `None` where only the object says it, or where it is to be made.
    pub fn name(&self) -> Option<&str> {
        self.target.name.as_deref()
    }

    /// The part that is written: empty for all of the object, or a sub-resource as `status`.
    pub fn subresource(&self) -> &'static str {
        self.target.part.name()
    }

    /// Whether nothing is to be stored.
    pub fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// Under which name the fields are owned that are written.
    pub fn field_manager(&self) -> &str {
        &self.field_manager
    }
}
