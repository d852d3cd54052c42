//! What every pass uses.

use std::sync::Arc;

use kube::{Api, Client};
use tokio_util::sync::CancellationToken;
use windlass_api::flux::GitRepository;
use windlass_runtime::{Clock, KeyedQueue, ObjectKey, Store};
use windlass_settings::SourceSettings;

use crate::app::Apps;
use crate::asked::Asked;
use crate::build::Builder;
use crate::metrics::SourceMetrics;
use crate::notify::Notifier;
use crate::upstream::Upstreams;
use crate::verify::Verifications;

/// The kind as it stands in paths.
pub(crate) const KIND: &str = "gitrepository";

/// The clients, settings and memory of a process's passes over sources.
#[derive(Clone)]
pub(crate) struct Controller {
    /// It writes while this process leads only.
    pub(crate) client: Client,
    pub(crate) settings: Arc<SourceSettings>,
    /// `http://host:port`, which the paths of artifacts are put behind.
    pub(crate) origin: String,
    pub(crate) objects: Store<GitRepository>,
    pub(crate) asked: Arc<Asked>,
    pub(crate) upstreams: Arc<Upstreams>,
    pub(crate) builder: Arc<Builder>,
    pub(crate) apps: Arc<Apps>,
    pub(crate) verifications: Arc<Verifications>,
    pub(crate) notifier: Notifier,
    pub(crate) metrics: SourceMetrics,
    pub(crate) clock: Arc<dyn Clock>,
    /// Who is to be looked at next.
    pub(crate) queue: KeyedQueue<ObjectKey>,
    /// Cancelled when passes shall stop.
    pub(crate) cancel: CancellationToken,
}

impl Controller {
    /// The sources of the namespace that this one is in.
    pub(crate) fn api(&self, object: &GitRepository) -> Api<GitRepository> {
        Api::namespaced(self.client.clone(), object.metadata.namespace.as_deref().unwrap_or_default())
    }

    /// Where consumers fetch what is at this path.
    pub(crate) fn url_of(&self, path: &str) -> String {
        format!("{}/{path}", self.origin)
    }
}

/// The origin that consumers reach the artifacts at: the advertised one, or the address that is listened on, with this
/// machine's name for all addresses.
pub(crate) fn origin(advertised: &str, listening: &str, host: &str) -> String {
    let address = match advertised.trim_end_matches('/') {
        "" => match listening.rsplit_once(':') {
            Some(("0.0.0.0" | "[::]" | "", port)) => format!("{host}:{port}"),
            _ => listening.to_owned(),
        },
        given => given.to_owned(),
    };
    if address.contains("://") { address } else { format!("http://{address}") }
}

#[cfg(test)]
mod tests {
    use super::origin;

    #[test]
    fn artifacts_are_where_they_are_advertised() {
        assert_eq!(origin("", "0.0.0.0:9090", "pod-1"), "http://pod-1:9090");
        assert_eq!(origin("", "127.0.0.1:9090", "pod-1"), "http://127.0.0.1:9090");
        assert_eq!(origin("source.flux.svc.", "x", "y"), "http://source.flux.svc.");
        assert_eq!(origin("https://a/b/", "x", "y"), "https://a/b");
    }
}
