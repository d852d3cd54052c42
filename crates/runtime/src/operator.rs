//! Operators by name.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::BoxError;

/// Something that runs until it is told to stop, over a context that the binary makes once.
#[async_trait]
pub trait Operator<C>: Send
where
    C: Send + Sync + 'static,
{
    /// The name that it is asked for by (`GF_OPERATOR_NAME`).
    fn name(&self) -> &'static str;

    /// Runs until the context says to shut down. Ending before that ends the process.
    async fn run(self: Box<Self>, context: Arc<C>) -> Result<(), BoxError>;
}

type Constructor<C> = Box<dyn Fn() -> Box<dyn Operator<C>> + Send + Sync>;

/// The operators that a binary holds.
pub struct Registry<C> {
    operators: Vec<(&'static str, Constructor<C>)>,
    elsewhere: Vec<&'static str>,
    features: &'static [(&'static str, &'static str)],
}

impl<C> Default for Registry<C> {
    fn default() -> Self {
        Self { operators: Vec::new(), elsewhere: Vec::new(), features: &[] }
    }
}

impl<C: Send + Sync + 'static> Registry<C> {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an operator. A name that is there already is replaced.
    #[must_use]
    pub fn with(
        mut self,
        name: &'static str,
        make: impl Fn() -> Box<dyn Operator<C>> + Send + Sync + 'static,
    ) -> Self {
        self.operators.retain(|(known, _)| *known != name);
        self.operators.push((name, Box::new(make)));
        self
    }

    /// Names operators that other binaries hold, so that asking for one here is told apart from a typing error.
    #[must_use]
    pub fn elsewhere(mut self, names: &[&'static str]) -> Self {
        self.elsewhere.extend_from_slice(names);
        self
    }

    /// Names operators that this binary holds if it is built with a feature, each with the feature.
    #[must_use]
    pub fn features(mut self, features: &'static [(&'static str, &'static str)]) -> Self {
        self.features = features;
        self
    }

    /// The names that this binary holds, in the order they were added.
    pub fn names(&self) -> Vec<&'static str> {
        self.operators.iter().map(|(name, _)| *name).collect()
    }

    /// Makes the operator of that name.
    pub fn make(&self, name: &str) -> Result<Box<dyn Operator<C>>, UnknownOperator> {
        match self.operators.iter().find(|(known, _)| *known == name) {
            Some((_, make)) => Ok(make()),
            None => Err(UnknownOperator {
                name: name.to_owned(),
                elsewhere: self.elsewhere.contains(&name),
                feature: self.features.iter().find(|(known, _)| *known == name).map(|(_, feature)| *feature),
                known: self.names(),
            }),
        }
    }
}

impl<C> fmt::Debug for Registry<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.operators.iter().map(|(name, _)| name)).finish()
    }
}

/// No operator of that name is in this binary.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct UnknownOperator {
    /// What was asked for.
    pub name: String,
    /// Whether another binary holds it.
    pub elsewhere: bool,
    /// The feature that this binary would hold it with.
    pub feature: Option<&'static str>,
    /// What this binary holds.
    pub known: Vec<&'static str>,
}

impl fmt::Display for UnknownOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, elsewhere, feature, known } = self;
        if let Some(feature) = feature {
            write!(
                f,
                "this program was built without operator {name:?}: build it with --features {feature}"
            )?;
            return write!(f, "; it has: {}", known.join(", "));
        }
        match (name.as_str(), elsewhere) {
            ("", _) => write!(f, "no operator was named")?,
            (_, true) => write!(f, "operator {name:?} is not in this binary")?,
            (_, false) => write!(f, "unknown operator {name:?}")?,
        }
        write!(f, ", expected one of: {}", known.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Named(&'static str);

    #[async_trait]
    impl Operator<()> for Named {
        fn name(&self) -> &'static str {
            self.0
        }

        async fn run(self: Box<Self>, _: Arc<()>) -> Result<(), BoxError> {
            Ok(())
        }
    }

    fn registry() -> Registry<()> {
        Registry::new()
            .with("provisioning-jobs", || Box::new(Named("provisioning-jobs")))
            .with("provisioning-repo", || Box::new(Named("provisioning-repo")))
            .elsewhere(&["source"])
            .features(&[("tracker", "track"), ("provisioning-jobs", "jobs")])
    }

    fn check_refused(name: &str, message: &str) {
        let error = registry().make(name).err().expect("an error");
        assert_eq!(error.to_string(), message);
    }

    #[test]
    fn an_operator_is_made_by_its_name() {
        assert_eq!(registry().make("provisioning-repo").unwrap().name(), "provisioning-repo");
    }

    #[test]
    fn another_name_is_refused_with_the_known_ones() {
        let known = "expected one of: provisioning-jobs, provisioning-repo";
        check_refused("provisioning-job", &format!("unknown operator \"provisioning-job\", {known}"));
        check_refused("source", &format!("operator \"source\" is not in this binary, {known}"));
        check_refused(
            "tracker",
            "this program was built without operator \"tracker\": build it with --features track; it has: \
             provisioning-jobs, provisioning-repo",
        );
        check_refused("", &format!("no operator was named, {known}"));
    }
}
