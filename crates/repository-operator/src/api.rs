//! The sub-resources of repositories beside a Kubernetes API server, which asks that server who calls and what they may.

use std::path::Path;
use std::sync::Arc;

use axum::Router;
use http::StatusCode;
use tokio::net::TcpListener;
use windlass_api::status;
use windlass_auth::{AccessReviews, TokenReviews, plain, tls};
use windlass_launch::{Context, job_rules};
use windlass_repository_api::{RepositoryApi, WebhookMetrics, router};
use windlass_runtime::BoxError;

/// Serves where the settings say; nothing when they say nothing. Every replica does, leader or not.
pub(crate) async fn serve(process: &Context) -> Result<(), BoxError> {
    let settings = process.settings.operator();
    let address = settings.repository_api_address.as_str();
    if address.is_empty() {
        return Ok(());
    }
    let files = match (&settings.repository_api_cert_file, &settings.repository_api_key_file) {
        (Some(certificate), Some(key)) => Some((certificate.as_path(), key.as_path())),
        (None, None) => None,
        _ => {
            return Err("[operator] repository_api_cert_file and repository_api_key_file go together: set both, or none".into());
        }
    };
    let listener = TcpListener::bind(address).await.map_err(|error| {
        format!(
            "failed to listen on {address}: {error}; set [operator] repository_api_address to another address"
        )
    })?;
    let local = listener.local_addr()?;
    if files.is_none() && !local.ip().is_loopback() && !settings.repository_api_plain_http {
        return Err(format!(
            "[operator] repository_api_address {local} is reached from other machines, and callers send their tokens \
             to it: set repository_api_cert_file and repository_api_key_file (or repository_api_plain_http = true \
             behind something that ends TLS)"
        )
        .into());
    }
    let stop = process.supervisor.token().clone();
    let router = routes(process);
    let health = process.health.component("repository API");
    match files {
        None => {
            health.ready();
            process.supervisor.spawn("repository API", async move {
                let _health = health;
                plain::serve(listener, router, stop).await;
            });
        }
        Some((certificate, key)) => {
            let config =
                tls::config_of_files(certificate, key).map_err(|source| named(source, certificate))?;
            health.ready();
            process.supervisor.spawn("repository API", async move {
                let _health = health;
                tls::serve(listener, config, router, stop).await;
            });
        }
    }
    let scheme = if files.is_some() { "https" } else { "http" };
    tracing::info!(address = %local, scheme, "serving the sub-resources of repositories");
    Ok(())
}

fn named(source: tls::ServerTlsError, certificate: &Path) -> BoxError {
    let why = windlass_telemetry::ErrorChain(&source).to_string();
    format!("failed to use [operator] repository_api_cert_file {}: {why}", certificate.display()).into()
}

fn routes(process: &Context) -> Router {
    // Whoever is let in is looked up and acted for by this process's own rights.
    let core = process.clients.core.clone();
    let state = RepositoryApi {
        provisioning: process.clients.provisioning.clone(),
        core: core.clone(),
        resources: process.resources.clone(),
        opener: process.opener.clone(),
        loki: process.loki.clone(),
        repository_rules: process.repository_rules.clone(),
        job_rules: job_rules(&process.settings),
        access: Arc::new(AccessReviews::new(core.clone())),
        accept_sha1: process.settings.operator().webhook_accept_sha1,
        webhook_metrics: Some(WebhookMetrics::new(&process.metrics)),
        spans: process.spans.clone(),
        namespace: process.settings.operator().namespace.clone(),
    };
    let audiences = process.settings.operator().repository_api_audiences.clone();
    let router = router(state).fallback(|uri: http::Uri| async move {
        (StatusCode::NOT_FOUND, axum::Json(status::no_such_path(uri.path())))
    });
    TokenReviews::new(core, audiences).protect(router)
}
