//! A request to Git's programs, over whatever transport.

use bytes::Bytes;
use url::Url;

use crate::service::Service;
use crate::upload::Upload;

/// What a request brings along.
pub(crate) enum Payload {
    /// Nothing: a `GET`.
    Nothing,
    Bytes(Bytes),
    Upload(Upload),
}

/// A request to Git's smart HTTP.
pub(crate) struct Request {
    pub(crate) service: Service,
    pub(crate) url: Url,
    pub(crate) payload: Payload,
    /// Whether to ask for protocol v2.
    pub(crate) v2: bool,
    /// The content type that the answer must have.
    pub(crate) expect: &'static str,
    /// Bytes that the answer may have, and the limit that says so.
    pub(crate) cap: (&'static str, u64),
}

impl Request {
    /// What it is called in figures.
    pub(crate) fn operation(&self) -> &'static str {
        match (self.service, &self.payload) {
            (_, Payload::Nothing) => "discover",
            (Service::ReceivePack, _) => "push",
            (Service::UploadPack, _) if self.cap.0 == "refs_bytes" => "ls-refs",
            (Service::UploadPack, _) => "fetch",
        }
    }
}
