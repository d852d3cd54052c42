//! The API as the benchmark calls it: an HTTP client with little of its own, so that the server is what is measured.

use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use windlass_api::audience;
use windlass_cluster::Cluster;
use windlass_e2e::{Server, job};

pub(crate) const JOBS: &str = "/apis/provisioning.grafana.app/v0alpha1/namespaces/default/jobs";
pub(crate) const HISTORY: &str = "/apis/provisioning.grafana.app/v0alpha1/namespaces/default/historicjobs";
pub(crate) const REPOSITORIES: &str =
    "/apis/provisioning.grafana.app/v0alpha1/namespaces/default/repositories";
pub(crate) const DASHBOARDS: &str = "/apis/dashboard.grafana.app/v1beta1/namespaces/default/dashboards";
pub(crate) const FOLDERS: &str = "/apis/folder.grafana.app/v1beta1/namespaces/default/folders";

/// How long anything may take.
const DEADLINE: Duration = Duration::from_mins(10);

/// A connection with a token. Paths name the namespace `default`; the connection's own takes its place.
#[derive(Clone)]
pub(crate) struct Api {
    http: reqwest::Client,
    base: String,
    header: &'static str,
    token: String,
    namespace: String,
    /// There is no `repositories/{name}/jobs`: jobs are created as objects.
    plain_jobs: bool,
}

impl Api {
    /// Exchanges the well-known token and connects, with certificates verified.
    pub(crate) async fn connect(base: &str, exchange: &str, ca_file: &Path) -> Result<Self> {
        Self::connect_with(client(ca_file)?, base, exchange).await
    }

    async fn connect_with(http: reqwest::Client, base: &str, exchange: &str) -> Result<Self> {
        let groups =
            ["provisioning.grafana.app", "folder.grafana.app", "dashboard.grafana.app", audience::CORE];
        let answer: Value = http
            .post(exchange)
            .bearer_auth("ProvisioningAdminToken")
            .json(&json!({"namespace": "*", "audiences": groups}))
            .send()
            .await?
            .error_for_status()?
            .json()
            .await?;
        let token = answer["data"]["token"].as_str().context("the exchange gave no token")?;
        Ok(Self {
            http,
            base: base.to_owned(),
            header: "X-Access-Token",
            token: format!("Bearer {token}"),
            namespace: "default".to_owned(),
            plain_jobs: false,
        })
    }

    /// Connects to a namespace of a real API server.
    pub(crate) fn of_cluster(cluster: &Cluster, namespace: &str, token: &str) -> Result<Self> {
        Ok(Self {
            http: client(cluster.ca_file())?,
            base: cluster.url().to_owned(),
            header: "Authorization",
            token: format!("Bearer {token}"),
            namespace: namespace.to_owned(),
            plain_jobs: true,
        })
    }

    pub(crate) async fn of(server: &Server) -> Result<Self> {
        Self::connect(&server.url(), &server.exchange_url(), &server.ca_file()).await
    }

    /// As somebody else: from another address, with connections of its own.
    pub(crate) async fn from(server: &Server, address: IpAddr) -> Result<Self> {
        let http = builder(&server.ca_file())?.local_address(address).build()?;
        Self::connect_with(http, &server.url(), &server.exchange_url()).await
    }

    /// The same in another namespace.
    pub(crate) fn within(&self, namespace: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), ..self.clone() }
    }

    fn request(&self, method: reqwest::Method, path: &str) -> reqwest::RequestBuilder {
        let path = path.replacen("/namespaces/default/", &format!("/namespaces/{}/", self.namespace), 1);
        self.http.request(method, format!("{}{path}", self.base)).header(self.header, &self.token)
    }

    /// GET, as bytes.
    pub(crate) async fn get(&self, path: &str) -> Result<bytes::Bytes> {
        let response = self.request(reqwest::Method::GET, path).send().await?;
        Self::success(path, response).await
    }

    pub(crate) async fn get_json(&self, path: &str) -> Result<Value> {
        Ok(serde_json::from_slice(&self.get(path).await?)?)
    }

    /// GET, of which the body is not read yet.
    pub(crate) async fn open(&self, path: &str) -> Result<reqwest::Response> {
        Ok(self.request(reqwest::Method::GET, path).send().await?.error_for_status()?)
    }

    /// PATCH of this type; the status that answers it.
    pub(crate) async fn patch(&self, path: &str, kind: &str, body: impl Into<reqwest::Body>) -> Result<u16> {
        let request = self.request(reqwest::Method::PATCH, path).header("Content-Type", kind);
        let answer = request.body(body).send().await?;
        let code = answer.status().as_u16();
        answer.bytes().await?;
        Ok(code)
    }

    /// POST of a JSON document.
    pub(crate) async fn post(&self, path: &str, body: impl Into<reqwest::Body>) -> Result<bytes::Bytes> {
        let request = self.request(reqwest::Method::POST, path).header("Content-Type", "application/json");
        Self::success(path, request.body(body).send().await?).await
    }

    /// PATCH with a JSON merge patch.
    pub(crate) async fn merge(&self, path: &str, body: &Value) -> Result<()> {
        let request = self.request(reqwest::Method::PATCH, path);
        let request = request.header("Content-Type", "application/merge-patch+json");
        Self::success(path, request.body(body.to_string()).send().await?).await.map(drop)
    }

    /// POST of a forge's event with its signature and no identity; the status that answers it.
    pub(crate) async fn deliver(&self, path: &str, body: String, signature: &str) -> Result<u16> {
        let request =
            self.http.post(format!("{}{path}", self.base)).header("Content-Type", "application/json");
        let request = request.header("X-Gitea-Event", "push").header("X-Gitea-Signature", signature);
        let answer = request.body(body).send().await?;
        let code = answer.status().as_u16();
        answer.bytes().await?;
        Ok(code)
    }

    async fn success(path: &str, response: reqwest::Response) -> Result<bytes::Bytes> {
        let status = response.status();
        let body = response.bytes().await?;
        if !status.is_success() {
            bail!("{path}: {status}: {}", String::from_utf8_lossy(&body));
        }
        Ok(body)
    }

    /// The revision of the store as a list of this collection says it.
    pub(crate) async fn revision(&self, collection: &str) -> Result<u64> {
        // A selector that nothing has: a page with a limit would keep a snapshot, which a pull then writes against.
        let list = self.get_json(&format!("{collection}?labelSelector=nothing%3Dthis")).await?;
        whole(&list["metadata"]["resourceVersion"], "the list's resourceVersion")
    }

    /// A watch of what happens from now on.
    pub(crate) async fn watch(&self, collection: &str) -> Result<Watch> {
        let revision = self.revision(collection).await?;
        let path = format!("{collection}?watch=1&resourceVersion={revision}");
        let response = self.request(reqwest::Method::GET, &path).send().await?.error_for_status()?;
        Ok(Watch { response, pending: Vec::new() })
    }

    /// Queues a job, through the repository's sub-resource where there is one, and answers its UID.
    pub(crate) async fn post_job(&self, repository: &str, spec: &Value) -> Result<String> {
        let answer = if self.plain_jobs {
            let mut job = job("", repository, spec);
            job["metadata"]["name"] = Value::Null;
            job["metadata"]["generateName"] = format!("{repository}-").into();
            self.post(JOBS, job.to_string()).await?
        } else {
            self.post(&format!("{REPOSITORIES}/{repository}/jobs"), spec.to_string()).await?
        };
        let job: Value = serde_json::from_slice(&answer)?;
        Ok(job["metadata"]["uid"].as_str().context("the job has no UID")?.to_owned())
    }

    /// Pulls; the time is from the request that creates the job to the history's event.
    pub(crate) async fn pull(&self, repository: &str, incremental: bool) -> Result<Duration> {
        self.run(repository, &json!({"action": "pull", "pull": {"incremental": incremental}})).await
    }

    /// Runs a job; the time is as [`pull`](Self::pull)'s.
    pub(crate) async fn run(&self, repository: &str, spec: &Value) -> Result<Duration> {
        let mut history = self.watch(HISTORY).await?;
        let started = Instant::now();
        let uid = self.post_job(repository, spec).await?;
        loop {
            let event = history.next().await?;
            let job = &event["object"];
            if job["metadata"]["labels"]["provisioning.grafana.app/original-uid"] == uid.as_str() {
                let took = started.elapsed();
                if job["status"]["state"] != "success" {
                    bail!("the job did not succeed: {:#}", job["status"]);
                }
                return Ok(took);
            }
        }
    }
}

/// A client with one connection at a time for each request under way, and certificates verified.
pub(crate) fn client(ca_file: &Path) -> Result<reqwest::Client> {
    Ok(builder(ca_file)?.build()?)
}

fn builder(ca_file: &Path) -> Result<reqwest::ClientBuilder> {
    let authority = reqwest::Certificate::from_pem(&std::fs::read(ca_file)?)?;
    let builder = reqwest::Client::builder().tls_certs_only([authority]).no_proxy();
    Ok(builder.http1_only().tcp_nodelay(true))
}

/// Events of a collection.
pub(crate) struct Watch {
    response: reqwest::Response,
    pending: Vec<u8>,
}

impl Watch {
    /// The next event.
    pub(crate) async fn next(&mut self) -> Result<Value> {
        loop {
            if let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.pending.drain(..=end).collect();
                return Ok(serde_json::from_slice(&line)?);
            }
            let chunk =
                tokio::time::timeout(DEADLINE, self.response.chunk()).await.context("no event came")??;
            self.pending.extend_from_slice(&chunk.context("the watch ended")?);
        }
    }
}

/// A whole number from an answer.
pub(crate) fn whole(value: &serde_json::Value, what: &str) -> Result<u64> {
    match value.as_u64().or_else(|| value.as_str().and_then(|text| text.parse().ok())) {
        Some(number) => Ok(number),
        None => bail!("{what} is no number: {value}"),
    }
}
