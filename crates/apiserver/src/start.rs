//! What is done before the first request is answered.

use std::sync::Arc;

use serde_json::{Value, json};
use tracing::warn;

use crate::failure::{Failure, Result};
use crate::garbage;
use crate::state::Inner;
use crate::writer::Writer;
use windlass_store::{Key, Page, Range};

/// The namespaces that are there from the first moment.
const FIRST: [&str; 2] = ["default", "kube-system"];

impl Inner {
    /// Stores the definitions that the server was built with, reads those of users, and goes on with what was under way;
    /// once.
    pub(crate) async fn start(self: &Arc<Self>) -> Result<()> {
        self.started
            .get_or_try_init(|| async {
                self.store_own().await?;
                self.settle().await?;
                self.read_namespaces().await?;
                self.make_namespaces().await?;
                garbage::spawn(self);
                Ok(())
            })
            .await
            .copied()
    }

    /// Reads which namespaces there are.
    async fn read_namespaces(&self) -> Result<()> {
        let range = Range::new("", "namespaces", None)?;
        let mut namespaces = self.namespaces.write().await;
        for object in self.store.list(&range, Page::default()).await?.objects {
            namespaces.put(&object);
        }
        Ok(())
    }

    /// Makes the namespaces that are there from the first moment, where they are not.
    async fn make_namespaces(self: &Arc<Self>) -> Result<()> {
        let registry = self.catalog.current();
        let served = registry.stored("", "namespaces").ok_or_else(Failure::unknown_path)?;
        for name in FIRST {
            let key = Key::new("", "namespaces", "", name)?;
            if self.store.get(&key).await?.is_some() {
                continue;
            }
            let Value::Object(object) = json!({ "metadata": { "name": name } }) else { continue };
            match Writer::internal(self, &served, &key).make(object).await {
                // A full disk is no reason not to start.
                Err(failure) if !failure.is_already_exists() => {
                    warn!(namespace = name, ?failure, "failed to make a namespace that is always there");
                }
                _ => {}
            }
        }
        Ok(())
    }
}
