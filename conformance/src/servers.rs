//! The two servers that are compared.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use reqwest::Method;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use windlass_apiserver::ApiServer;
use windlass_apiserver::store::{self, StoreOptions};
use windlass_auth::Caller;
use windlass_cluster::Cluster;

/// How long a definition may take to be served.
const ESTABLISHED: Duration = Duration::from_mins(3);

/// The definitions of the scripts' own kinds.
const DEFINITIONS: &[&str] = &[include_str!("../crds/widgets.yaml"), include_str!("../crds/gears.yaml")];

/// A server to send requests to.
#[derive(Debug, Clone)]
pub struct Server {
    url: String,
    token: Option<String>,
    http: reqwest::Client,
}

impl Server {
    /// A server at this address; the client knows its certificate.
    pub fn new(url: &str, token: Option<String>, http: reqwest::Client) -> Self {
        Self { url: url.trim_end_matches('/').to_owned(), token, http }
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let builder = self.http.request(method, format!("{}{path}", self.url));
        match &self.token {
            Some(token) => builder.bearer_auth(token),
            None => builder,
        }
    }

    /// Sends JSON and reads JSON; status and body.
    async fn call(&self, method: Method, path: &str, kind: &str, body: &Value) -> Result<(u16, Value)> {
        let response = self
            .request(method, path)
            .header("content-type", kind)
            .body(body.to_string())
            .send()
            .await
            .with_context(|| format!("failed to reach {path}"))?;
        let status = response.status().as_u16();
        Ok((status, response.json().await.unwrap_or_default()))
    }

    async fn create_namespace(&self, name: &str) -> Result<()> {
        let body = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        let (status, answer) =
            self.call(Method::POST, "/api/v1/namespaces", "application/json", &body).await?;
        if status != 201 {
            bail!("namespace {name}: {status} {answer}");
        }
        Ok(())
    }

    /// Creates or replaces a definition and waits until its kinds are served.
    async fn define(&self, definition: &CustomResourceDefinition) -> Result<()> {
        let name = definition.metadata.name.as_deref().unwrap_or_default();
        let mut body = serde_json::to_value(definition)?;
        body["apiVersion"] = json!("apiextensions.k8s.io/v1");
        body["kind"] = json!("CustomResourceDefinition");
        let path = format!(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}?fieldManager=conformance&force=true"
        );
        let (status, answer) = self.call(Method::PATCH, &path, "application/apply-patch+yaml", &body).await?;
        if !matches!(status, 200 | 201) {
            bail!("definition {name}: {status} {answer}");
        }
        let spec = &definition.spec;
        for version in spec.versions.iter().filter(|version| version.served) {
            let path = format!("/apis/{}/{}/{}?limit=1", spec.group, version.name, spec.names.plural);
            let deadline = Instant::now() + ESTABLISHED;
            while self.request(Method::GET, &path).send().await?.status() != 200 {
                if Instant::now() > deadline {
                    bail!("{name} is not served");
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        Ok(())
    }
}

/// An embedded API server over a store in memory, on a socket of its own. Ends when dropped.
#[derive(Debug)]
pub struct Embedded {
    server: Server,
    shutdown: CancellationToken,
}

impl Embedded {
    /// Starts one with these kinds.
    pub async fn start(definitions: Vec<CustomResourceDefinition>) -> Result<Self> {
        let shutdown = CancellationToken::new();
        let api = ApiServer::builder(store::in_memory(&StoreOptions::default())?)
            .crds(definitions)
            .admission(windlass_admission::Provisioning::default())
            .shutdown(shutdown.clone())
            .build()?;
        let caller = Caller::system("admin");
        let router =
            api.router().layer(axum::middleware::map_request(move |mut request: axum::extract::Request| {
                request.extensions_mut().insert(caller.clone());
                std::future::ready(request)
            }));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        tokio::spawn(windlass_auth::plain::serve(listener, router, shutdown.clone()));
        let http = client().build()?;
        Ok(Self { server: Server::new(&url, None, http), shutdown })
    }

    /// Where requests go.
    pub fn server(&self) -> &Server {
        &self.server
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

/// Both servers, with the same kinds.
#[derive(Debug)]
pub struct Pair {
    /// A real kube-apiserver.
    pub real: Server,
    /// The embedded one.
    pub embedded: Embedded,
    prefix: String,
    namespaces: AtomicUsize,
}

impl Pair {
    /// Both servers; `None` when there is no real one to be had.
    pub async fn start() -> Result<Option<Arc<Self>>> {
        let Some(real) = real().await? else { return Ok(None) };
        let definitions = crds()?;
        futures::future::try_join_all(definitions.iter().map(|definition| real.define(definition))).await?;
        let embedded = Embedded::start(definitions).await?;
        let prefix = format!("conf-{:06x}", rand::random_range(0..0x100_0000));
        Ok(Some(Arc::new(Self { real, embedded, prefix, namespaces: AtomicUsize::new(0) })))
    }

    /// A namespace that is new on both servers.
    pub async fn namespace(&self) -> Result<String> {
        let number = self.namespaces.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{number:04}", self.prefix);
        self.real.create_namespace(&name).await?;
        self.embedded.server.create_namespace(&name).await?;
        Ok(name)
    }
}

/// The real server of this test run, as its administrator.
async fn real() -> Result<Option<Server>> {
    let Some(cluster) = Cluster::shared().await? else { return Ok(None) };
    let authority = reqwest::Certificate::from_pem(&std::fs::read(cluster.ca_file())?)?;
    let http = client().tls_certs_only([authority]).build()?;
    Ok(Some(Server::new(cluster.url(), Some(cluster.admin_token().to_owned()), http)))
}

fn client() -> reqwest::ClientBuilder {
    reqwest::Client::builder().user_agent("conformance/1").no_proxy()
}

/// The definitions of our own kinds and of those that only the scripts use.
pub fn crds() -> Result<Vec<CustomResourceDefinition>> {
    let mut all = windlass_api::crds::all();
    for text in DEFINITIONS {
        let value = windlass_api::yaml::parse(text).context("failed to read a definition")?;
        all.push(serde_json::from_value(value).context("failed to read a definition")?);
    }
    Ok(all)
}
