//! Who speaks: the resource attributes of a process, and of what outlives it.

use std::path::Path;

use opentelemetry::KeyValue;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::TelemetryResourceDetector;

use crate::variables::{self, Variables};

/// The identity of a process: random, or what `OTEL_RESOURCE_ATTRIBUTES` says.
const INSTANCE: &str = "service.instance.id";
/// What a process is called.
const NAME: &str = "service.name";

/// Names that begin like these say which process speaks, and where it runs: another one may speak for the same source
/// tomorrow.
const OF_A_PROCESS: [&str; 12] = [
    "container.",
    "host.",
    "k8s.container.",
    "k8s.node.",
    "k8s.pod.",
    "k8s.replicaset.",
    "os.",
    "process.",
    "service.instance.",
    "service.version",
    "telemetry.",
    "vcs.",
];

/// The resource of a process.
#[derive(Clone, Debug)]
pub(crate) struct ProcessResource(pub(crate) Resource);

impl ProcessResource {
    /// `service.*`, `vcs.ref.head.*`, the process, the container, the host and its system, the SDK, and what
    /// `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_SERVICE_NAME` say, which win.
    ///
    /// The command line is left out: it may carry tokens.
    pub(crate) fn new(service: &str, version: &'static str, variables: Variables<'_>) -> Self {
        let mut attributes = vec![
            KeyValue::new("service.version", version),
            KeyValue::new(INSTANCE, uuid::Uuid::new_v4().to_string()),
            KeyValue::new("vcs.ref.head.revision", option_env!("WINDLASS_COMMIT").unwrap_or("unknown")),
            KeyValue::new("vcs.ref.head.name", option_env!("WINDLASS_BRANCH").unwrap_or("unknown")),
            KeyValue::new("process.pid", i64::from(std::process::id())),
            KeyValue::new("process.runtime.name", "rust"),
            KeyValue::new("os.type", std::env::consts::OS),
            KeyValue::new("host.arch", architecture(std::env::consts::ARCH)),
        ];
        let mut add = |name: &'static str, value: Option<String>| {
            attributes.extend(value.map(|value| KeyValue::new(name, value)));
        };
        let executable = std::env::current_exe().ok();
        let file_name = executable.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
        add("process.executable.name", file_name.map(str::to_owned));
        add("process.executable.path", executable.as_deref().and_then(Path::to_str).map(str::to_owned));
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        add("process.owner", owner(&read("/proc/self/status"), &read("/etc/passwd")));
        add("host.name", first_line(&read("/proc/sys/kernel/hostname")));
        add("os.description", first_line(&read("/proc/version")));
        let release = read("/etc/os-release");
        add("os.name", released(&release, "NAME"));
        add("os.version", released(&release, "VERSION_ID"));
        add("container.id", container(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo")));

        let given = given(variables);
        let named =
            given.iter().find(|attribute| attribute.key.as_str() == NAME).map(|name| name.value.clone());
        let name = variables("OTEL_SERVICE_NAME").map(Into::into).or(named);
        // What comes later wins.
        let resource = Resource::builder_empty()
            .with_detector(Box::new(TelemetryResourceDetector))
            .with_attributes(attributes)
            .with_attributes(given)
            .with_service_name(name.unwrap_or_else(|| service.to_owned().into()))
            .build();
        Self(resource)
    }

    /// The attributes of a source of this identity: what all processes that speak for it have in common.
    ///
    /// Were an attribute of the process among them, a new leader would begin new series beside those of the old one,
    /// and whoever adds them up would count twice.
    pub(crate) fn of_source(&self, identity: &str) -> Vec<KeyValue> {
        let common = self
            .0
            .iter()
            .filter(|(key, _)| !OF_A_PROCESS.iter().any(|prefix| key.as_str().starts_with(prefix)))
            .map(|(key, value)| KeyValue::new(key.clone(), value.clone()));
        std::iter::once(KeyValue::new(INSTANCE, identity.to_owned())).chain(common).collect()
    }
}

/// What `OTEL_RESOURCE_ATTRIBUTES` says: all of it, or nothing where a part cannot be read.
fn given(variables: Variables<'_>) -> Vec<KeyValue> {
    let text = variables("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
    let pairs: Option<Vec<_>> = variables::pairs(&text)
        .map(|pair| pair.map(|(key, value)| KeyValue::new(key.to_owned(), value)))
        .collect();
    pairs.unwrap_or_default()
}

/// The architecture as the semantic conventions call it.
fn architecture(rust: &'static str) -> &'static str {
    match rust {
        "x86_64" => "amd64",
        "x86" => "x86",
        "aarch64" => "arm64",
        "arm" => "arm32",
        "powerpc" => "ppc32",
        "powerpc64" => "ppc64",
        other => other,
    }
}

fn first_line(text: &str) -> Option<String> {
    text.lines().next().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned)
}

/// The name of the user a process runs as, or the number where it has none.
fn owner(status: &str, passwd: &str) -> Option<String> {
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    // Real, effective, saved, of the file system.
    let id = ids.split_whitespace().nth(1)?;
    let name = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == id).then_some(name)
    });
    Some(name.unwrap_or(id).to_owned())
}

/// A value of os-release(5).
fn released(text: &str, key: &str) -> Option<String> {
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
    let value = value.trim().trim_matches(|c| c == '"' || c == '\'');
    (!value.is_empty()).then(|| value.to_owned())
}

/// The container's id: the last part of a path of the first version's control groups, or the folder that the runtime
/// mounts files from.
fn container(cgroup: &str, mountinfo: &str) -> Option<String> {
    let of_groups = cgroup.lines().filter_map(|line| line.rsplit('/').next()).find_map(|part| {
        let part = part.strip_suffix(".scope").unwrap_or(part);
        id(part.rsplit(['-', ':']).next().unwrap_or(part))
    });
    of_groups.or_else(|| {
        let mut lines = mountinfo.lines().filter(|line| line.contains("/etc/hostname"));
        lines.find_map(|line| line.split('/').find_map(id))
    })
}

fn id(part: &str) -> Option<String> {
    (part.len() == 64 && part.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| part.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variables::tests::variables;

    const ID: &str = "7be92808767a667f35c8505cbf40d14e931ef6db5b0210329cf193b15ba9d605";

    #[test]
    fn a_container_is_found_in_either_version_of_control_groups() {
        let first = format!("12:memory:/kubepods/besteffort/pod7/{ID}\n");
        let scope = format!("0::/kubepods.slice/kubepods-pod7.slice/cri-containerd-{ID}.scope\n");
        let mounts = format!(
            "900 1 8:1 /var/lib/docker/containers/{ID}/hostname /etc/hostname rw - ext4 /dev/sda1 rw\n"
        );
        assert_eq!(container(&first, "").unwrap(), ID);
        assert_eq!(container(&scope, "").unwrap(), ID);
        assert_eq!(container("0::/\n", &mounts).unwrap(), ID);
        assert_eq!(container("0::/user.slice/user-1000.slice\n", ""), None);
    }

    #[test]
    fn an_owner_is_a_name_where_there_is_one() {
        let passwd = "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n";
        assert_eq!(owner("Name:\tx\nUid:\t0\t65534\t0\t0\n", passwd).unwrap(), "nobody");
        assert_eq!(owner("Uid:\t7\t7\t7\t7\n", passwd).unwrap(), "7");
        assert_eq!(owner("", passwd), None);
    }

    #[test]
    fn a_release_says_its_name_and_version() {
        let release = "PRETTY_NAME=\"Debian 13\"\nNAME=\"Debian GNU/Linux\"\nVERSION_ID='13'\n";
        assert_eq!(released(release, "NAME").unwrap(), "Debian GNU/Linux");
        assert_eq!(released(release, "VERSION_ID").unwrap(), "13");
        assert_eq!(released(release, "VERSION"), None);
    }

    #[test]
    fn a_source_has_the_same_attributes_whichever_process_speaks_for_it() {
        let one = ProcessResource::new("tracker", "1", &variables(&[])).of_source("ledger");
        let other = ProcessResource::new("tracker", "2", &variables(&[])).of_source("ledger");
        assert_eq!(one, other);
        assert!(one.contains(&KeyValue::new("service.name", "tracker")), "{one:?}");
        assert!(one.contains(&KeyValue::new("service.instance.id", "ledger")), "{one:?}");
        assert_eq!(one.iter().filter(|attribute| attribute.key.as_str() == INSTANCE).count(), 1);
    }

    #[test]
    fn variables_say_who_speaks() {
        let all = ("OTEL_RESOURCE_ATTRIBUTES", "service.name=one,team=sweet%20%26%20sour,host.name=here");
        let name = ("OTEL_SERVICE_NAME", "two");
        let broken = ("OTEL_RESOURCE_ATTRIBUTES", "service.name=one,team=%zz");
        let check = |set: &[(&str, &str)], expected: [Option<&str>; 2]| {
            let resource = ProcessResource::new("tracker", "1", &variables(set)).0;
            let value =
                |key: &'static str| resource.get(&key.into()).map(|value| value.as_str().into_owned());
            assert_eq!([value(NAME), value("team")].each_ref().map(Option::as_deref), expected, "{set:?}");
            assert_eq!(value("telemetry.sdk.language").as_deref(), Some("rust"));
            assert_eq!(value("service.version").as_deref(), Some("1"));
            value("host.name")
        };
        check(&[], [Some("tracker"), None]);
        assert_eq!(check(&[all], [Some("one"), Some("sweet & sour")]).as_deref(), Some("here"));
        check(&[all, name], [Some("two"), Some("sweet & sour")]);
        check(&[name], [Some("two"), None]);
        check(&[broken], [Some("tracker"), None]);
    }
}
