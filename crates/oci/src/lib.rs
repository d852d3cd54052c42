//! Reading from OCI registries: manifests, blobs and annotations, nothing else.
//!
//! The distribution protocol over one HTTP client with rustls, and its token exchange done here rather than by a library,
//! because what is asked of it is just what libraries leave out: every body has a limit and nothing of a larger one is
//! read, every wait has a deadline, `Retry-After` is kept, credentials belong to one registry and one login and go
//! nowhere else, and an error says what kind of failure it was.
//!
//! What it refuses to know: Kubernetes, Flux, what an artifact is for. Start reading at [`Client`].
//!
//! ```no_run
//! # async fn example() -> Result<(), windlass_oci::OciError> {
//! use windlass_oci::{Client, ClientConfig, Login, Reference, Repository};
//!
//! let client = Client::new(ClientConfig::default())?;
//! let repository = Repository::parse("oci://ghcr.io/example/manifests", false)?;
//! let digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855".parse()?;
//! let manifest = client.manifest(&repository, &Login::Chain, &Reference::Digest(digest)).await?;
//! println!("{:?}", manifest.annotations());
//! # Ok(()) }
//! ```
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests"))]

mod address;
mod authorization;
mod challenge;
mod client;
mod digest;
mod docker_chain;
mod docker_config;
mod error;
mod http;
mod manifest;
mod repository;

pub use self::client::{Client, ClientConfig, Limits, Login};
pub use self::digest::Digest;
pub use self::docker_chain::DockerChain;
pub use self::docker_config::{Credentials, DockerConfig};
pub use self::error::OciError;
pub use self::manifest::{Descriptor, Index, Manifest, ManifestKind, Platform};
pub use self::repository::{Reference, Repository};
pub use windlass_http_client::{Deadlines, Retries, Tls};
