//! A node that is one Kubernetes object: applied, watched over, awaited, and deleted by its UID.

mod drift;
mod readiness;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::Method;
use kube::core::ApiResource;
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use windlass_runtime::{Accept, CallError, Content, RestRequest};

pub use self::readiness::{Readiness, readiness};
use crate::provisioner::Provisioner;
use crate::scope::{Applied, DeletionPolicy, Scope};
use crate::{Outcome, ProvisionError, Reason, Visited, WakeOn};

/// Under which name fields are applied.
pub const FIELD_MANAGER: &str = "windlass-provisioner";
/// The annotation with the UID of the owner for which an object was made.
pub const OWNER: &str = "provisioner.windlass.dev/owner";
/// The annotation with the hash of what was applied.
pub const HASH: &str = "provisioner.windlass.dev/hash";

/// One Kubernetes object.
///
/// **Up:** it is applied on the server's side with a field manager of our own, again when it drifts, and awaited by the
/// rules of its kind ([`readiness`]). An object that is there already and was not made for this owner is refused
/// (`NotOurs`) unless [`Resource::adopt`] says otherwise. What was ready and has not changed since, as the watch of its
/// kind says, costs no request.
///
/// **Down:** it is deleted under its UID, as the scope's [`DeletionPolicy`] says, and awaited. An object that was not made
/// for this owner is left alone.
#[derive(Clone)]
pub struct Resource {
    name: String,
    object: Value,
    hash: String,
    reference: Arc<WakeOn>,
    adopt: bool,
    deletion: Option<DeletionPolicy>,
    judge: Judge,
}

impl fmt::Debug for Resource {
    /// Which object it is, and nothing of what it holds: it may be a Secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resource")
            .field("name", &self.name)
            .field("reference", &self.reference)
            .finish_non_exhaustive()
    }
}

/// Who says whether the object is ready.
#[derive(Clone, Debug)]
enum Judge {
    Kind,
    Condition(&'static str),
    By(fn(&Value) -> Readiness),
}

impl Resource {
    /// The object that `object` describes, of this kind. Its namespace, if it has one, stands in its metadata.
    pub fn new(name: impl Into<String>, kind: &ApiResource, mut object: Value) -> Self {
        object["apiVersion"] = json!(kind.api_version);
        object["kind"] = json!(kind.kind);
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        let reference = reference_to(kind, text("namespace"), text("name"));
        if let Some(object) = object.as_object_mut() {
            object.remove("status");
        }
        let hash = hash(&object);
        let reference = Arc::new(reference);
        Self { name: name.into(), object, hash, reference, adopt: false, deletion: None, judge: Judge::Kind }
    }

    /// A typed object.
    pub fn of<K>(name: impl Into<String>, object: &K) -> Result<Self, ProvisionError>
    where
        K: kube::Resource<DynamicType = ()> + Serialize,
    {
        let value = serde_json::to_value(object).map_err(|source| {
            ProvisionError::terminal(Reason::InvalidTree, "an object cannot be written as JSON")
                .caused_by(source)
        })?;
        Ok(Self::new(name, &ApiResource::erase::<K>(&()), value))
    }

    /// Takes over an object that is there already, whoever made it.
    #[must_use]
    pub fn adopt(mut self) -> Self {
        self.adopt = true;
        self
    }

    /// With a policy of its own, whatever the scope's is.
    #[must_use]
    pub fn deleted_by(mut self, policy: DeletionPolicy) -> Self {
        self.deletion = Some(policy);
        self
    }

    /// Ready when this condition is there, is true and is about what is asked for now: for kinds whose controller is always
    /// to write it.
    #[must_use]
    pub fn awaiting(mut self, condition: &'static str) -> Self {
        self.judge = Judge::Condition(condition);
        self
    }

    /// Ready when this says so.
    #[must_use]
    pub fn judged_by(mut self, judge: fn(&Value) -> Readiness) -> Self {
        self.judge = Judge::By(judge);
        self
    }

    fn readiness(&self, live: &Value) -> Readiness {
        match self.judge {
            Judge::Kind => readiness(live),
            Judge::Condition(kind) => readiness::condition(live, kind),
            Judge::By(judge) => judge(live),
        }
    }

    /// Whether the next visit costs nothing.
    pub(crate) fn is_settled(&self, scope: &Scope) -> bool {
        scope.memory.is_settled(&self.reference(scope), &self.hash)
    }

    /// The names of other objects of the kind and namespace that have a label.
    pub(crate) async fn others_labelled(
        &self,
        scope: &Scope,
        label: &str,
        value: &str,
    ) -> Result<Vec<String>, ProvisionError> {
        let path = path_of(&self.reference);
        let collection = path.rsplit_once('/').map_or(path.as_str(), |(collection, _)| collection).to_owned();
        let what = format!("list {}", self.reference.plural);
        let list = scope.target.rest().list(what.as_str(), collection);
        let found =
            list.accept(Accept::MetadataList).labels(format!("{label}={value}")).items::<Value>().await;
        let found = found.map_err(|error| scope.target.failed(&what, error))?;
        let names = found.items.iter().filter_map(|item| item["metadata"]["name"].as_str());
        Ok(names.filter(|name| *name != self.reference.name).map(str::to_owned).collect())
    }

    /// Patches the object, if it is there, was made for this owner and is not being deleted.
    pub(crate) async fn prepare_deletion(
        &self,
        scope: &Scope,
        mut patch: Value,
    ) -> Result<(), ProvisionError> {
        let Some(live) = self.get(scope).await? else { return Ok(()) };
        if !is_made_for(scope, &live) || live["metadata"]["deletionTimestamp"].is_string() {
            return Ok(());
        }
        patch["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
        let body = Some((Content::MergePatch, Bytes::from(patch.to_string())));
        self.send(scope, "prepare", Method::PATCH, &path_of(&self.reference), body).await?;
        Ok(())
    }

    fn reference(&self, scope: &Scope) -> Arc<WakeOn> {
        if scope.target.is_local() {
            return Arc::clone(&self.reference);
        }
        Arc::new(WakeOn { cluster: scope.target.id().to_owned(), ..WakeOn::clone(&self.reference) })
    }

    /// `Kind namespace/name`, for people.
    fn shown(&self) -> String {
        shown(&self.reference)
    }

    async fn get(&self, scope: &Scope) -> Result<Option<Value>, ProvisionError> {
        let what = format!("get {}", self.shown());
        match scope.target.rest().get(&what, &path_of(&self.reference), Accept::Whole).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(scope.target.failed(&what, error)),
        }
    }

    /// Applies what is not there. Nothing if it is there after all, and somebody else holds its fields.
    async fn make(&self, scope: &Scope) -> Result<Option<Value>, ProvisionError> {
        match self.apply(scope, false).await {
            Err(error) if is_conflict(&error) => Ok(None),
            made => made.map(Some),
        }
    }

    async fn apply(&self, scope: &Scope, force: bool) -> Result<Value, ProvisionError> {
        let mut object = self.object.clone();
        object["metadata"]["annotations"][OWNER] = json!(scope.owner.uid);
        object["metadata"]["annotations"][HASH] = json!(self.hash);
        // Unless told otherwise, a server parses what is applied twice: the second time for fields that stand twice, which
        // this cannot have.
        let query = format!("fieldManager={FIELD_MANAGER}&fieldValidation=Ignore&force={force}");
        let path = format!("{}?{query}", path_of(&self.reference));
        let body = Some((Content::Apply, Bytes::from(object.to_string())));
        self.send(scope, "apply", Method::PATCH, &path, body).await
    }

    async fn send(
        &self,
        scope: &Scope,
        verb: &str,
        method: Method,
        path: &str,
        body: Option<(Content, Bytes)>,
    ) -> Result<Value, ProvisionError> {
        let what = format!("{verb} {}", self.shown());
        let request = RestRequest { what: &what, method, path, accept: Accept::Whole, body };
        let answer =
            scope.target.rest().send(&request).await.map_err(|error| scope.target.failed(&what, error))?;
        serde_json::from_slice(&answer).map_err(|source| {
            ProvisionError::retry(Reason::Unavailable, format!("the answer to {what} cannot be read"))
                .caused_by(source)
        })
    }

    /// Takes our marks off, and leaves the object where it is.
    async fn release(&self, scope: &Scope, live: &Value) -> Visited {
        let patch = json!({"metadata": {
            "resourceVersion": live["metadata"]["resourceVersion"],
            "annotations": {OWNER: null, HASH: null},
        }});
        let body = Some((Content::MergePatch, Bytes::from(patch.to_string())));
        self.send(scope, "release", Method::PATCH, &path_of(&self.reference), body).await?;
        Ok(Outcome::Ready)
    }

    fn deleting(&self, reference: &WakeOn) -> Outcome {
        Outcome::wait(Reason::Deleting, format!("{} is being deleted", self.shown()))
            .wake_on(reference.clone())
    }
}

#[async_trait]
impl Provisioner<Scope> for Resource {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> &'static str {
        "resource"
    }

    fn identity(&self) -> Option<String> {
        let WakeOn { group, plural, namespace, name, .. } = &*self.reference;
        Some(format!("{plural}.{group}/{namespace}/{name}"))
    }

    async fn provision(&self, scope: &Scope) -> Visited {
        let reference = self.reference(scope);
        // Before anything is read, so that no change after it is missed.
        scope.memory.follow(&scope.target, &reference);
        if scope.memory.is_settled(&reference, &self.hash) {
            return Ok(Outcome::Ready);
        }
        scope.memory.unsettled(&reference);
        scope.memory.set_gone(&reference, false);
        let changes = scope.memory.changes(&reference);
        // Where the watch has seen nothing, nothing is asked; what somebody else made meanwhile is not overwritten.
        let made = if scope.memory.is_absent(&reference) { self.make(scope).await? } else { None };
        let found = match made {
            Some(made) => Some(made),
            None => self.get(scope).await?,
        };
        let live = match found {
            Some(live) if live["metadata"]["deletionTimestamp"].is_string() => {
                return Ok(self.deleting(&reference));
            }
            Some(live) if !is_made_for(scope, &live) && !self.adopt => {
                let message = format!("{} is there already and belongs to somebody else", self.shown());
                return Err(ProvisionError::user_action(Reason::NotOurs, message));
            }
            Some(live)
                if is_made_for(scope, &live)
                    && live["metadata"]["annotations"][HASH] == json!(self.hash)
                    && drift::is_held_by(&self.object, &live) =>
            {
                live
            }
            // Whoever was quicker than we keeps what is said.
            None => self.apply(scope, self.adopt).await?,
            Some(_) => self.apply(scope, true).await?,
        };
        match self.readiness(&live) {
            Readiness::Ready => {
                let version = live["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
                let (hash, at) = (self.hash.clone(), Instant::now());
                scope.memory.settled(reference, Applied { hash, version, changes, at });
                Ok(Outcome::Ready)
            }
            Readiness::Waiting(why) => {
                Ok(Outcome::wait(Reason::NotReady, format!("{}: {why}", self.shown()))
                    .wake_on(WakeOn::clone(&reference)))
            }
            Readiness::Foreign(why) => {
                Ok(Outcome::wait(Reason::ForeignStatus, format!("{}: {why}", self.shown()))
                    .wake_on(WakeOn::clone(&reference)))
            }
            Readiness::Failed(why) => {
                Err(ProvisionError::retry(Reason::Failed, format!("{}: {why}", self.shown())))
            }
        }
    }

    async fn deprovision(&self, scope: &Scope) -> Visited {
        let reference = self.reference(scope);
        scope.memory.follow(&scope.target, &reference);
        scope.memory.unsettled(&reference);
        if scope.memory.is_gone(&reference) {
            return Ok(Outcome::Ready);
        }
        let Some(live) = self.get(scope).await? else {
            scope.memory.set_gone(&reference, true);
            return Ok(Outcome::Ready);
        };
        if !is_made_for(scope, &live) {
            return Ok(Outcome::Ready);
        }
        let policy = self.deletion.unwrap_or(scope.deletion);
        if policy == DeletionPolicy::Orphan {
            return self.release(scope, &live).await;
        }
        if live["metadata"]["deletionTimestamp"].is_string() {
            return Ok(self.deleting(&reference));
        }
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy.propagation(),
            "preconditions": {"uid": live["metadata"]["uid"]},
        });
        let body = Some((Content::Json, Bytes::from(options.to_string())));
        let answer = self.send(scope, "delete", Method::DELETE, &path_of(&self.reference), body).await;
        match answer {
            // A server answers with the object while it is still there, and with a status once it is not.
            Ok(answer) if answer["kind"] == "Status" => Ok(Outcome::Ready),
            Err(error) if error.reason == Reason::DependencyNotFound => Ok(Outcome::Ready),
            Ok(_) => Ok(self.deleting(&reference)),
            Err(error) => Err(error),
        }
    }
}

fn is_conflict(error: &ProvisionError) -> bool {
    let call = error.source.as_deref().and_then(|source| source.downcast_ref::<CallError>());
    call.is_some_and(CallError::is_conflict)
}

fn is_made_for(scope: &Scope, live: &Value) -> bool {
    live["metadata"]["annotations"][OWNER].as_str() == Some(scope.owner.uid.as_str())
}

/// An object of the local cluster.
pub(crate) fn reference_to(kind: &ApiResource, namespace: &str, name: &str) -> WakeOn {
    WakeOn {
        cluster: String::new(),
        group: kind.group.clone(),
        version: kind.version.clone(),
        kind: kind.kind.clone(),
        plural: kind.plural.clone(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

/// `Kind namespace/name`, for people.
pub(crate) fn shown(object: &WakeOn) -> String {
    match object.namespace.as_str() {
        "" => format!("{} {}", object.kind, object.name),
        namespace => format!("{} {namespace}/{}", object.kind, object.name),
    }
}

/// The path of an object.
pub(crate) fn path_of(object: &WakeOn) -> String {
    let WakeOn { group, version, plural, namespace, name, .. } = object;
    let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    match namespace.as_str() {
        "" => format!("{root}/{plural}/{name}"),
        namespace => format!("{root}/namespaces/{namespace}/{plural}/{name}"),
    }
}

/// SHA-256 of a document, hexadecimal. The order of its fields does not count.
pub(crate) fn hash(document: &Value) -> String {
    hex::encode(Sha256::digest(document.to_string()))
}
