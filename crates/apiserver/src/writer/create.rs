//! New objects.

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{Owners, Sent, Writer, Written};
use crate::failure::{Failure, Result};
use crate::{builtin, secure};
use windlass_apimachinery::fields::Managers;
use windlass_apimachinery::metadata;
use windlass_apimachinery::names;
use windlass_store::{Object, Op, Precondition};

/// How often a generated name is tried.
const NAME_TRIES: usize = 8;

impl Writer {
    /// Stores a new object of the server's own.
    pub(crate) async fn make(&self, mut object: Map<String, Value>) -> Result<()> {
        if let Some(builtin) = self.kind().builtin {
            builtin::default(builtin, &mut object);
        }
        let version = &self.kind().stored().api_version;
        object.insert("apiVersion".to_owned(), json!(version));
        object.insert("kind".to_owned(), json!(self.kind().kind));
        Box::pin(self.create(object, Owners::Sent(Sent::default()))).await.map(drop)
    }

    /// Stores a new object.
    pub(crate) async fn create(&self, mut object: Map<String, Value>, owners: Owners) -> Result<Written> {
        let (kind, target) = (self.kind(), &self.attributes.target);
        if !metadata::text(&object, "resourceVersion").is_empty() {
            // The real server answers 500 here, which would be logged as our own error.
            return Err(Failure::bad_request("resourceVersion should not be set on objects to be created"));
        }
        let namespace = target.namespace.as_deref();
        target.check_namespace(&mut object)?;
        if namespace.is_none() && kind.namespaced {
            return Err(Failure::unknown_path());
        }
        let (now, uid) = (self.inner.now_text(), Uuid::new_v4().to_string());
        metadata::fill_new(&kind.metadata(), namespace, &now, &uid, &mut object);
        if let Some(namespace) = namespace {
            self.inner.namespaces.read().await.check(kind, metadata::text(&object, "name"), namespace)?;
        }
        if kind.terminating {
            let why = "create not allowed while custom resource definition is terminating";
            return Err(Failure::forbidden(kind, metadata::text(&object, "name"), why));
        }
        if target.served.served().status_subresource && kind.builtin.is_none() {
            object.remove("status");
        }
        let base = metadata::text(&object, "generateName").to_owned();
        let generate = metadata::text(&object, "name").is_empty() && !base.is_empty();
        let secrets = secure::take(kind, &mut object, None)?;
        let managed = self.owners(None, &object, &Managers::default(), owners).encode();
        for attempt in 1.. {
            let neighbours = self.neighbours().await;
            let mut object = if generate { object.clone() } else { std::mem::take(&mut object) };
            if generate {
                metadata::of(&mut object).insert("name".to_owned(), json!(names::generate(&base)));
            }
            self.fill_in(None, &mut object)?;
            let name = metadata::text(&object, "name").to_owned();
            let schema = self.schema();
            let mut errors = schema.validate_name(&object);
            errors.extend(metadata::validate(&kind.metadata(), &object));
            errors.extend(schema.validate(&object));
            errors.extend(schema.validate_embedded(&object));
            errors.extend(self.scale_error(&object));
            errors.extend(builtin::validate(kind, &object, None));
            self.check_rules(None, &object, &mut errors).await?;
            self.fail_on(errors, &name)?;
            self.judge(None, &object).await?;
            let extra = self.secret_writes(&secrets, &mut object, None).await?;
            let (plain, stored) = self.encode(object, &managed, Some(0))?;
            let key = target.key(&name)?;
            if self.attributes.dry_run {
                return match self.inner.store.get(&key).await? {
                    Some(present) => Err(self.taken(Some(&present), &name, &base)),
                    None => Ok(Written { plain, revision: 0 }),
                };
            }
            match self.commit(key, Precondition::Absent, Op::Put(stored), extra, neighbours).await? {
                Some(revision) => return Ok(Written { plain, revision }),
                None if !generate || attempt == NAME_TRIES => {
                    let present = self.find(&name).await?;
                    return Err(self.taken(present.as_ref(), &name, &base));
                }
                None => {}
            }
        }
        Err(Failure::unknown_path())
    }

    /// A name that is in use, by an object that may be on its way out.
    fn taken(&self, present: Option<&Object>, name: &str, base: &str) -> Failure {
        let kind = self.kind();
        let failure = if base.is_empty() {
            Failure::already_exists(kind, name)
        } else {
            Failure::name_not_generated(kind, name)
        };
        let deleting = present
            .and_then(|present| self.inner.load_unopened(kind, present).ok())
            .is_some_and(|object| metadata::is_deleting(&object));
        if deleting { failure.being_deleted() } else { failure }
    }
}
