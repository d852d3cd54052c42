//! The checksum of what decides an artifact beside its revision, as the status of Flux's older API had it (0.25 to 0.30).
//! Nothing is decided by it here: what it is made of is compared itself, since it does not tell where one field ends.

use windlass_api::flux::{Artifact, GitRepositorySpec};
use windlass_artifact::{Algorithm, Hasher};

/// Under which name an artifact's metadata has it.
pub(crate) const CONTENT_CONFIG_CHECKSUM: &str = "contentConfigChecksum";

/// Of a specification, and the artifacts that are included.
pub(crate) fn content_config_checksum(spec: &GitRepositorySpec, included: &[Artifact]) -> String {
    let mut hasher = Hasher::new(Algorithm::Sha256);
    hasher.update(spec.ignore.as_deref().unwrap_or_default().as_bytes());
    hasher.update(spec.recurse_submodules.to_string().as_bytes());
    for include in &spec.include {
        hasher.update(include.repository.name.as_bytes());
        hasher.update(include.from_path.as_deref().unwrap_or_default().as_bytes());
        hasher.update(include.to_path.as_deref().unwrap_or_default().as_bytes());
    }
    for artifact in included {
        let checksum = artifact.digest.split_once(':').map_or("", |(_, hex)| hex);
        hasher.update(checksum.as_bytes());
        hasher.update(artifact.revision.as_bytes());
    }
    hasher.finish().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_is_the_one_that_flux_had() {
        let mut spec = GitRepositorySpec::default();
        let nothing = "sha256:fcbcf165908dd18a9e49f7ff27810176db8e9f63b4352213741664245224f8aa";
        assert_eq!(content_config_checksum(&spec, &[]), nothing);
        spec.ignore = Some(String::new());
        assert_eq!(content_config_checksum(&spec, &[]), nothing, "it does not tell empty from absent");
        spec.recurse_submodules = true;
        // sha256 of `true`.
        let changed = "sha256:b5bea41b6c623f7c09f1bf24dcae58ebab3c0cdd90ad966bc43a45b44867e12b";
        assert_eq!(content_config_checksum(&spec, &[]), changed);
    }
}
