//! A delivery: whose it is, whether its sender knows the token, and what is looked at because of it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{ConnectInfo, Request, State};
use axum::routing::post;
use http::{HeaderMap, StatusCode};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind, PartialObjectMeta};
use serde_json::{Value, json};
use windlass_api::conditions;
use windlass_api::flux::{REQUESTED_AT, Receiver, ReceiverResource};
use windlass_repository::webhook::BodyError;
use windlass_runtime::{CallError, ObjectKey};
use windlass_telemetry::ErrorChain;

use super::filter::{self, Delivery, Filters};
use super::{Receivers, Shared, oidc, senders, webhook_path};
use crate::calls::CALL;
use crate::failure::types;

/// The kinds that can be named, where they are, and in which version Flux has them.
const KINDS: [(&str, &str, &str, &str); 12] = [
    ("GitRepository", "source.toolkit.fluxcd.io", "v1", "gitrepositories"),
    ("OCIRepository", "source.toolkit.fluxcd.io", "v1", "ocirepositories"),
    ("Bucket", "source.toolkit.fluxcd.io", "v1", "buckets"),
    ("HelmRepository", "source.toolkit.fluxcd.io", "v1", "helmrepositories"),
    ("HelmChart", "source.toolkit.fluxcd.io", "v1", "helmcharts"),
    ("ExternalArtifact", "source.toolkit.fluxcd.io", "v1", "externalartifacts"),
    ("Kustomization", "kustomize.toolkit.fluxcd.io", "v1", "kustomizations"),
    ("HelmRelease", "helm.toolkit.fluxcd.io", "v2", "helmreleases"),
    ("ImageRepository", "image.toolkit.fluxcd.io", "v1", "imagerepositories"),
    ("ImagePolicy", "image.toolkit.fluxcd.io", "v1", "imagepolicies"),
    ("ImageUpdateAutomation", "image.toolkit.fluxcd.io", "v1", "imageupdateautomations"),
    ("ArtifactGenerator", "source.extensions.fluxcd.io", "v1beta1", "artifactgenerators"),
];

pub(super) fn router(receivers: Receivers) -> Router {
    Router::new().route("/hook/{digest}", post(receive)).with_state(receivers)
}

async fn receive(State(receivers): State<Receivers>, request: Request) -> StatusCode {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip());
    let reception = &receivers.reception;
    if !reception.admits(peer) {
        return StatusCode::TOO_MANY_REQUESTS;
    }
    let Some(receiver) = receivers.of_path(request.uri().path()) else {
        reception.blame(peer);
        return StatusCode::NOT_FOUND;
    };
    let key = ObjectKey::of(&*receiver);
    if receiver.spec.suspend || !conditions::is_true(&receiver.status.conditions, types::READY) {
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    let (parts, body) = request.into_parts();
    let (body, _reserved) = match reception.read(body).await {
        Ok(read) => read,
        Err(BodyError::Broken) => return StatusCode::BAD_REQUEST,
        Err(BodyError::TooLarge) => return StatusCode::PAYLOAD_TOO_LARGE,
        Err(BodyError::Busy) => return StatusCode::SERVICE_UNAVAILABLE,
    };
    let shared = match receivers.shared(&receiver).await {
        Ok(shared) => shared,
        Err(why) => {
            tracing::warn!(receiver = %key, why, "a delivery came, and its token cannot be read");
            return StatusCode::SERVICE_UNAVAILABLE;
        }
    };
    // The path of a token that was replaced opens nothing.
    let is_current = parts.uri.path() == webhook_path(&shared.token, &key.name, &key.namespace);
    let judged = if is_current {
        receivers.verify(&receiver, &parts.headers, &body, &shared).await
    } else {
        Err("its path is that of another token".to_owned())
    };
    let judged = match judged {
        Ok(judged) => judged,
        Err(why) => {
            reception.blame(peer);
            tracing::info!(receiver = %key, why, "a delivery is refused");
            return StatusCode::BAD_REQUEST;
        }
    };
    drop(body);
    let judged = Arc::new(judged);
    if !reception.admits_from(&key.namespace, &key.name) {
        return StatusCode::TOO_MANY_REQUESTS;
    }
    let mut answer = StatusCode::OK;
    for (number, resource) in receiver.spec.resources.iter().enumerate() {
        if let Err(why) = receivers.request(&key, resource, number, &judged).await {
            tracing::warn!(receiver = %key, why, "failed to ask for a reconcile");
            answer = StatusCode::INTERNAL_SERVER_ERROR;
        }
    }
    answer
}

impl Receivers {
    /// Whether a delivery's sender is whom the receiver wants; else why not. Answers what it says, and the
    /// filters that see that.
    async fn verify(
        &self,
        receiver: &Receiver,
        headers: &HeaderMap,
        body: &[u8],
        shared: &Shared,
    ) -> Result<(Filters, Delivery), String> {
        let (spec, now) = (&receiver.spec, self.clock.now());
        let claims = match (spec.kind.as_str(), &shared.google) {
            (oidc::TYPE, _) => Some(self.issuers.claims(&spec.oidc_providers, headers, now).await?),
            (senders::GOOGLE, Some(account)) => {
                let claims = self.issuers.claims(&[account.provider()], headers, now).await?;
                account.judge(&claims)?;
                None
            }
            (senders::GOOGLE, None) => return Err("its Secret names no account".to_owned()),
            _ => None,
        };
        let unwrapped = senders::verify(spec, headers, body, &shared.token)?;
        let filters = Filters::compile(spec)?;
        let no_json = "it says that it is JSON, and is no JSON object";
        let body = match unwrapped {
            Some(unwrapped) => unwrapped,
            None if filters.is_any() => filter::body(headers, body).ok_or(no_json)?,
            None => Value::Null,
        };
        Ok((filters, Delivery { body, claims }))
    }

    fn of_path(&self, path: &str) -> Option<std::sync::Arc<Receiver>> {
        self.objects.list().into_iter().find(|it| it.status.webhook_path.as_deref() == Some(path))
    }

    /// Asks for a reconcile of what one of a receiver's resources names, as far as its filters choose that.
    async fn request(
        &self,
        receiver: &ObjectKey,
        resource: &ReceiverResource,
        number: usize,
        judged: &Arc<(Filters, Delivery)>,
    ) -> Result<(), String> {
        let ReceiverResource { api_version, kind, name, namespace, match_labels, filter: _ } = resource;
        let namespace = namespace.as_deref().unwrap_or(&receiver.namespace);
        if self.namespace.as_deref().is_some_and(|own| own != namespace) {
            return Err(format!("the namespace {namespace:?} is not looked after"));
        }
        let known = KINDS.iter().find(|(known, ..)| known == kind);
        let (kind, group, version, plural) = known.ok_or_else(|| format!("{kind:?} is no kind of Flux's"))?;
        let (group, version) = match api_version.as_deref().and_then(|it| it.split_once('/')) {
            Some(given) => given,
            None => (*group, *version),
        };
        let resource =
            ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &resource);
        let params = PatchParams::default();
        let mut names = if name == "*" { Vec::new() } else { vec![name.clone()] };
        if name == "*" || judged.0.is_any_of(number) {
            let found = found(&api, name, match_labels).await?;
            let types = json!({"apiVersion": format!("{group}/{version}"), "kind": kind});
            names = chosen(found, &types, number, judged).await?;
        }
        let at = self.clock.now().to_string();
        let patch = Patch::Merge(json!({"metadata": {"annotations": {REQUESTED_AT: at}}}));
        for name in names {
            let call = || api.patch_metadata(&name, &params, &patch);
            let done = CALL.write(format!("annotate {kind} {namespace}/{name}"), call).await;
            done.map_err(|error| ErrorChain(&error).to_string())?;
            tracing::info!(%receiver, object = format!("{kind}/{namespace}/{name}"), "a reconcile was asked for");
        }
        Ok(())
    }
}

/// The metadata of the object of this name, or of those with these labels.
async fn found(
    api: &Api<DynamicObject>,
    name: &str,
    labels: &BTreeMap<String, String>,
) -> Result<Vec<PartialObjectMeta<DynamicObject>>, String> {
    let failed = |error: CallError| ErrorChain(&error).to_string();
    if name != "*" {
        let object = CALL.read(format!("get {name}"), || api.get_metadata(name)).await;
        return Ok(vec![object.map_err(failed)?]);
    }
    if labels.is_empty() {
        return Err("the name \"*\" needs matchLabels".to_owned());
    }
    let labels: Vec<_> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let params = ListParams::default().labels(&labels.join(","));
    let found = CALL.read("list what the labels select", || api.list_metadata(&params)).await;
    Ok(found.map_err(failed)?.items)
}

/// The names of those that the filters choose.
async fn chosen(
    found: Vec<PartialObjectMeta<DynamicObject>>,
    types: &Value,
    number: usize,
    judged: &Arc<(Filters, Delivery)>,
) -> Result<Vec<String>, String> {
    let names: Vec<String> = found.iter().filter_map(|it| it.metadata.name.clone()).collect();
    if !judged.0.is_any_of(number) {
        return Ok(names);
    }
    let whole = found.into_iter().map(|it| {
        let mut object = types.clone();
        object["metadata"] = json!(it.metadata);
        object
    });
    let (whole, judged) = (whole.collect::<Vec<_>>(), Arc::clone(judged));
    let choose = move || judged.0.choose(number, &whole, &judged.1);
    let chosen = tokio::task::spawn_blocking(choose).await.map_err(|_| "the filters cannot be evaluated")?;
    let chosen = chosen.map_err(|why| format!("a filter has no answer: {why}"))?;
    Ok(names.into_iter().zip(chosen).filter_map(|(name, is_chosen)| is_chosen.then_some(name)).collect())
}
