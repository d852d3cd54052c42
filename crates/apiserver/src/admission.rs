//! What a program adds to the server's own judgement of objects: defaults and refusals that no schema can state.

use async_trait::async_trait;
use serde_json::{Map, Value};
use windlass_store::{Store, StoreError};

use crate::attributes::Attributes;
use windlass_apimachinery::field_error::FieldError;

/// The rules of kinds that the server does not know. Core kinds are not shown to it.
///
/// It sees what is written and what is stored, and nothing of the request. Raw secret values were taken out before: in
/// their place stands the name [`RAW_VALUE`](crate::RAW_VALUE).
#[async_trait]
pub trait Admission: Send + Sync + 'static {
    /// Fills in what the server decides, before anything is judged; `old` is `None` of a new object. What it returns
    /// refuses the write.
    fn fill_in(
        &self,
        write: &Attributes,
        old: Option<&Map<String, Value>>,
        new: &mut Map<String, Value>,
    ) -> Vec<FieldError> {
        let _ = (write, old, new);
        Vec::new()
    }

    /// What is wrong with an object that its schema and the rules of its definition have let through, by itself and beside
    /// what is stored.
    async fn judge(
        &self,
        write: &Attributes,
        old: Option<&Map<String, Value>>,
        new: &Map<String, Value>,
        store: &dyn Store,
    ) -> Result<Vec<FieldError>, AdmissionError> {
        let _ = (write, old, new, store);
        Ok(Vec::new())
    }

    /// Whether the object is judged beside others of its kind: between judging it and storing it, no other of those is
    /// written.
    fn is_beside_others(&self, write: &Attributes) -> bool {
        let _ = write;
        false
    }
}

/// No rules at all.
#[async_trait]
impl Admission for () {}

/// Why an object could not be judged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdmissionError {
    /// The object is not of the form that its schema promises.
    #[error("{0}")]
    Unreadable(String),
    /// What it is judged beside could not be read from the store.
    #[error("failed to read what the object is judged beside")]
    ReadStore(#[from] StoreError),
    /// What it is judged beside is not of its form.
    #[error("failed to parse what the object is judged beside")]
    Parse(#[source] serde_json::Error),
}
