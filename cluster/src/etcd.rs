//! What tests do to etcd itself, through its JSON gateway.

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// The key in which kube-apiserver writes down, and watches, what was compacted.
const COMPACTED: &str = "compact_rev_key";

/// Forgets everything but the newest version of each key, as kube-apiserver does every five minutes for versions older
/// than five minutes. Answers the revision.
pub(crate) async fn compact(port: u16) -> Result<u64> {
    let http = reqwest::Client::builder().no_proxy().build()?;
    let call = async |path: &str, body: Value| -> Result<Value> {
        let url = format!("http://127.0.0.1:{port}/v3/{path}");
        let answer = http.post(url).json(&body).send().await?.error_for_status()?;
        anyhow::Ok(answer.json().await?)
    };
    let put = json!({"key": STANDARD.encode(COMPACTED), "value": STANDARD.encode("0")});
    let answer = call("kv/put", put).await.context("failed to write to etcd")?;
    let revision = answer["header"]["revision"].as_str().context("etcd's answer has no revision")?;
    let put = json!({"key": STANDARD.encode(COMPACTED), "value": STANDARD.encode(revision)});
    call("kv/put", put).await.context("failed to write to etcd")?;
    call("kv/compaction", json!({"revision": revision, "physical": true}))
        .await
        .context("failed to compact etcd")?;
    Ok(revision.parse()?)
}
