//! Whether an object is as its spec asks, by the rules of its kind (cli-utils: `kstatus/status/core.go`).

use serde_json::Value;

/// How far an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// As its spec asks.
    Ready,
    /// On its way; what is missing, in numbers and words of its kind.
    Waiting(String),
    /// It does not get there by itself.
    Failed(String),
    /// Its status has a shape that is not Kubernetes'.
    Foreign(String),
}

use Readiness::{Failed, Foreign, Ready, Waiting};

/// How far an object is. A Job is ready when it is complete, in which we differ from kstatus, to which it is once it runs.
pub fn readiness(object: &Value) -> Readiness {
    if object["metadata"]["deletionTimestamp"].is_string() {
        return Waiting("it is being deleted".to_owned());
    }
    let conditions = match Conditions::of(object) {
        Ok(conditions) => conditions,
        Err(foreign) => return Foreign(foreign),
    };
    let generation = object["metadata"]["generation"].as_i64();
    let observed = object["status"]["observedGeneration"].as_i64();
    if let (Some(generation), Some(observed)) = (generation, observed)
        && observed < generation
    {
        return Waiting(format!("its controller has seen generation {observed} of {generation}"));
    }
    let group =
        object["apiVersion"].as_str().and_then(|version| version.split_once('/')).map_or("", |split| split.0);
    match (group, object["kind"].as_str().unwrap_or_default()) {
        ("apps", "Deployment") => deployment(object, &conditions),
        ("apps", "StatefulSet") => stateful_set(object),
        ("apps", "DaemonSet") => daemon_set(object),
        ("apps", "ReplicaSet") => replicas(object, "availableReplicas", "available"),
        ("batch", "Job") => job(&conditions),
        ("", "Pod") => pod(object, &conditions),
        ("", "Service") => service(object),
        ("", "PersistentVolumeClaim") => phase(object, "Bound"),
        ("", "Namespace") if object["status"]["phase"].is_string() => phase(object, "Active"),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => match conditions.get("NamesAccepted") {
            Some("False") => Failed("its names are taken".to_owned()),
            _ => conditions.wanted("Established"),
        },
        ("apiregistration.k8s.io", "APIService") => conditions.wanted("Available"),
        _ => conditions.generic(),
    }
}

/// Whether a condition is there, true, and about the object as it is now.
pub(super) fn condition(object: &Value, kind: &str) -> Readiness {
    let judged = readiness(object);
    if judged != Ready {
        return judged;
    }
    let generation = object["metadata"]["generation"].as_i64();
    if generation.is_some() && object["status"]["observedGeneration"].as_i64() != generation {
        return Waiting("its controller has not seen it".to_owned());
    }
    Conditions::of(object).map_or_else(Foreign, |conditions| conditions.wanted(kind))
}

fn count(object: &Value, part: &str, field: &str) -> i64 {
    object[part][field].as_i64().unwrap_or(0)
}

fn wanted_replicas(object: &Value) -> i64 {
    object["spec"]["replicas"].as_i64().unwrap_or(1)
}

fn replicas(object: &Value, field: &str, word: &str) -> Readiness {
    let (wanted, found) = (wanted_replicas(object), count(object, "status", field));
    if found < wanted { Waiting(format!("{found} of {wanted} replicas are {word}")) } else { Ready }
}

fn first_missing(checks: impl IntoIterator<Item = Readiness>) -> Readiness {
    checks.into_iter().find(|check| *check != Ready).unwrap_or(Ready)
}

fn deployment(object: &Value, conditions: &Conditions<'_>) -> Readiness {
    if conditions.reason("Progressing") == Some("ProgressDeadlineExceeded") {
        return Failed("it made no progress within its deadline".to_owned());
    }
    let old = count(object, "status", "replicas") - count(object, "status", "updatedReplicas");
    first_missing([
        replicas(object, "updatedReplicas", "updated"),
        if old > 0 { Waiting(format!("{old} old replicas have to go")) } else { Ready },
        replicas(object, "availableReplicas", "available"),
        replicas(object, "readyReplicas", "ready"),
        if wanted_replicas(object) == 0 { Ready } else { conditions.wanted("Available") },
    ])
}

fn stateful_set(object: &Value) -> Readiness {
    if object["spec"]["updateStrategy"]["type"] == "OnDelete" {
        return Ready;
    }
    let partition = object["spec"]["updateStrategy"]["rollingUpdate"]["partition"].as_i64().unwrap_or(0);
    let ready = replicas(object, "readyReplicas", "ready");
    if ready != Ready {
        return ready;
    }
    let status = &object["status"];
    let (wanted, updated) = (wanted_replicas(object) - partition, count(object, "status", "updatedReplicas"));
    if partition > 0 {
        return if updated < wanted {
            Waiting(format!("{updated} of {wanted} replicas are updated"))
        } else {
            Ready
        };
    }
    if status["currentRevision"] == status["updateRevision"] {
        Ready
    } else {
        Waiting("its replicas are being updated".to_owned())
    }
}

fn daemon_set(object: &Value) -> Readiness {
    if object["status"]["observedGeneration"].is_null() {
        return Waiting("its controller has not seen it".to_owned());
    }
    let wanted = count(object, "status", "desiredNumberScheduled");
    let enough = |field: &str, word: &str| {
        let found = count(object, "status", field);
        if found < wanted { Waiting(format!("{found} of {wanted} are {word}")) } else { Ready }
    };
    first_missing([
        enough("currentNumberScheduled", "scheduled"),
        enough("updatedNumberScheduled", "updated"),
        enough("numberAvailable", "available"),
        enough("numberReady", "ready"),
    ])
}

fn job(conditions: &Conditions<'_>) -> Readiness {
    if conditions.get("Failed") == Some("True") {
        return Failed("the job failed".to_owned());
    }
    conditions.wanted("Complete")
}

fn pod(object: &Value, conditions: &Conditions<'_>) -> Readiness {
    match object["status"]["phase"].as_str().unwrap_or_default() {
        "Succeeded" => Ready,
        "Failed" => Failed("the pod failed".to_owned()),
        _ => {
            let containers = object["status"]["containerStatuses"].as_array();
            let crashes = containers
                .into_iter()
                .flatten()
                .any(|container| container["state"]["waiting"]["reason"] == "CrashLoopBackOff");
            if crashes {
                return Failed("a container crashes again and again".to_owned());
            }
            conditions.wanted("Ready")
        }
    }
}

fn service(object: &Value) -> Readiness {
    let address = object["spec"]["clusterIP"].as_str().unwrap_or_default();
    if object["spec"]["type"] == "LoadBalancer" && address.is_empty() {
        return Waiting("it has no address yet".to_owned());
    }
    Ready
}

fn phase(object: &Value, wanted: &str) -> Readiness {
    match object["status"]["phase"].as_str() {
        Some(phase) if phase == wanted => Ready,
        _ => Waiting(format!("it is not {wanted}")),
    }
}

/// The conditions of an object: type, status and reason.
struct Conditions<'a>(Vec<(&'a str, &'a str, Option<&'a str>)>);

impl<'a> Conditions<'a> {
    fn of(object: &'a Value) -> Result<Self, String> {
        match &object["status"]["conditions"] {
            Value::Null => Ok(Self(Vec::new())),
            Value::Array(list) => {
                let read = |condition: &'a Value| {
                    Some((
                        condition["type"].as_str()?,
                        condition["status"].as_str()?,
                        condition["reason"].as_str(),
                    ))
                };
                let read: Option<Vec<_>> = list.iter().map(read).collect();
                read.map(Self).ok_or_else(|| "a condition lacks its type or status".to_owned())
            }
            _ => Err("its conditions are no list".to_owned()),
        }
    }

    fn get(&self, kind: &str) -> Option<&'a str> {
        self.0.iter().find(|condition| condition.0 == kind).map(|condition| condition.1)
    }

    fn reason(&self, kind: &str) -> Option<&'a str> {
        self.0.iter().find(|condition| condition.0 == kind).and_then(|condition| condition.2)
    }

    fn wanted(&self, kind: &str) -> Readiness {
        match self.get(kind) {
            Some("True") => Ready,
            _ => Waiting(format!("it is not {kind}")),
        }
    }

    /// For kinds of which nothing else is known.
    fn generic(&self) -> Readiness {
        if self.get("Stalled") == Some("True") {
            return Failed("it is stalled".to_owned());
        }
        if self.get("Reconciling") == Some("True") {
            return Waiting("it is being reconciled".to_owned());
        }
        let told = ["Ready", "Available"].into_iter().find(|kind| self.get(kind).is_some());
        told.map_or(Ready, |kind| self.wanted(kind))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(api_version: &str, kind: &str, spec: Value, status: Value) -> String {
        let object = json!({
            "apiVersion": api_version, "kind": kind, "metadata": {"generation": 2}, "spec": spec, "status": status,
        });
        match readiness(&object) {
            Ready => "ready".to_owned(),
            Waiting(why) => why,
            Failed(why) => format!("failed: {why}"),
            Foreign(why) => format!("foreign: {why}"),
        }
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table")]
    fn each_kind_is_judged_by_its_own_rules() {
        let is = |kind: &str, status: &str| json!([{"type": kind, "status": status}]);
        let cases = [
            (
                "apps/v1",
                "Deployment",
                json!({"replicas": 2}),
                json!({"observedGeneration": 1}),
                "its controller has seen generation 1 of 2",
            ),
            (
                "apps/v1",
                "Deployment",
                json!({"replicas": 2}),
                json!({"updatedReplicas": 2, "replicas": 3}),
                "1 old replicas have to go",
            ),
            (
                "apps/v1",
                "Deployment",
                json!({"replicas": 1}),
                json!({"updatedReplicas": 1, "replicas": 1, "availableReplicas": 1, "readyReplicas": 1, "conditions": is("Available", "True")}),
                "ready",
            ),
            (
                "apps/v1",
                "Deployment",
                json!({}),
                json!({"conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]}),
                "failed: it made no progress within its deadline",
            ),
            ("apps/v1", "StatefulSet", json!({}), json!({}), "0 of 1 replicas are ready"),
            (
                "apps/v1",
                "StatefulSet",
                json!({}),
                json!({"readyReplicas": 1, "currentRevision": "a", "updateRevision": "b"}),
                "its replicas are being updated",
            ),
            ("apps/v1", "StatefulSet", json!({"updateStrategy": {"type": "OnDelete"}}), json!({}), "ready"),
            ("apps/v1", "DaemonSet", json!({}), json!({}), "its controller has not seen it"),
            (
                "apps/v1",
                "DaemonSet",
                json!({}),
                json!({"observedGeneration": 2, "desiredNumberScheduled": 3, "currentNumberScheduled": 3, "updatedNumberScheduled": 3, "numberAvailable": 2}),
                "2 of 3 are available",
            ),
            ("batch/v1", "Job", json!({}), json!({"startTime": "now"}), "it is not Complete"),
            (
                "batch/v1",
                "Job",
                json!({}),
                json!({"conditions": is("Failed", "True")}),
                "failed: the job failed",
            ),
            (
                "v1",
                "Pod",
                json!({}),
                json!({"phase": "Running", "conditions": is("Ready", "False")}),
                "it is not Ready",
            ),
            (
                "v1",
                "Pod",
                json!({}),
                json!({"containerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}),
                "failed: a container crashes again and again",
            ),
            ("v1", "Service", json!({"type": "LoadBalancer"}), json!({}), "it has no address yet"),
            ("v1", "Service", json!({}), json!({}), "ready"),
            ("v1", "PersistentVolumeClaim", json!({}), json!({"phase": "Pending"}), "it is not Bound"),
            (
                "apiextensions.k8s.io/v1",
                "CustomResourceDefinition",
                json!({}),
                json!({"conditions": is("NamesAccepted", "False")}),
                "failed: its names are taken",
            ),
            ("apiregistration.k8s.io/v1", "APIService", json!({}), json!({}), "it is not Available"),
            ("v1", "ConfigMap", json!({}), json!({}), "ready"),
            (
                "apps/v1",
                "ReplicaSet",
                json!({"replicas": 2}),
                json!({"availableReplicas": 1}),
                "1 of 2 replicas are available",
            ),
            ("apps/v1", "ReplicaSet", json!({"replicas": 2}), json!({"availableReplicas": 2}), "ready"),
            ("apps/v1", "Deployment", json!({"replicas": 0}), json!({"observedGeneration": 2}), "ready"),
            (
                "apps/v1",
                "StatefulSet",
                json!({"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": 1}}}),
                json!({"readyReplicas": 3, "updatedReplicas": 1}),
                "1 of 2 replicas are updated",
            ),
            (
                "apps/v1",
                "StatefulSet",
                json!({}),
                json!({"readyReplicas": 1, "currentRevision": "a", "updateRevision": "a"}),
                "ready",
            ),
            (
                "apps/v1",
                "DaemonSet",
                json!({}),
                json!({"observedGeneration": 2, "desiredNumberScheduled": 1, "currentNumberScheduled": 1, "updatedNumberScheduled": 1, "numberAvailable": 1, "numberReady": 1}),
                "ready",
            ),
            ("batch/v1", "Job", json!({}), json!({"conditions": is("Complete", "True")}), "ready"),
            ("v1", "Pod", json!({}), json!({"phase": "Succeeded"}), "ready"),
            ("v1", "Pod", json!({}), json!({"phase": "Failed"}), "failed: the pod failed"),
            ("v1", "Pod", json!({}), json!({"phase": "Running", "conditions": is("Ready", "True")}), "ready"),
            ("v1", "Service", json!({"type": "LoadBalancer", "clusterIP": "10.0.0.1"}), json!({}), "ready"),
            ("v1", "PersistentVolumeClaim", json!({}), json!({"phase": "Bound"}), "ready"),
            ("v1", "Namespace", json!({}), json!({"phase": "Terminating"}), "it is not Active"),
            (
                "apiextensions.k8s.io/v1",
                "CustomResourceDefinition",
                json!({}),
                json!({"conditions": is("Established", "True")}),
                "ready",
            ),
            (
                "apiregistration.k8s.io/v1",
                "APIService",
                json!({}),
                json!({"conditions": is("Available", "True")}),
                "ready",
            ),
            (
                "x.dev/v1",
                "Any",
                json!({}),
                json!({"conditions": is("Reconciling", "True")}),
                "it is being reconciled",
            ),
            ("x.dev/v1", "Any", json!({}), json!({"conditions": is("Ready", "True")}), "ready"),
            ("x.dev/v1", "Any", json!({}), json!({"conditions": is("Ready", "Unknown")}), "it is not Ready"),
            (
                "x.dev/v1",
                "Any",
                json!({}),
                json!({"conditions": is("Stalled", "True")}),
                "failed: it is stalled",
            ),
            (
                "x.dev/v1",
                "Any",
                json!({}),
                json!({"conditions": {"Ready": "yes"}}),
                "foreign: its conditions are no list",
            ),
            (
                "x.dev/v1",
                "Any",
                json!({}),
                json!({"conditions": [{"kind": "Ready"}]}),
                "foreign: a condition lacks its type or status",
            ),
        ];
        for (api_version, kind, spec, status, expected) in cases {
            assert_eq!(of(api_version, kind, spec, status.clone()), expected, "{kind} {status}");
        }
    }
}
