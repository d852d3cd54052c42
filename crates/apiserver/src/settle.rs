//! How what is served follows the stored definitions.
//!
//! It is brought up to date with every commit of a definition, before the answer goes out, so that a kind is served at
//! once; at start, and after a crash between the two, the same is done.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::Deserialize as _;
use serde_json::{Map, Value, json};
use tracing::{error, info, warn};
use uuid::Uuid;

use crate::failure::{Failure, Result};
use crate::kinds::{self, Builtin, Kind, Registry};
use crate::state::Inner;
use windlass_apimachinery::definition::names::{Used, accept};
use windlass_apimachinery::definition::{self, is_true};
use windlass_apimachinery::document;
use windlass_apimachinery::metadata;
use windlass_store::{Key, Object, Page, Range, StoreError, Write};

/// How often names are settled anew when a definition is written beside us.
const TRIES: usize = 20;

type Document = Map<String, Value>;

impl Inner {
    /// Stores the definitions that the server was built with, where they are not stored as they are.
    pub(crate) async fn store_own(&self) -> Result<()> {
        let registry = self.catalog.current();
        let kind = registry.builtin(Builtin::Definition)?;
        let now = self.now_text();
        let mut writes = Vec::new();
        for crd in &self.catalog.own {
            let wanted = definition::own(crd).map_err(Failure::bad_request)?;
            let name = metadata::text(&wanted, "name").to_owned();
            let key = Key::new(&kind.group, &kind.plural, "", &name)?;
            let stored = self.store.get(&key).await?;
            let object = match stored.as_ref().and_then(|stored| parse(stored).ok()) {
                // There is none, or none that can be read.
                None => {
                    let mut object = wanted;
                    let uid = Uuid::new_v4().to_string();
                    metadata::fill_new(&kind.metadata(), None, &now, &uid, &mut object);
                    accept(&mut object, &Used::default(), &now);
                    object
                }
                Some(object)
                    if object.get("spec") == wanted.get("spec") && !metadata::is_deleting(&object) =>
                {
                    continue;
                }
                Some(mut object) => {
                    object.insert("spec".to_owned(), wanted.get("spec").cloned().unwrap_or_default());
                    definition::fill_in(Some(&wanted), &mut object);
                    // It may have been a user's before, who deletes it.
                    let fields = metadata::of(&mut object);
                    fields.remove("deletionTimestamp");
                    fields.remove("finalizers");
                    metadata::bump_generation(&mut object);
                    object
                }
            };
            let value = encode(kind, &object);
            writes.push(match stored {
                None => Write::create(key, value),
                Some(stored) => Write::update(key, stored.revision, value),
            });
        }
        match self.store.commit(writes).await {
            // A full disk is no reason not to start: what was stored before is served.
            Err(StoreError::Commit { source }) => warn!(error = %source, "failed to store our definitions"),
            committed => drop(committed?),
        }
        Ok(())
    }

    /// Settles who has which names, stores that, and serves every definition that is established.
    pub(crate) async fn settle(&self) -> Result<()> {
        let registry = self.catalog.current();
        let kind = registry.builtin(Builtin::Definition)?;
        let mut made = self.catalog.settling.lock().await;
        for _ in 0..TRIES {
            let mut documents = self.definitions(kind).await?;
            match self.accept_names(kind, &mut documents).await {
                Ok(()) => {
                    self.serve(&mut made, &documents);
                    return Ok(());
                }
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Failure::modified(kind, ""))
    }

    /// All stored definitions that can be read, our own first. Of one that cannot, nothing is served.
    async fn definitions(&self, kind: &Kind) -> Result<Vec<(Object, Document)>> {
        let range = Range::new(&kind.group, &kind.plural, None)?;
        let listed = self.store.list(&range, Page::default()).await?.objects;
        let mut documents = Vec::with_capacity(listed.len());
        for object in listed {
            match parse(&object) {
                Ok(document) => documents.push((object, document)),
                Err(problem) => {
                    error!(definition = object.key.name(), %problem, "failed to read a stored definition");
                }
            }
        }
        documents.sort_by_key(|(object, _)| !self.catalog.is_own(object.key.name()));
        Ok(documents)
    }

    /// Gives each definition the names that no other one has.
    async fn accept_names(
        &self,
        kind: &Kind,
        documents: &mut [(Object, Document)],
    ) -> Result<(), StoreError> {
        let now = self.now_text();
        for index in 0..documents.len() {
            let group = group_of(&documents[index].1).to_owned();
            let mut used = Used::default();
            for core in self.catalog.core.iter().filter(|core| core.versions.iter().any(|v| v.group == group))
            {
                used.resources.extend([core.plural.clone(), core.singular.clone()]);
                used.resources.extend(core.short_names.iter().cloned());
                used.kinds.extend([core.kind.clone(), core.list_kind.clone()]);
            }
            for (other, (_, document)) in documents.iter().enumerate() {
                if other != index && group_of(document) == group {
                    used.add(document);
                }
            }
            let (stored, document) = &mut documents[index];
            if accept(document, &used, &now) {
                let write = Write::update(stored.key.clone(), stored.revision, encode(kind, document));
                let committed = self.store.commit(vec![write]).await?;
                stored.revision = committed.revision;
            }
        }
        Ok(())
    }

    /// Swaps in the kinds of the established definitions. Those that did not change stay the same.
    fn serve(&self, made: &mut HashMap<String, (Value, Arc<Kind>)>, documents: &[(Object, Document)]) {
        let mut kinds = self.catalog.core.clone();
        let mut next = HashMap::new();
        for (object, document) in documents.iter().filter(|(_, document)| is_true(document, "Established")) {
            let name = object.key.name();
            let essence = json!([
                metadata::text(document, "uid"),
                document.get("spec"),
                document.get("status").map(|status| &status["acceptedNames"]),
            ]);
            let old = made.remove(name);
            let same = old.as_ref().filter(|(before, _)| *before == essence).map(|(_, kind)| kind.clone());
            let kind = match same {
                Some(kind) if kind.terminating == metadata::is_deleting(document) => kind,
                same => {
                    let compiled = compile(document);
                    // Watches go on when all that has changed is that it is being deleted.
                    let gone = same.filter(|_| compiled.is_ok()).map(|same| same.gone.clone());
                    if gone.is_none() {
                        made.extend(old.map(|old| (name.to_owned(), old)));
                    }
                    match compiled {
                        Ok(mut kind) => {
                            for version in &mut kind.versions {
                                version.since = object.revision;
                            }
                            kind.gone = gone.unwrap_or_default();
                            Arc::new(kind)
                        }
                        Err(problem) => {
                            error!(definition = name, problem, "failed to serve a definition");
                            continue;
                        }
                    }
                }
            };
            kinds.push(kind.clone());
            next.insert(name.to_owned(), (essence, kind));
        }
        match Registry::of(kinds) {
            Ok(registry) => self.catalog.swap(registry),
            Err(problem) => error!(%problem, "failed to serve the definitions"),
        }
        // After the swap: a watch that ends is opened again on what is served now.
        for (name, (_, kind)) in made.drain() {
            info!(definition = name, "a definition is no longer served as it was");
            kind.gone.cancel();
        }
        *made = next;
    }
}

fn group_of(document: &Document) -> &str {
    document.get("spec").and_then(|spec| spec["group"].as_str()).unwrap_or_default()
}

fn parse(object: &Object) -> Result<Document, serde_json::Error> {
    serde_json::from_slice(&object.value)
}

fn encode(kind: &Kind, document: &Document) -> Bytes {
    Bytes::from(document::encode(&kind.stored().head, document, b""))
}

fn compile(document: &Document) -> Result<Kind, String> {
    let document = Value::Object(document.clone());
    let document = CustomResourceDefinition::deserialize(&document).map_err(|error| error.to_string())?;
    kinds::custom_kind(&document).map_err(|error| error.to_string())
}
