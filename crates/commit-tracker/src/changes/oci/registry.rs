//! Artifacts as a registry has them: their manifests, annotations and payloads.

use std::collections::BTreeMap;
use std::sync::Arc;

use tracing::field;
use windlass_oci::{
    Client, Digest, DockerConfig, Login, Manifest, ManifestKind, OciError, Reference, Repository,
};
use windlass_telemetry::traced;

use super::artifact::Artifact;
use super::{OciChanges, PULL_SECRET};
use crate::changes::{Changes, ChangesError, ChangesQuery, Problem, SecretValues, exporter_info, secrets};

/// A repository, and who asks.
pub(super) struct Place<'a> {
    pub(super) question: &'a ChangesQuery,
    /// With what is trusted and shown there.
    client: Client,
    pub(super) repository: Repository,
    login: Login,
}

impl OciChanges {
    pub(super) async fn place<'a>(&self, question: &'a ChangesQuery) -> Result<Place<'a>, ChangesError> {
        let repository = Repository::parse(&question.url, question.insecure)
            .map_err(|error| explained(question, "find the registry", error))?;
        let client = self.client(question).await?;
        let login = self.login(question).await?;
        Ok(Place { question, client, repository, login })
    }

    /// What a Secret is called, and what it holds, where it is named and there.
    async fn secret(
        &self,
        question: &ChangesQuery,
        name: Option<&str>,
    ) -> Result<Option<(String, SecretValues)>, ChangesError> {
        let Some(name) = name else { return Ok(None) };
        let namespace = &question.source.namespace;
        let values = self.secrets.secret(namespace, name).await?;
        Ok(values.map(|values| (format!("the Secret {namespace}/{name}"), values)))
    }

    /// One that trusts and shows what the Secret in `spec.certSecretRef` holds.
    async fn client(&self, question: &ChangesQuery) -> Result<Client, ChangesError> {
        let Some((name, values)) = self.secret(question, question.cert_secret.as_deref()).await? else {
            return Ok(self.client.clone());
        };
        let refuse = |what: &str| {
            let text = format!("{name} that {} names {what}", question.source);
            ChangesError::new(Problem::Malformed, text)
        };
        let tls = secrets::tls(&values).map_err(|what| refuse(&what))?;
        let client = self.client.with_tls(&tls);
        client.map_err(|error| refuse("has a tls.crt and tls.key that do not belong together").because(error))
    }

    /// That of the Secret in `spec.secretRef`, or Docker's.
    async fn login(&self, question: &ChangesQuery) -> Result<Login, ChangesError> {
        let Some((name, values)) = self.secret(question, question.secret.as_deref()).await? else {
            return Ok(Login::Chain);
        };
        let content = values.get(PULL_SECRET).ok_or_else(|| {
            let text = format!(
                "{name} that {} names has no {PULL_SECRET}: make it with `kubectl create secret \
                 docker-registry`",
                question.source
            );
            ChangesError::new(Problem::Malformed, text)
        })?;
        let config = DockerConfig::parse(content, &name);
        let config = config.map_err(|error| {
            let text = format!("failed to use the Secret that {} names", question.source);
            ChangesError::new(Problem::Malformed, text).because(error)
        })?;
        Ok(Login::Secret(Arc::new(config)))
    }

    /// The manifest of this digest.
    pub(super) async fn manifest(
        &self,
        place: &Place<'_>,
        digest: &Digest,
    ) -> Result<Manifest, ChangesError> {
        let reference = Reference::Digest(digest.clone());
        let span = tracing::info_span!(
            "oci.get_manifest",
            otel.kind = "client",
            oci.reference = %reference,
            oci.manifest.bytes = field::Empty,
        );
        let manifest = place.client.manifest(&place.repository, &place.login, &reference);
        traced(span, manifest).await.map_err(|error| explained(place.question, "read the manifest", error))
    }

    /// An artifact, from memory or with its payload from the registry.
    pub(super) async fn artifact(
        &self,
        place: &Place<'_>,
        digest: &Digest,
    ) -> Result<Arc<Artifact>, ChangesError> {
        if let Some(artifact) = self.remembered(place, digest) {
            return Ok(artifact);
        }
        let invalid = |error: OciError| malformed(place, digest, &error.to_string());
        let mut kind = self.manifest(place, digest).await?.kind;
        let mut annotations = BTreeMap::new();
        if let ManifestKind::Index(index) = kind {
            // Flux takes the image for its default platform, and that one's annotations.
            let image = index.default_image();
            let image = image
                .ok_or_else(|| malformed(place, digest, "it is an index without an image for linux/amd64"))?;
            let image = image.digest.parse().map_err(invalid)?;
            annotations.extend(index.annotations);
            kind = self.manifest(place, &image).await?.kind;
        }
        let ManifestKind::Image { layers, annotations: own } = kind else {
            return Err(malformed(place, digest, "it is an index of indexes"));
        };
        annotations.extend(own);
        let layer = layers.iter().find(|layer| layer.media_type == self.config.media_type);
        let info = match layer.filter(|_| self.config.wants_payload()) {
            None => None,
            Some(layer) => {
                let max = self.config.max_payload_bytes;
                if layer.size > max {
                    let text = format!(
                        "the exporter's payload in the artifact {digest} of {} has {} bytes, over {max}",
                        place.question.source, layer.size
                    );
                    return Err(ChangesError::new(Problem::TooLarge, text));
                }
                let blob = layer.digest.parse().map_err(invalid)?;
                Some(self.payload(place, digest, &blob).await?)
            }
        };
        let artifact = Arc::new(Artifact::new(digest.clone(), annotations, info));
        self.artifacts.insert((place.repository.clone(), digest.clone()), Arc::clone(&artifact));
        Ok(artifact)
    }

    /// The payload in this layer of an artifact.
    async fn payload(
        &self,
        place: &Place<'_>,
        digest: &Digest,
        layer: &Digest,
    ) -> Result<Changes, ChangesError> {
        tracing::Span::current().record("oci.exporter_info.layer_digest", layer.to_string());
        let span = tracing::info_span!(
            "oci.get_layer_blob",
            otel.kind = "client",
            oci.layer.reference = %layer,
            oci.layer.bytes = field::Empty,
        );
        let content =
            place.client.blob(&place.repository, &place.login, layer, self.config.max_payload_bytes);
        let content = traced(span.clone(), content)
            .await
            .map_err(|error| explained(place.question, "read the exporter's payload", error))?;
        span.record("oci.layer.bytes", content.len());
        drop(span);
        let span = tracing::info_span!(
            "oci.decode_exporter_info",
            repo.kube_manifests.hash = field::Empty,
            kube_manifests.exporter.info.commits_exported = field::Empty,
        );
        let from = format!("{digest} of {}", place.question.source);
        let decoded = async { exporter_info::parse(&content, &from, self.config.max_commits) };
        let info = traced(span.clone(), decoded).await?;
        span.record("repo.kube_manifests.hash", info.exported_as.as_deref());
        span.record("kube_manifests.exporter.info.commits_exported", info.commits.len());
        Ok(info)
    }
}

fn malformed(place: &Place<'_>, digest: &Digest, detail: &str) -> ChangesError {
    let source = &place.question.source;
    ChangesError::new(
        Problem::Malformed,
        format!("failed to read the artifact {digest} of {source}: {detail}"),
    )
}

fn explained(question: &ChangesQuery, action: &str, error: OciError) -> ChangesError {
    let problem = match &error {
        OciError::RateLimited { .. } => Problem::RateLimited,
        OciError::Unauthorized { .. } => Problem::Unauthorized,
        OciError::Forbidden { .. } => Problem::Forbidden,
        OciError::NotFound { .. } => Problem::NotFound,
        OciError::TooLarge { .. } => Problem::TooLarge,
        OciError::Refused { .. } | OciError::Invalid { .. } => Problem::Unsupported,
        OciError::WrongDigest { .. } | OciError::Malformed { .. } => Problem::Malformed,
        // Docker's file and helpers are mended without an object that changes.
        _ => Problem::Unavailable,
    };
    let advice = match (&error, &question.secret) {
        (OciError::Unauthorized { sent: false, .. }, Some(secret)) => {
            format!(
                "; the Secret {secret} that it names gave no credentials: see [commit_tracker] source_secrets"
            )
        }
        (OciError::Unreachable { .. }, _) if question.cert_secret.is_some() => {
            "; are the certificates read that it names in spec.certSecretRef? See [commit_tracker] source_secrets".to_owned()
        }
        (OciError::Refused { .. }, _) if question.insecure => {
            "; see [commit_tracker] allowed_registries".to_owned()
        }
        _ => String::new(),
    };
    let retry_after = error.retry_after();
    let text = format!("failed to {action} of {} of {}{advice}", question.to, question.source);
    ChangesError { retry_after, ..ChangesError::new(problem, text).because(error) }
}
