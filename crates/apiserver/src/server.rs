//! The server: what it is built from, its router and its in-process client.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use http::Request;
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use secrecy::{ExposeSecret, SecretBox};
use tokio_util::sync::CancellationToken;
use windlass_auth::Caller;

use crate::admission::Admission;
use crate::catalog::Catalog;
use crate::kinds::KindError;
use crate::label_indexes::LabelIndexes;
use crate::namespaces::Namespaces;
use crate::seal::{SealError, Sealer};
use crate::state::Inner;
use crate::turns::Turns;
use crate::verbs;
use windlass_store::Store;

/// How many objects are held against the rules of their definitions at a time.
const EVALUATED_AT_ONCE: usize = 4;

/// An embedded Kubernetes-style API server over a [`Store`]. Clones share everything.
#[derive(Clone)]
pub struct ApiServer {
    pub(crate) inner: Arc<Inner>,
}

impl std::fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiServer").finish_non_exhaustive()
    }
}

/// Why a server could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A custom resource definition cannot be served.
    #[error("failed to read the served kinds")]
    ReadKinds {
        /// Which, and why.
        #[source]
        source: KindError,
    },
    /// The sealing key cannot be used.
    #[error("failed to prepare sealing of Secrets")]
    PrepareSealing {
        /// What the cipher said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Why a server could not be started: the stored definitions could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("failed to read the stored definitions: {reason}")]
pub struct StartError {
    reason: String,
}

/// Collects what an [`ApiServer`] is made of.
pub struct Builder {
    store: Arc<dyn Store>,
    crds: Vec<CustomResourceDefinition>,
    sealer: Option<Result<Sealer, SealError>>,
    admission: Arc<dyn Admission>,
    now: Box<dyn Fn() -> Timestamp + Send + Sync>,
    shutdown: CancellationToken,
    namespaces_must_exist: bool,
}

impl Builder {
    /// Serves these kinds beside the core ones.
    #[must_use]
    pub fn crds(mut self, crds: Vec<CustomResourceDefinition>) -> Self {
        self.crds = crds;
        self
    }

    /// Seals Secrets with this key. Without one, a key is made that dies with the process.
    #[must_use]
    pub fn sealing_key(mut self, key: &SecretBox<[u8; 32]>) -> Self {
        self.sealer = Some(Sealer::new(key.expose_secret()));
        self
    }

    /// What fills in and refuses objects of custom kinds beside their definitions. Without it, those alone decide.
    #[must_use]
    pub fn admission(mut self, admission: impl Admission) -> Self {
        self.admission = Arc::new(admission);
        self
    }

    /// Whether nothing can be created in a namespace before there is a Namespace of that name, as on a real server.
    /// Otherwise, and by default, a namespace is there as soon as something is in it. `default` and `kube-system` always
    /// are.
    #[must_use]
    pub fn namespaces_must_exist(mut self, must_exist: bool) -> Self {
        self.namespaces_must_exist = must_exist;
        self
    }

    /// Ends open watches when cancelled, so that connections can be closed.
    #[must_use]
    pub fn shutdown(mut self, token: CancellationToken) -> Self {
        self.shutdown = token;
        self
    }

    /// Where creation times and ages come from; the system's clock by default.
    #[must_use]
    pub fn now(mut self, now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        self.now = Box::new(now);
        self
    }

    /// The server, if all of its kinds can be served.
    pub fn build(self) -> Result<ApiServer, BuildError> {
        let catalog = Catalog::new(self.crds).map_err(|source| BuildError::ReadKinds { source })?;
        let sealer = self.sealer.unwrap_or_else(Sealer::random);
        let sealer = sealer.map_err(|source| BuildError::PrepareSealing { source: Box::new(source) })?;
        Ok(ApiServer {
            inner: Arc::new(Inner {
                store: self.store,
                catalog,
                started: tokio::sync::OnceCell::new(),
                cleaning: Mutex::default(),
                sealer,
                admission: self.admission,
                now: self.now,
                stop: self.shutdown.child_token(),
                tasks: Mutex::default(),
                label_indexes: LabelIndexes::default(),
                namespaces: tokio::sync::RwLock::new(Namespaces::new(self.namespaces_must_exist)),
                large: Arc::new(tokio::sync::Semaphore::new(verbs::LARGE_AT_ONCE)),
                evaluating: tokio::sync::Semaphore::new(EVALUATED_AT_ONCE),
                turns: Turns::default(),
                neighbours: Arc::default(),
            }),
        })
    }
}

impl ApiServer {
    /// Starts building a server over this store.
    pub fn builder(store: Arc<dyn Store>) -> Builder {
        Builder {
            store,
            crds: Vec::new(),
            sealer: None,
            admission: Arc::new(()),
            now: Box::new(Timestamp::now),
            shutdown: CancellationToken::new(),
            namespaces_must_exist: false,
        }
    }

    /// The server as a router with a single fallback handler: it can be merged with routers of more specific
    /// paths, which then win.
    ///
    /// Every request must carry a [`Caller`] extension; one without is answered 401.
    pub fn router(&self) -> Router {
        Router::new().fallback(verbs::serve).with_state(self.inner.clone())
    }

    /// A client of this server in this process, without a socket, that calls as `caller`.
    pub fn client(&self, caller: Caller) -> kube::Client {
        client_of(self.router(), caller)
    }

    /// A client that may do everything.
    pub fn client_for_tests(&self) -> kube::Client {
        self.client(Caller::system("tests"))
    }

    /// Reads the stored definitions, and goes on with what was under way when the server was last stopped. The first
    /// request does the same; who calls this sees it fail.
    ///
    /// Needs a tokio runtime.
    pub async fn start(&self) -> Result<(), StartError> {
        self.inner.start().await.map_err(|failure| StartError { reason: failure.message().to_owned() })
    }

    /// Ends what the server does on its own. When this returns, and requests are answered, the store is free: a file
    /// may be opened again.
    pub async fn close(self) {
        self.inner.stop.cancel();
        let mut tasks = std::mem::take(&mut *self.inner.tasks());
        while tasks.join_next().await.is_some() {}
    }

    /// Whether this resource is served in this version now.
    pub(crate) fn serves(&self, group: &str, version: &str, plural: &str) -> bool {
        self.inner.catalog.current().find(group, version, plural).is_some()
    }

    /// The store's latest revision, for whoever measures progress.
    pub fn revision(&self) -> u64 {
        self.inner.store.revision()
    }
}

/// A client of `router` in this process, without a socket, that calls as `caller`. For a router into which an
/// [`ApiServer::router`] was merged.
pub fn client_of(router: Router, caller: Caller) -> kube::Client {
    let service = tower::ServiceBuilder::new()
        .map_request(move |request: Request<kube::client::Body>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(caller.clone());
            request
        })
        .service(router);
    kube::Client::new(service, "default")
}
