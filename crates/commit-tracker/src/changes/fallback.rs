//! Asking somebody else where there is no exporter.

use std::sync::Arc;

use async_trait::async_trait;

use super::{Changes, ChangesError, FindChanges, Problem, Question};

/// Asks the first, and the second where the first says that there is no payload of an exporter.
pub struct Fallback {
    first: Arc<dyn FindChanges>,
    second: Arc<dyn FindChanges>,
}

impl Fallback {
    /// Asks `first`, and `second` where there is no exporter.
    pub fn new(first: Arc<dyn FindChanges>, second: Arc<dyn FindChanges>) -> Self {
        Self { first, second }
    }
}

#[async_trait]
impl FindChanges for Fallback {
    async fn find(&self, question: &Question) -> Result<Changes, ChangesError> {
        match self.first.find(question).await {
            Err(error) if error.problem == Problem::PayloadMissing => self.second.find(question).await,
            answered => answered,
        }
    }
}
