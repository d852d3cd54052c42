//! What a manifest says.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Deserialize;

use crate::Digest;

/// What requests for manifests accept, in order of preference.
pub(crate) const ACCEPT: &str = "application/vnd.oci.image.manifest.v1+json, \
    application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.v2+json, \
    application/vnd.docker.distribution.manifest.list.v2+json";

/// A manifest whose bytes are what its digest names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Its digest.
    pub digest: Digest,
    /// What it describes.
    pub kind: ManifestKind,
}

/// What a manifest describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManifestKind {
    /// One image or artifact: its layers and annotations.
    Image {
        /// In the manifest's order.
        layers: Vec<Descriptor>,
        /// `org.opencontainers.image.…` and others.
        annotations: BTreeMap<String, String>,
    },
    /// Several, for different platforms.
    Index(Index),
}

/// Several images under one digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// In the manifest's order.
    pub manifests: Vec<Descriptor>,
    /// Of the whole.
    pub annotations: BTreeMap<String, String>,
}

/// Content that a manifest names.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// What it is.
    #[serde(default)]
    pub media_type: String,
    /// Its digest, as the manifest spells it.
    pub digest: String,
    /// Bytes.
    #[serde(default)]
    pub size: u64,
    /// For which platform, in an index.
    #[serde(default)]
    pub platform: Option<Platform>,
}

/// The platform of an image.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Platform {
    /// `linux`.
    #[serde(default)]
    pub os: String,
    /// `amd64`.
    #[serde(default)]
    pub architecture: String,
}

impl Manifest {
    /// The annotations of the whole.
    pub fn annotations(&self) -> &BTreeMap<String, String> {
        match &self.kind {
            ManifestKind::Image { annotations, .. } | ManifestKind::Index(Index { annotations, .. }) => {
                annotations
            }
        }
    }

    /// Reads a manifest whose digest was verified.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn read(digest: Digest, content: &Bytes) -> Result<Self, String> {
        let wire: Wire = serde_json::from_slice(content).map_err(|error| error.to_string())?;
        let annotations = wire.annotations.unwrap_or_default();
        let kind = match (wire.layers, wire.manifests) {
            (Some(_), Some(_)) => return Err("it has both layers and manifests".into()),
            (Some(layers), None) => ManifestKind::Image { layers, annotations },
            (None, Some(manifests)) => ManifestKind::Index(Index { manifests, annotations }),
            (None, None) if wire.schema_version == Some(1) => {
                return Err("it is of schema version 1, which nothing writes any more".into());
            }
            (None, None) => return Err("it has neither layers nor manifests".into()),
        };
        Ok(Self { digest, kind })
    }
}

impl Index {
    /// The image that is chosen when nobody says for which platform: linux/amd64, as Flux's source-controller does;
    /// the only one there is, where it names no platform.
    pub fn default_image(&self) -> Option<&Descriptor> {
        let is_default = |platform: &Platform| platform.os == "linux" && platform.architecture == "amd64";
        let images = || self.manifests.iter().filter(|image| !is_index(&image.media_type));
        images().find(|image| image.platform.as_ref().is_some_and(is_default)).or_else(|| {
            let mut nameless = images().filter(|image| image.platform.is_none());
            nameless.next().filter(|_| nameless.next().is_none())
        })
    }
}

fn is_index(media_type: &str) -> bool {
    matches!(
        media_type,
        "application/vnd.oci.image.index.v1+json"
            | "application/vnd.docker.distribution.manifest.list.v2+json"
    )
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    #[serde(default)]
    schema_version: Option<u64>,
    #[serde(default)]
    layers: Option<Vec<Descriptor>>,
    #[serde(default)]
    manifests: Option<Vec<Descriptor>>,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::{Manifest, ManifestKind};
    use crate::Digest;

    fn read(text: &str) -> Result<Manifest, String> {
        Manifest::read(Digest::of(text.as_bytes()), &Bytes::copy_from_slice(text.as_bytes()))
    }

    #[test]
    fn an_image_has_layers_and_an_index_has_images() {
        let image = read(
            r#"{"schemaVersion":2,"layers":[{"mediaType":"a/b","digest":"sha256:x","size":5,"annotations":{}}],"annotations":{"k":"v"}}"#,
        )
        .unwrap();
        assert_eq!(image.annotations()["k"], "v");
        let ManifestKind::Image { layers, .. } = image.kind else { panic!("{image:?}") };
        assert_eq!((layers[0].media_type.as_str(), layers[0].size), ("a/b", 5));
        for (text, chosen) in [
            (
                r#"{"manifests":[{"digest":"a","platform":{"os":"linux","architecture":"arm64"}},{"digest":"b","platform":{"os":"linux","architecture":"amd64"}}]}"#,
                Some("b"),
            ),
            (r#"{"manifests":[{"digest":"a"}]}"#, Some("a")),
            (r#"{"manifests":[{"digest":"a"},{"digest":"b"}]}"#, None),
            (r#"{"manifests":[{"digest":"a","platform":{"os":"windows","architecture":"amd64"}}]}"#, None),
            (r#"{"manifests":[{"digest":"a","mediaType":"application/vnd.oci.image.index.v1+json"}]}"#, None),
            (r#"{"manifests":[]}"#, None),
        ] {
            let index = read(text).unwrap();
            let ManifestKind::Index(index) = &index.kind else { panic!("{index:?}") };
            assert_eq!(index.default_image().map(|image| image.digest.as_str()), chosen, "{text}");
        }
    }

    #[test]
    fn what_is_no_manifest_is_refused() {
        for text in [
            "",
            "[]",
            "{}",
            r#"{"schemaVersion":1,"fsLayers":[]}"#,
            r#"{"layers":[{}]}"#,
            r#"{"layers":[],"manifests":[]}"#,
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
