//! `kubectl apply -R -f` of as many documents, into the same kind of server.

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, bail};
use serde_json::json;
use windlass_e2e::{Server, kubernetes_dashboard};

use crate::api::{Api, DASHBOARDS};
use crate::samples::Samples;
use crate::scene;
use crate::table::{Row, Table, Target, Unit};

pub(crate) async fn measure(table: &mut Table, large: bool) -> Result<()> {
    let sizes: &[usize] = if large { &[1_000, 10_000] } else { &[1_000] };
    for &count in sizes {
        let folder = tempfile::tempdir()?;
        write(folder.path(), count)?;
        let server = Server::start(&[]).await?;
        let path = folder.path().display().to_string();
        let started = Instant::now();
        server.kubectl(&["apply", "-R", "-f", &path]).await?;
        let took = started.elapsed();
        let found = Api::of(&server).await?.get_json(&format!("{DASHBOARDS}?limit=1")).await?;
        let found = 1 + crate::api::whole(&found["metadata"]["remainingItemCount"], "the count")?;
        if found != count as u64 {
            bail!("{found} dashboards are there, of {count}");
        }
        let figure = format!("beside: kubectl apply -R of {count} documents");
        table.add(Row::new(figure, Target::None, Unit::Millis, Samples::millis([took])));
    }
    Ok(())
}

/// Dashboards in their directories, with a document for each folder.
fn write(root: &Path, count: usize) -> Result<()> {
    for number in 0..100 {
        let directory = scene::directory(number);
        std::fs::create_dir_all(root.join(&directory))?;
        let title = directory.rsplit('/').next().unwrap_or_default();
        let folder = json!({
            "apiVersion": "folder.grafana.app/v1beta1",
            "kind": "Folder",
            "metadata": {"name": directory.replace('/', "-"), "annotations": parent(&directory)},
            "spec": {"title": title},
        });
        std::fs::write(root.join(&directory).join("00-folder.json"), folder.to_string())?;
    }
    for number in 0..count {
        let (name, directory) = (format!("dashboard-{number:05}"), scene::directory(number));
        let mut document: serde_json::Value =
            serde_json::from_str(&kubernetes_dashboard(&name, &format!("Dashboard {number}")))?;
        document["metadata"]["annotations"] = json!({"grafana.app/folder": directory.replace('/', "-")});
        std::fs::write(root.join(directory).join(format!("{name}.json")), document.to_string())?;
    }
    Ok(())
}

fn parent(directory: &str) -> serde_json::Value {
    match directory.rsplit_once('/') {
        Some((parent, _)) => json!({"grafana.app/folder": parent}),
        None => json!({}),
    }
}
