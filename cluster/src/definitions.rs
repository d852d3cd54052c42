//! Definitions (CRDs) on a cluster: ours, and Flux's and Argo CD's from their published modules.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::runtime::wait::{await_condition, conditions::is_crd_established};
use kube::{Client, ResourceExt as _};
use serde_json::Value;

use crate::folders::tools_dir;
use crate::programs::pinned;

/// How long the API server may take to serve a definition.
const PATIENCE: Duration = Duration::from_mins(1);

/// Ours, as the server takes them.
pub(crate) fn ours() -> Result<Vec<Value>> {
    windlass_api::crds::all().iter().map(|definition| Ok(serde_json::to_value(definition)?)).collect()
}

/// Applies definitions and waits until each is served.
pub(crate) async fn establish(client: &Client, definitions: &[Value]) -> Result<()> {
    let resource = ApiResource::erase::<CustomResourceDefinition>(&());
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let params = PatchParams::apply("windlass-cluster").force();
    let mut names = Vec::new();
    for definition in definitions {
        let name = definition["metadata"]["name"].as_str().context("a definition has no name")?;
        api.patch(name, &params, &Patch::Apply(definition))
            .await
            .with_context(|| format!("failed to apply the definition {name}"))?;
        names.push(name);
    }
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for name in names {
        let established = await_condition(api.clone(), name, is_crd_established());
        if let Ok(done) = tokio::time::timeout(PATIENCE, established).await {
            done.with_context(|| format!("failed to watch the definition {name}"))?;
        } else {
            let found = api.get(name).await?;
            bail!("{} is not established after {PATIENCE:?}: {:?}", found.name_any(), found.status);
        }
    }
    Ok(())
}

/// Flux's definitions of sources and kustomizations, of the versions that kustomize-controller is pinned to.
pub(crate) fn flux() -> Result<Vec<Value>> {
    const TOOL: &str = "kustomize-controller";
    let controller = "github.com/fluxcd/kustomize-controller";
    let source = "github.com/fluxcd/source-controller";
    let source_version = pinned(TOOL, &format!("{source}/api"))?;
    let mut definitions = Vec::new();
    for (module, version) in [(controller, pinned(TOOL, controller)?), (source, source_version)] {
        let folder = module_folder(module, &version)?.join("config/crd/bases");
        let mut files = Vec::new();
        for entry in
            std::fs::read_dir(&folder).with_context(|| format!("failed to list {}", folder.display()))?
        {
            files.push(entry?.path());
        }
        files.sort();
        for file in files {
            let text = std::fs::read_to_string(&file)?;
            let parsed = windlass_api::yaml::parse(&text);
            definitions.push(parsed.with_context(|| format!("failed to read {}", file.display()))?);
        }
    }
    Ok(definitions)
}

/// Argo CD's definition of applications. Nothing of it is built or run.
pub(crate) fn argo_cd() -> Result<Vec<Value>> {
    let file = module_folder("github.com/argoproj/argo-cd/v3", "v3.3.0")?
        .join("manifests/crds/application-crd.yaml");
    let text =
        std::fs::read_to_string(&file).with_context(|| format!("failed to read {}", file.display()))?;
    let parsed = windlass_api::yaml::parse(&text);
    Ok(vec![parsed.with_context(|| format!("failed to read {}", file.display()))?])
}

/// The folder of a module of this version in Go's module cache; downloaded when it is not there, and verified by Go.
fn module_folder(module: &str, version: &str) -> Result<PathBuf> {
    let output = Command::new("go")
        .args(["mod", "download", "-json", &format!("{module}@{version}")])
        // Not in the tools module itself: the source controller is no part of its build.
        .current_dir(tools_dir())
        .output()
        .context("failed to start go, with which definitions are found")?;
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    match answer["Dir"].as_str() {
        Some(folder) => Ok(PathBuf::from(folder)),
        None => bail!(
            "failed to download {module} {version}: {}",
            answer["Error"]
                .as_str()
                .map_or_else(|| String::from_utf8_lossy(&output.stderr).into(), str::to_owned)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whose definition of receivers ours is held to, of which version: nothing of it is built or run.
    const NOTIFICATIONS: (&str, &str) = ("github.com/fluxcd/notification-controller", "v1.9.3");

    /// What a definition says to programs.
    fn shape(value: &Value) -> Value {
        match value {
            Value::Object(object) => {
                let kept = object.iter().filter(|(key, value)| *key != "description" || !value.is_string());
                kept.map(|(key, value)| (key.clone(), shape(value))).collect()
            }
            Value::Array(items) if items.iter().all(Value::is_string) => {
                let mut texts: Vec<_> = items.iter().filter_map(Value::as_str).collect();
                texts.sort_unstable();
                texts.into()
            }
            Value::Array(items) => items.iter().map(shape).collect(),
            // Zero is written in two ways.
            Value::Number(number) => number.as_f64().into(),
            other => other.clone(),
        }
    }

    #[test]
    fn our_definitions_of_fluxs_kinds_are_its_own_but_for_the_words() -> Result<()> {
        let (notifications, version) = NOTIFICATIONS;
        let receivers = "config/crd/bases/notification.toolkit.fluxcd.io_receivers.yaml";
        let receivers = std::fs::read_to_string(module_folder(notifications, version)?.join(receivers))?;
        let mut theirs = flux()?;
        theirs.push(windlass_api::yaml::parse(&receivers)?);
        for ours in windlass_api::crds::flux() {
            let ours = serde_json::to_value(ours)?;
            let name = &ours["metadata"]["name"];
            let theirs = theirs.iter().find(|found| found["metadata"]["name"] == *name);
            let theirs = theirs.with_context(|| format!("Flux has no definition {name}"))?;
            let theirs = shape(&theirs["spec"]);
            let ours = shape(&ours["spec"]);
            assert_eq!(ours["versions"][0], theirs["versions"][0], "{name}");
            assert_eq!(ours["names"]["shortNames"], theirs["names"]["shortNames"], "{name}");
        }
        Ok(())
    }
}
