//! Clients of a Kubernetes API server: by kubeconfig, or with a pod's service account.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderValue, Request, header::AUTHORIZATION};
use jiff::Timestamp;
use kube::{
    Client, Config,
    client::{Body, ConfigExt as _},
    config::{AuthInfo, InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject as _};
use secrecy::{ExposeSecret as _, SecretString};
use tower::{BoxError, ServiceBuilder, filter::FilterLayer, util::Either};
use windlass_telemetry::redact_url;

use crate::reloaded::Reloaded;

use super::{
    connections::Connections,
    identity::{ReloadedIdentity, expiry},
    readiness::wait_until_ready,
    roots::ReloadedRoots,
    transport::{Credential, ExplainLayer, Shown, http_client_of},
};

/// Why a Kubernetes API server cannot be reached as it was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// A kubeconfig cannot be read, or holds something else.
    #[error("failed to read the kubeconfig {path}")]
    ReadKubeconfig {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: KubeconfigError,
    },
    /// A kubeconfig says too little to know which server is meant.
    #[error(
        "the kubeconfig {path} names no current-context: run `kubectl config use-context NAME`, or set kubeconfig_context \
         in [operator] section, or --context ({})",
        known(contexts)
    )]
    NoContext {
        /// The file.
        path: String,
        /// The contexts that it has.
        contexts: Vec<String>,
    },
    /// A context was asked for that is not there.
    #[error("the kubeconfig {path} has no context {name:?} ({})", known(contexts))]
    UnknownContext {
        /// The file.
        path: String,
        /// What was asked for.
        name: String,
        /// The contexts that it has.
        contexts: Vec<String>,
    },
    /// A kubeconfig cannot be used.
    #[error("failed to use the kubeconfig {path}")]
    UseKubeconfig {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: BoxError,
    },
    /// The program that a kubeconfig names for getting credentials does not give any.
    #[error("failed to get credentials from {command}, which the kubeconfig {path} names")]
    RunPlugin {
        /// The file.
        path: String,
        /// The program.
        command: String,
        /// Why.
        #[source]
        source: BoxError,
    },
    /// The pod's service account cannot be used.
    #[error(
        "failed to use the service account of this pod; outside of one, set kubeconfig or provisioning_server_url in \
         [operator] section"
    )]
    UseServiceAccount(#[source] BoxError),
    /// What authenticates us has expired, and nothing renews it.
    #[error("{what} expired at {at}: renew it and start again")]
    Expired {
        /// Which certificate or token.
        what: String,
        /// When.
        at: Timestamp,
    },
}

fn known(contexts: &[String]) -> String {
    match contexts {
        [] => "it has none".to_owned(),
        some => format!("it has: {}", some.join(", ")),
    }
}

/// A client of the kubeconfig at `path` (several files, separated by `:`) and its current context, or the one named.
pub(super) async fn by_kubeconfig(path: &Path, context: Option<&str>) -> Result<Client, ClusterError> {
    let shown = path.display().to_string();
    let mut kubeconfig = Kubeconfig::default();
    for path in std::env::split_paths(path) {
        let failed = |source| ClusterError::ReadKubeconfig { path: path.display().to_string(), source };
        kubeconfig = kubeconfig.merge(Kubeconfig::read_from(&path).map_err(failed)?).map_err(failed)?;
    }
    let contexts: Vec<String> = kubeconfig.contexts.iter().map(|context| context.name.clone()).collect();
    let ca_file = ca_file(&kubeconfig, context);
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|error| match error {
        KubeconfigError::CurrentContextNotSet => ClusterError::NoContext { path: shown.clone(), contexts },
        KubeconfigError::LoadContext(name) if name.is_empty() => {
            ClusterError::NoContext { path: shown.clone(), contexts }
        }
        KubeconfigError::LoadContext(name) => {
            ClusterError::UnknownContext { path: shown.clone(), name, contexts }
        }
        other => ClusterError::UseKubeconfig { path: shown.clone(), source: other.into() },
    })?;
    let plugin = config.auth_info.exec.as_ref().and_then(|exec| exec.command.clone());
    let failed = |source| match plugin {
        Some(command) => ClusterError::RunPlugin { path: shown.clone(), command, source },
        None => ClusterError::UseKubeconfig { path: shown.clone(), source },
    };
    let credential = match ReloadedIdentity::of(&config.auth_info) {
        Ok(Some(identity)) => Some(Shown::Reloaded(Arc::new(identity))),
        Ok(None) => credential(&config.auth_info, &shown).map(Shown::Fixed),
        Err(error) => return Err(failed(error.into())),
    };
    if let Some(expired) = credential.as_ref().and_then(Shown::expired) {
        return Err(ClusterError::Expired { what: expired.what, at: expired.expires });
    }
    client(config, ca_file, credential).map_err(failed)
}

/// A client with the service account of the pod that this runs in.
pub(super) fn in_cluster() -> Result<Client, ClusterError> {
    let failed = |error: InClusterError| ClusterError::UseServiceAccount(error.into());
    let config = Config::incluster_env().map_err(failed)?;
    let ca_file = config.root_cert_file.clone();
    client(config, ca_file, None).map_err(ClusterError::UseServiceAccount)
}

/// The file of the authorities of the context's cluster, unless they stand in the kubeconfig itself.
fn ca_file(kubeconfig: &Kubeconfig, context: Option<&str>) -> Option<PathBuf> {
    let name = context.or(kubeconfig.current_context.as_deref())?;
    let context = kubeconfig.contexts.iter().find(|context| context.name == name)?.context.as_ref()?;
    let cluster = kubeconfig.clusters.iter().find(|cluster| cluster.name == context.cluster)?;
    let cluster = cluster.cluster.as_ref()?;
    let inline = cluster.certificate_authority_data.as_ref().is_some_and(|data| !data.is_empty());
    cluster.certificate_authority.as_ref().filter(|path| !inline && !path.is_empty()).map(PathBuf::from)
}

/// What of us expires, and when, if it stands in the kubeconfig itself.
fn credential(auth: &AuthInfo, kubeconfig: &str) -> Option<Credential> {
    let pem = STANDARD.decode(auth.client_certificate_data.as_ref()?.trim()).ok()?;
    let expires = expiry(&CertificateDer::from_pem_slice(&pem).ok()?)?;
    let what = format!("the client certificate of the kubeconfig {kubeconfig}");
    Some(Credential { what, expires, is_reloaded: false })
}

fn client(
    mut config: Config,
    ca_file: Option<PathBuf>,
    credential: Option<Shown>,
) -> Result<Client, BoxError> {
    if let Some(proxy) = &config.proxy_url {
        let proxy = redact_url(&proxy.to_string());
        return Err(format!("the proxy {proxy} (proxy-url, or HTTPS_PROXY) is not supported").into());
    }
    // These are followed by us: kube looks at tokens and authorities once a minute, and at what a kubeconfig names never.
    let token_file = config.auth_info.token_file.take().filter(|path| !path.is_empty());
    config.root_cert_file = None;
    if let Some(Shown::Reloaded(_)) = &credential {
        config.auth_info.client_certificate = None;
        config.auth_info.client_certificate_data = None;
        config.auth_info.client_key = None;
        config.auth_info.client_key_data = None;
    }
    let mut tls = config.rustls_client_config()?;
    if let Some(path) = ca_file.filter(|_| !config.accept_invalid_certs) {
        let roots = ReloadedRoots::new(&path)
            .map_err(|error| format!("failed to use the CA file {}: {error}", path.display()))?;
        tls.dangerous().set_certificate_verifier(Arc::new(roots));
    }
    let token = match token_file {
        Some(path) => {
            let path = PathBuf::from(path);
            let shown = path.display().to_string();
            let token = Reloaded::open(vec![path.clone()], move || bearer(&path))
                .map_err(|error| format!("failed to read the token {shown}: {error}"))?;
            Some(Arc::new(token))
        }
        None => None,
    };
    let sign = move |mut request: Request<Body>| -> Result<Request<Body>, BoxError> {
        if let Some(token) = &token {
            let mut value = HeaderValue::from_str(token.current().expose_secret())?;
            value.set_sensitive(true);
            request.headers_mut().insert(AUTHORIZATION, value);
        }
        Ok(request)
    };
    let name = config.tls_server_name.as_ref().map(|name| ServerName::try_from(name.clone())).transpose()?;
    let connections = match &credential {
        Some(Shown::Reloaded(identity)) => Either::Left(Connections::new(Arc::clone(identity), tls, name)),
        _ => Either::Right(http_client_of(tls, name)),
    };
    let url = redact_url(config.cluster_url.to_string().trim_end_matches('/'));
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(FilterLayer::new(sign))
        .layer(config.extra_headers_layer()?)
        .layer(ExplainLayer { url: url.clone(), credential, kubernetes: true })
        .service(connections);
    Ok(wait_until_ready(Client::new(service, config.default_namespace), &url))
}

/// The header of the token in a file.
fn bearer(path: &Path) -> Result<SecretString, String> {
    let token = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    match token.trim() {
        "" => Err("it is empty".to_owned()),
        token => Ok(format!("Bearer {token}").into()),
    }
}
