//! The connections to a Kubernetes API server, made anew when the certificate that is shown on them changes.
//!
//! A server judges a client by what it showed when the connection was made, for as long as the connection is used. So
//! nothing is sent any more on connections of an earlier certificate; answers that are under way there, watches among
//! them, come to their end.

use std::{
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::client::legacy::{Error, ResponseFuture};
use kube::client::Body;
use rustls::{ClientConfig, client::Resumption, pki_types::ServerName};
use tower::Service;

use super::{
    identity::{Identity, ReloadedIdentity},
    transport::{HttpClient, http_client_of},
};

/// An HTTP client whose requests go out under the certificate that the files hold at the time.
#[derive(Clone)]
pub(super) struct Connections(Arc<Inner>);

struct Inner {
    identity: Arc<ReloadedIdentity>,
    tls: ClientConfig,
    name: Option<ServerName<'static>>,
    current: Mutex<(Arc<Identity>, HttpClient<Body>)>,
}

impl Connections {
    /// Connections with this configuration, but for the certificate that is shown, to a server whose certificate may have
    /// another name than its address.
    pub(super) fn new(
        identity: Arc<ReloadedIdentity>,
        mut tls: ClientConfig,
        name: Option<ServerName<'static>>,
    ) -> Self {
        tls.client_auth_cert_resolver = Arc::clone(&identity) as _;
        let shown = identity.current();
        let client = connect(&tls, name.clone());
        Self(Arc::new(Inner { identity, tls, name, current: Mutex::new((shown, client)) }))
    }

    fn client(&self) -> HttpClient<Body> {
        let Inner { identity, tls, name, current } = &*self.0;
        let shown = identity.current();
        let mut current = current.lock().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(&current.0, &shown) {
            *current = (shown, connect(tls, name.clone()));
        }
        current.1.clone()
    }
}

impl Service<Request<Body>> for Connections {
    type Response = Response<Incoming>;
    type Error = Error;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> ResponseFuture {
        self.client().request(request)
    }
}

fn connect(tls: &ClientConfig, name: Option<ServerName<'static>>) -> HttpClient<Body> {
    let mut tls = tls.clone();
    // A session that is resumed is that of the certificate it began with.
    tls.resumption = Resumption::default();
    http_client_of(tls, name)
}
