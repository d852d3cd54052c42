use std::sync::{Arc, Mutex};

use axum::Router;
use axum::middleware::{Next, from_fn};
use windlass_auth::Caller;

/// A request as the API server saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// The caller's name.
    pub(crate) who: String,
    pub(crate) method: String,
    pub(crate) path: String,
}

impl Request {
    pub(crate) fn is_write(&self) -> bool {
        !matches!(self.method.as_str(), "GET" | "HEAD")
    }
}

/// Every request, in the order of arrival.
#[derive(Clone, Default)]
pub(crate) struct Requests(Arc<Mutex<Vec<Request>>>);

impl Requests {
    pub(crate) fn watching(&self, router: Router) -> Router {
        let all = Arc::clone(&self.0);
        router.layer(from_fn(move |request: axum::extract::Request, next: Next| {
            let who = request.extensions().get::<Caller>().map(|caller| caller.name.clone());
            let seen = Request {
                who: who.unwrap_or_default(),
                method: request.method().to_string(),
                path: request.uri().path().to_owned(),
            };
            all.lock().unwrap().push(seen);
            next.run(request)
        }))
    }

    pub(crate) fn clear(&self) {
        self.0.lock().unwrap().clear();
    }

    /// `METHOD resource/name[/subresource]` of every write.
    pub(crate) fn writes(&self) -> Vec<String> {
        let all = self.0.lock().unwrap();
        all.iter()
            .filter(|request| request.is_write())
            .map(|request| {
                let (_, path) =
                    request.path.rsplit_once("/namespaces/default/").unwrap_or(("", &request.path));
                format!("{} {path}", request.method)
            })
            .collect()
    }

    /// The writes to one resource.
    pub(crate) fn writes_to(&self, resource: &str) -> Vec<String> {
        let mut writes = self.writes();
        writes.retain(|write| {
            let path = write.split(' ').nth(1).unwrap_or_default();
            path.split('/').next() == Some(resource)
        });
        writes
    }

    /// Everything that was asked.
    pub(crate) fn all(&self) -> Vec<Request> {
        self.0.lock().unwrap().clone()
    }
}
