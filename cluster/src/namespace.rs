//! A namespace of one test, with identities that may do what their Roles say and nothing else.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace as NamespaceObject, ServiceAccount};
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use kube::{Client, ResourceExt as _};
use rand::Rng as _;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::identity::{Identity, write_kubeconfig};
use crate::launch::ISSUER;

/// How long a token of an identity is good for: longer than any test.
const LIFETIME: i64 = 12 * 60 * 60;
/// How many seconds after its end the API server still takes a token.
const LEEWAY: i64 = 60;
/// How long the API server may take to see the Roles that were just made.
const PATIENCE: Duration = Duration::from_secs(30);

/// A namespace that nobody else uses.
#[derive(Clone)]
pub struct Namespace {
    cluster: Cluster,
    name: String,
}

impl Cluster {
    /// A fresh namespace, in which our kinds are served.
    pub async fn namespace(&self, prefix: &str) -> Result<Namespace> {
        Namespace::create(self.clone(), prefix).await
    }
}

impl Namespace {
    async fn create(cluster: Cluster, prefix: &str) -> Result<Self> {
        let suffix: String =
            rand::rng().sample_iter(rand::distr::Alphanumeric).take(6).map(char::from).collect();
        let name = format!("{prefix}-{}", suffix.to_lowercase());
        let object: NamespaceObject = serde_json::from_value(json!({"metadata": {"name": name}}))?;
        let api: Api<NamespaceObject> = Api::all(cluster.admin().await?);
        api.create(&PostParams::default(), &object)
            .await
            .with_context(|| format!("failed to create the namespace {name}"))?;
        Ok(Self { cluster, name })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The cluster that it is in.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Applies every document of a file of `deploy/rbac` with its namespace replaced by this one, and answers the
    /// identity of the one `ServiceAccount` among them, once the API server grants it what its Roles say.
    ///
    /// What belongs to no namespace gets this one's name appended to its own, so that tests do not share it.
    pub async fn service_account(&self, rbac_yaml: &Path) -> Result<Identity> {
        let text = std::fs::read_to_string(rbac_yaml)
            .with_context(|| format!("failed to read {}", rbac_yaml.display()))?;
        self.service_account_from(&text).await.with_context(|| format!("in {}", rbac_yaml.display()))
    }

    /// The same for documents that are in no file.
    pub async fn service_account_from(&self, rbac_yaml: &str) -> Result<Identity> {
        let client = self.cluster.admin().await?;
        let mut documents = documents(rbac_yaml)?;
        relocate(&mut documents, &self.name);
        let mut account = None;
        for document in &documents {
            apply(&client, &self.name, document).await?;
            if document["kind"] == "ServiceAccount" {
                let name = document["metadata"]["name"].as_str().context("an account has no name")?;
                if account.replace(name.to_owned()).is_some() {
                    bail!("there is more than one ServiceAccount");
                }
            }
        }
        let name = account.context("there is no ServiceAccount")?;
        for binding in documents.iter().filter(|document| !document["roleRef"].is_null()) {
            self.granted(&client, &name, binding).await?;
        }
        let token = self.request_token(&client, &name).await?;
        let kubeconfig = self.kubeconfig(&name, &token)?;
        Ok(Identity { name, token, kubeconfig })
    }

    /// Writes a kubeconfig that holds this token.
    pub fn kubeconfig(&self, name: &str, token: &str) -> Result<PathBuf> {
        let unique = uuid::Uuid::new_v4().simple();
        let file = self.cluster.folder().join(format!("{}-{name}-{unique}.kubeconfig", self.name));
        write_kubeconfig(&file, self.cluster.url(), self.cluster.ca_file(), token, &self.name)?;
        Ok(file)
    }

    /// A token of an account that the API server takes for `lifetime`, however short: signed with the cluster's own key,
    /// since the server gives none for less than ten minutes. A token that was good is remembered for 10 s more.
    pub async fn token(&self, account: &str, lifetime: Duration) -> Result<String> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.cluster.admin().await?, &self.name);
        let uid = accounts.get(account).await?.uid().context("the account has no UID")?;
        let now = jiff::Timestamp::now().as_second();
        let expires = now + i64::try_from(lifetime.as_secs())? - LEEWAY;
        let begins = expires - 60 * LEEWAY;
        let claims = json!({
            "iss": ISSUER,
            "aud": [ISSUER],
            "sub": format!("system:serviceaccount:{}:{account}", self.name),
            "jti": uuid::Uuid::new_v4().to_string(),
            "iat": begins,
            "nbf": begins,
            "exp": expires,
            "kubernetes.io": {
                "namespace": self.name,
                "serviceaccount": {"name": account, "uid": uid},
            },
        });
        let key = EncodingKey::from_ec_pem(&std::fs::read(self.cluster.files().account_key())?)?;
        Ok(jsonwebtoken::encode(&Header::new(Algorithm::ES256), &claims, &key)?)
    }

    async fn request_token(&self, client: &Client, account: &str) -> Result<String> {
        let api: Api<ServiceAccount> = Api::namespaced(client.clone(), &self.name);
        let spec = TokenRequestSpec { expiration_seconds: Some(LIFETIME), ..TokenRequestSpec::default() };
        let request = TokenRequest { spec, ..TokenRequest::default() };
        let answer = api.create_token_request(account, &PostParams::default(), &request).await?;
        Ok(answer.status.context("the token request has no status")?.token)
    }

    /// Waits until the API server's authorizer knows a binding: it learns of changes by watches of its own.
    async fn granted(&self, client: &Client, account: &str, binding: &Value) -> Result<()> {
        let user = format!("system:serviceaccount:{}:{account}", self.name);
        let reference = &binding["roleRef"];
        let role_name = reference["name"].as_str().context("a binding names no role")?;
        let role = self.role(client, reference["kind"].as_str().unwrap_or_default(), role_name).await?;
        let rules = role["rules"].as_array().map(Vec::as_slice).unwrap_or_default();
        let Some(first) = rules.iter().find(|rule| !rule["resources"].is_null()) else { return Ok(()) };
        let mut attributes = json!({
            "verb": first["verbs"][0],
            "group": first["apiGroups"][0],
            "name": first["resourceNames"].get(0).cloned().unwrap_or_else(|| json!("")),
        });
        let path = first["resources"][0].as_str().unwrap_or_default();
        let (kind, below) = path.split_once('/').unwrap_or((path, ""));
        attributes["resource"] = kind.into();
        attributes["subresource"] = below.into();
        if binding["kind"] == "RoleBinding" {
            attributes["namespace"] = self.name.as_str().into();
        }
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "resourceAttributes": attributes},
        });
        let until = Instant::now() + PATIENCE;
        let mut interval = tokio::time::interval(Duration::from_millis(20));
        while Instant::now() < until {
            interval.tick().await;
            let request = http::Request::post("/apis/authorization.k8s.io/v1/subjectaccessreviews")
                .header("content-type", "application/json")
                .body(review.to_string().into_bytes())?;
            let answer: Value = client.request(request).await?;
            if answer["status"]["allowed"] == true {
                return Ok(());
            }
        }
        bail!("{role_name} grants {user} nothing after {PATIENCE:?}: {attributes}")
    }

    async fn role(&self, client: &Client, kind: &str, name: &str) -> Result<Value> {
        let scope = if kind == "Role" {
            format!("namespaces/{}/roles", self.name)
        } else {
            "clusterroles".to_owned()
        };
        let path = format!("/apis/rbac.authorization.k8s.io/v1/{scope}/{name}");
        Ok(client.request(http::Request::get(path).body(Vec::new())?).await?)
    }
}

/// Reads the documents of a YAML file.
fn documents(text: &str) -> Result<Vec<Value>> {
    let mut documents = Vec::new();
    for part in text.split("\n---") {
        let value = windlass_api::yaml::parse(part.trim_start_matches("---"))?;
        if !value.is_null() {
            documents.push(value);
        }
    }
    Ok(documents)
}

/// Moves documents into a namespace, and gives names of their own to those that are in none.
fn relocate(documents: &mut Vec<Value>, namespace: &str) {
    documents.retain(|document| document["kind"] != "Namespace");
    let is_wide = |kind: &Value| kind == "ClusterRole" || kind == "ClusterRoleBinding";
    let roles: Vec<Value> = documents
        .iter()
        .filter(|document| document["kind"] == "ClusterRole")
        .map(|document| document["metadata"]["name"].clone())
        .collect();
    let renamed = |name: &Value| Value::from(format!("{}-{namespace}", name.as_str().unwrap_or_default()));
    for document in documents {
        if is_wide(&document["kind"]) {
            document["metadata"]["name"] = renamed(&document["metadata"]["name"]);
        } else {
            document["metadata"]["namespace"] = namespace.into();
        }
        let subjects = document.get_mut("subjects").and_then(Value::as_array_mut);
        for subject in subjects.into_iter().flatten() {
            if subject["kind"] == "ServiceAccount" {
                subject["namespace"] = namespace.into();
            }
        }
        if document["roleRef"]["kind"] == "ClusterRole" && roles.contains(&document["roleRef"]["name"]) {
            document["roleRef"]["name"] = renamed(&document["roleRef"]["name"]);
        }
    }
}

async fn apply(client: &Client, namespace: &str, document: &Value) -> Result<()> {
    let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind, name) = (text("/apiVersion"), text("/kind"), text("/metadata/name"));
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let (resource, capabilities) = pinned_kind(client, &GroupVersionKind::gvk(group, version, kind)).await?;
    let api: Api<DynamicObject> = if capabilities.scope == Scope::Namespaced {
        Api::namespaced_with(client.clone(), namespace, &resource)
    } else {
        Api::all_with(client.clone(), &resource)
    };
    api.patch(name, &PatchParams::apply("windlass-cluster").force(), &Patch::Apply(document))
        .await
        .with_context(|| format!("failed to apply {kind} {name}"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{documents, relocate};

    const RBAC: &str = "
apiVersion: v1
kind: ServiceAccount
metadata: {name: a, namespace: windlass}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: own}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: own}
roleRef: {kind: ClusterRole, name: own}
subjects: [{kind: ServiceAccount, name: a, namespace: windlass}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: delegator}
roleRef: {kind: ClusterRole, name: system:auth-delegator}
subjects: [{kind: ServiceAccount, name: a, namespace: windlass}]
";

    #[test]
    fn documents_move_into_a_namespace_with_their_subjects_and_names() -> anyhow::Result<()> {
        let mut found = documents(RBAC)?;
        relocate(&mut found, "t-1");
        assert_eq!(found[0]["metadata"]["namespace"], "t-1");
        assert_eq!(found[1]["metadata"]["name"], "own-t-1");
        assert_eq!(found[2]["roleRef"]["name"], "own-t-1");
        assert_eq!(found[2]["subjects"][0]["namespace"], "t-1");
        assert_eq!(found[3]["metadata"]["name"], "delegator-t-1");
        assert_eq!(found[3]["roleRef"]["name"], "system:auth-delegator");
        Ok(())
    }
}
