//! Who answers which questions, as the settings say.

use std::sync::Arc;

use async_trait::async_trait;
use windlass_launch::Context;
use windlass_runtime::BoxError;

use crate::changes::{Changes, ChangesError, FindChanges, Finders, Problem, Question};

/// Nobody who could answer is there yet.
struct Nobody;

#[async_trait]
impl FindChanges for Nobody {
    async fn find(&self, question: &Question) -> Result<Changes, ChangesError> {
        let text = format!("{} says nothing that commits could be found with", question.source);
        Err(ChangesError::new(Problem::Unsupported, text))
    }
}

/// Those who answer for this process.
pub(crate) fn finders(_process: &Context) -> Result<Finders, BoxError> {
    let nobody: Arc<dyn FindChanges> = Arc::new(Nobody);
    Ok(Finders { git: nobody.clone(), oci: nobody.clone(), metadata: nobody })
}
