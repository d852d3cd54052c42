//! The one way to call an API server: what a call may take, how often it is tried, who may write, and what its errors say.
//!
//! - Typed calls go through [`CallOptions::read`] and [`CallOptions::write`] around a method of [`kube::Api`], and
//!   guarded writes through [`merge_patch`] and [`json_patch()`].
//! - Callers that keep little of large objects send bytes through a [`RestClient`], with the same options.
//! - Whole collections are read with a [`ListRequest`], page by page and item by item.
//!
//! ```no_run
//! # use std::time::Duration;
//! # use kube::{Api, Client, api::PostParams};
//! # use k8s_openapi::api::core::v1::ConfigMap;
//! # use tokio_util::sync::CancellationToken;
//! use windlass_runtime::{Accept, CallError, CallOptions, Fence, RestClient, Retry};
//!
//! # async fn example(client: Client, lost: CancellationToken, held: fn() -> bool) -> Result<(), CallError> {
//! // At most 10 s a try; tried again while the server restarts; no write once the lease is lost.
//! let options = CallOptions::new(Duration::from_secs(10))
//!     .retried(Retry::RESTART)
//!     .fenced(Fence::new("the lease was lost", lost, held));
//!
//! let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
//! let found = options.read("get ConfigMap a", || maps.get_opt("a")).await?;
//! let made = options.write("create ConfigMap b", || async {
//!     maps.create(&PostParams::default(), &ConfigMap::default()).await
//! });
//!
//! let rest = RestClient::new(client, options.clone());
//! let names = rest
//!     .list("list folders", "/apis/folder.grafana.app/v1beta1/namespaces/default/folders")
//!     .accept(Accept::MetadataList)
//!     .labels("team=a")
//!     .items::<serde_json::Value>()
//!     .await?;
//! # Ok(()) }
//! ```

mod error;
mod finalizers;
mod items;
mod list;
mod options;
mod patch;
mod rest;
#[cfg(test)]
mod tests;

pub use self::error::{CallError, Disposition, deadline};
pub use self::finalizers::{add_finalizers, remove_finalizer};
pub use self::list::{ListRequest, Listed};
pub(crate) use self::list::{OBJECT_LIMIT, too_long};
pub use self::options::{CallOptions, Fence, Retry};
pub use self::patch::{Part, json_patch, json_patch_tested, merge_patch};
pub use self::rest::{Accept, Content, RestClient, RestRequest};
