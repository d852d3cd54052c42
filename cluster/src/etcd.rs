//! What tests do to etcd itself, through its JSON gateway.

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// The key in which kube-apiserver writes down, and watches, what was compacted.
const COMPACTED: &str = "compact_rev_key";

/// etcd, by its JSON gateway.
#[derive(Clone, Debug)]
pub struct Etcd {
    http: reqwest::Client,
    port: u16,
}

impl Etcd {
    pub(crate) fn new(port: u16) -> Result<Self> {
        Ok(Self { http: reqwest::Client::builder().no_proxy().build()?, port })
    }

    /// The value of a key that is there, such as `/registry/GROUP/PLURAL/NAMESPACE/NAME`.
    pub async fn get(&self, key: &str) -> Result<Vec<u8>> {
        let answer = self.call("kv/range", &json!({"key": STANDARD.encode(key)})).await?;
        let value = answer["kvs"][0]["value"].as_str().with_context(|| format!("etcd has no {key}"))?;
        Ok(STANDARD.decode(value)?)
    }

    /// Writes a value, and answers the revision.
    pub async fn put(&self, key: &str, value: &[u8]) -> Result<String> {
        let put = json!({"key": STANDARD.encode(key), "value": STANDARD.encode(value)});
        let answer = self.call("kv/put", &put).await.context("failed to write to etcd")?;
        let revision = answer["header"]["revision"].as_str().context("etcd's answer has no revision")?;
        Ok(revision.to_owned())
    }

    async fn call(&self, path: &str, body: &Value) -> Result<Value> {
        let url = format!("http://127.0.0.1:{}/v3/{path}", self.port);
        let answer = self.http.post(url).json(body).send().await?.error_for_status()?;
        Ok(answer.json().await?)
    }
}

/// Forgets everything but the newest version of each key, as kube-apiserver does every five minutes for versions older
/// than five minutes. Answers the revision.
pub(crate) async fn compact(port: u16) -> Result<u64> {
    let etcd = Etcd::new(port)?;
    let revision = etcd.put(COMPACTED, b"0").await?;
    etcd.put(COMPACTED, revision.as_bytes()).await?;
    etcd.call("kv/compaction", &json!({"revision": revision, "physical": true}))
        .await
        .context("failed to compact etcd")?;
    Ok(revision.parse()?)
}
