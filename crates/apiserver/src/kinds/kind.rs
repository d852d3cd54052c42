//! What is known of a kind and of each of its versions.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use windlass_apimachinery::field_error::FieldError;
use windlass_apimachinery::fields::{self, Shape};
use windlass_apimachinery::metadata::{Names, Rules};
use windlass_apimachinery::schema::Schema;
use windlass_apimachinery::selector::Selectable;
use windlass_apimachinery::table::Column;

/// One kind of object: what is stored under one (group, plural).
#[derive(Debug)]
#[expect(clippy::struct_field_names, reason = "`kind` is the wire's word")]
pub(crate) struct Kind {
    /// The group under which objects are stored and errors are worded.
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) list_kind: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    /// Which built-in kind this is; `None` for a CRD document.
    pub(crate) builtin: Option<Builtin>,
    /// The first is the preferred one.
    pub(crate) versions: Vec<Served>,
    /// Index of the storage version in `versions`.
    pub(crate) storage: usize,
    /// Whether its definition is being deleted: nothing new is created.
    pub(crate) terminating: bool,
    /// Cancelled when the kind is no longer served, or served in another form: watches end.
    pub(crate) gone: CancellationToken,
}

/// The kinds that are not CRD documents, for their few rules of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Builtin {
    Secret,
    ConfigMap,
    Event,
    Namespace,
    Lease,
    /// Custom resource definitions, which say what else is served.
    Definition,
    /// Questions, which are answered and not stored.
    Review(Review),
    /// What custom objects show of themselves as their scale.
    Scale,
}

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Review {
    /// Who the caller is.
    Subject,
    /// Whether the caller may do something.
    Access,
    /// What the caller may do in a namespace.
    Rules,
}

/// Where objects of a version have what their scale says: the names of fields, one below the other.
#[derive(Debug, Clone)]
pub(crate) struct ScalePaths {
    /// How many there are to be.
    pub(crate) spec: Vec<String>,
    /// How many there are.
    pub(crate) status: Vec<String>,
    /// Which ones they are, as text of a label selector.
    pub(crate) selector: Option<Vec<String>>,
    /// The kind that a scale is written as.
    pub(crate) scale: ServedKind,
}

impl ScalePaths {
    /// What is wrong with the number that a scale would say of this object: how many there are if its status is written,
    /// else how many there are to be.
    pub(crate) fn error_in(&self, object: &Map<String, Value>, is_status: bool) -> Option<FieldError> {
        let path = if is_status { &self.status } else { &self.spec };
        count_error(path, find(object, path)?)
    }
}

/// A scale counts from 0 to 2³¹−1. What is no number is the schema's affair.
pub(crate) fn count_error(path: &[String], count: &Value) -> Option<FieldError> {
    let problem = match count.as_i64()? {
        ..0 => "should be a non-negative integer".to_owned(),
        number if number > i64::from(i32::MAX) => format!("should be less than or equal to {}", i32::MAX),
        _ => return None,
    };
    Some(FieldError::invalid(format!(".{}", path.join(".")), count, &problem))
}

/// What an object has at this place.
pub(crate) fn find<'a>(object: &'a Map<String, Value>, path: &[String]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(object.get(first)?, |value, name| value.get(name))
}

/// A kind in one group and version.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) group: String,
    pub(crate) version: String,
    /// `group/version`, or `v1`.
    pub(crate) api_version: String,
    /// `{"apiVersion":"…","kind":"…","metadata":{`: how every object of this version starts on the wire.
    pub(crate) head: String,
    pub(crate) schema: Schema,
    /// How objects of this version merge.
    pub(crate) shape: Shape,
    /// The schema as an `OpenAPI` v3 document.
    pub(crate) openapi: Value,
    pub(crate) status_subresource: bool,
    pub(crate) scale: Option<ScalePaths>,
    pub(crate) columns: Vec<Column>,
    /// Field paths that field selectors may name, beside metadata.name and metadata.namespace.
    pub(crate) selectable: Vec<String>,
    /// Top-level fields by their stored name and their name in this version.
    pub(crate) renames: &'static [(&'static str, &'static str)],
    /// Whether the schema is not that of the stored version, so that fields may be stored that it does not know.
    pub(crate) prunes: bool,
    /// Top-level fields that this version leaves out when they are empty, though others do not.
    pub(crate) omits: &'static [&'static str],
    /// Objects of earlier revisions were written under another definition: they are read by the present one.
    pub(crate) since: u64,
    /// Whether clients may ask for this version; a storage version may be for storing only.
    pub(crate) offered: bool,
    /// What everybody is told who uses this version, when it is deprecated.
    pub(crate) deprecation: Option<String>,
}

impl Kind {
    /// `jobs.provisioning.grafana.app`; the bare plural in the core group.
    pub(crate) fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// Whether names may hold capitals and underscores: folders and dashboards keep the identifiers that they
    /// were exported with. A real server refuses those; there such files are reported, not created.
    pub(crate) fn free_names(&self) -> bool {
        matches!(self.group.as_str(), windlass_api::FOLDER_GROUP | windlass_api::DASHBOARD_GROUP)
    }

    /// How the metadata of its objects is judged.
    pub(crate) fn metadata(&self) -> Rules<'_> {
        let names = if self.builtin == Some(Builtin::Namespace) {
            Names::Labels
        } else if self.free_names() {
            Names::Free
        } else {
            Names::Subdomains
        };
        Rules {
            kind: &self.kind,
            is_core: self.builtin.is_some(),
            namespaced: self.namespaced,
            names,
            has_generation: self.has_generation(),
        }
    }

    /// Whether a PUT may leave out the resourceVersion. As on a real server: core kinds but Lease.
    pub(crate) fn unconditional_update(&self) -> bool {
        self.builtin.is_some_and(|builtin| !matches!(builtin, Builtin::Lease | Builtin::Definition))
    }

    /// Whether a PUT to an absent name creates the object.
    pub(crate) fn create_on_update(&self) -> bool {
        matches!(self.builtin, Some(Builtin::Event | Builtin::Lease))
    }

    /// Whether changes of the desired state are counted in `metadata.generation`.
    pub(crate) fn has_generation(&self) -> bool {
        self.builtin.is_none_or(|builtin| builtin == Builtin::Definition)
    }

    /// Whether objects of this kind are questions: they are answered and not stored.
    pub(crate) fn is_review(&self) -> bool {
        matches!(self.builtin, Some(Builtin::Review(_)))
    }

    /// Whether values of this kind are sealed at rest.
    pub(crate) fn sealed(&self) -> bool {
        self.builtin == Some(Builtin::Secret)
    }

    /// Whether documents of this kind may hold secrets: errors do not repeat them.
    pub(crate) fn may_hold_secrets(&self) -> bool {
        self.sealed() || (self.builtin.is_none() && self.stored().schema.has_property("secure"))
    }

    pub(crate) fn stored(&self) -> &Served {
        &self.versions[self.storage]
    }

    /// Parts of a core kind that are always there on a real server, as its types have them by value: nobody comes to
    /// own them by setting a field in them.
    fn structs(&self) -> &'static [&'static [&'static str]] {
        match self.builtin {
            Some(Builtin::Namespace) => &[&["spec"], &["status"]],
            Some(Builtin::Lease | Builtin::Review(Review::Access)) => &[&["spec"]],
            Some(Builtin::Event) => &[&["source"]],
            Some(Builtin::Definition) => &[&["spec", "names"], &["status", "acceptedNames"]],
            _ => &[],
        }
    }

    fn version(&self, api_version: &str) -> Option<&Served> {
        self.versions.iter().find(|served| served.api_version == api_version)
    }

    /// The verbs of the main resource, as discovery names them.
    pub(crate) fn verbs(&self) -> &'static [&'static str] {
        if self.is_review() {
            &["create"]
        } else if self.builtin == Some(Builtin::Namespace) {
            // All namespaces at once are not deleted.
            &["create", "delete", "get", "list", "patch", "update", "watch"]
        } else if self.terminating {
            &["delete", "deletecollection", "get", "list", "watch"]
        } else {
            // In the orders of a real server.
            if self.builtin.is_none() {
                &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]
            } else {
                &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
            }
        }
    }
}

impl Served {
    /// A version without columns, selectable fields or renamed fields.
    pub(super) fn new(group: &str, version: &str, kind: &str, schema: Schema, openapi: Value) -> Self {
        let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            head: format!("{{\"apiVersion\":{api_version:?},\"kind\":{kind:?},\"metadata\":{{"),
            api_version,
            schema,
            shape: Shape::root(&openapi),
            openapi,
            status_subresource: false,
            scale: None,
            columns: Vec::new(),
            selectable: Vec::new(),
            renames: &[],
            prunes: false,
            omits: &[],
            since: 0,
            offered: true,
            deprecation: None,
        }
    }

    /// Whether objects of this version look otherwise than they are stored, beside their `apiVersion`.
    pub(crate) fn is_converted(&self) -> bool {
        self.prunes || !self.renames.is_empty()
    }

    /// Whether an object of this revision looks otherwise than it is stored.
    pub(crate) fn converts(&self, revision: u64) -> bool {
        self.is_converted() || (revision != 0 && revision < self.since)
    }

    /// Makes an object of this revision one of this version, but for its `apiVersion`: without what the definition does not
    /// have any more, and with the defaults that it has now.
    pub(crate) fn read(&self, object: &mut Map<String, Value>, revision: u64) {
        self.convert(object);
        if revision != 0 && revision < self.since {
            self.schema.prune(object, &mut Vec::new());
            self.schema.drop_nulls(object);
            // Without those that would make it too large.
            let _ = self.schema.apply_defaults(object);
        }
    }

    /// Makes a stored object one of this version, but for its `apiVersion`.
    pub(crate) fn convert(&self, object: &mut Map<String, Value>) {
        if self.prunes {
            self.schema.prune(object, &mut Vec::new());
        }
        for (stored, served) in self.renames {
            if let Some(value) = object.remove(*stored) {
                object.insert((*served).to_owned(), value);
            }
        }
        object.retain(|name, value| !(self.omits.contains(&name.as_str()) && *value == ""));
    }

    /// Gives fields the names under which they are stored.
    pub(crate) fn rename_back(&self, object: &mut Map<String, Value>) {
        for (stored, served) in self.renames {
            if let Some(value) = object.remove(*served) {
                object.insert((*stored).to_owned(), value);
            }
        }
    }
}

impl fields::Versions for Kind {
    fn shape(&self, api_version: &str) -> Option<&Shape> {
        self.version(api_version).map(|served| &served.shape)
    }

    fn keep_fields(&self, from: &str, to: &str) -> bool {
        from != to && self.builtin.is_none()
    }

    fn to_version<'a>(
        &self,
        object: &'a Map<String, Value>,
        api_version: &str,
    ) -> Cow<'a, Map<String, Value>> {
        let structs = self.structs();
        match self.version(api_version) {
            Some(served) if served.is_converted() || !structs.is_empty() => {
                let mut object = object.clone();
                for path in structs {
                    fill_in(&mut object, path);
                }
                served.convert(&mut object);
                Cow::Owned(object)
            }
            _ => Cow::Borrowed(object),
        }
    }

    fn to_stored(&self, mut object: Map<String, Value>, api_version: &str) -> Map<String, Value> {
        if let Some(served) = self.version(api_version) {
            served.rename_back(&mut object);
        }
        for field in self.structs().iter().filter_map(|path| path.first()) {
            if object.get(*field).and_then(Value::as_object).is_some_and(Map::is_empty) {
                object.remove(*field);
            }
        }
        object.insert("apiVersion".to_owned(), self.stored().api_version.as_str().into());
        object
    }
}

fn fill_in(object: &mut Map<String, Value>, path: &[&str]) {
    let Some((first, rest)) = path.split_first() else { return };
    if let Value::Object(below) = object.entry(*first).or_insert_with(|| Value::Object(Map::new())) {
        fill_in(below, rest);
    }
}

/// A kind as a request addresses it: through one of its versions.
#[derive(Debug, Clone)]
pub(crate) struct ServedKind {
    pub(crate) kind: Arc<Kind>,
    pub(super) version: usize,
}

impl ServedKind {
    pub(crate) fn served(&self) -> &Served {
        &self.kind.versions[self.version]
    }

    /// What lists and watches of this version can select by.
    pub(crate) fn selectable(&self) -> Selectable<'_> {
        Selectable { paths: &self.served().selectable, namespaced: self.kind.namespaced }
    }
}

/// Why a set of CRD documents cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum KindError {
    /// A version of the CRD has no schema, or a schema that cannot be served.
    #[error("failed to serve the custom resource definition {crd}: {problem}")]
    ReadDefinition {
        /// `metadata.name` of the document.
        crd: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Two documents define one resource.
    #[error("failed to serve {resource}: it is defined twice")]
    DefinedTwice {
        /// `plural.group`.
        resource: String,
    },
}
