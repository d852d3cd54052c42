use secrecy::ExposeSecret as _;

use super::*;
use crate::{
    key, keys,
    sections::{GithubCredentials, LogFormat, Selection},
};

fn sources(ini: &str, env: &[(&str, &str)], flags: &[(&str, &str, &str)]) -> (tempfile::TempDir, Sources) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("operator.ini");
    std::fs::write(&path, ini).unwrap();
    let own = |(section, key, value): &(&str, &str, &str)| {
        ((*section).to_owned(), (*key).to_owned(), (*value).to_owned())
    };
    let sources = Sources {
        config: Some(path),
        env: env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        flags: flags.iter().map(own).collect(),
        operator: None,
    };
    (dir, sources)
}

fn load(ini: &str, env: &[(&str, &str)]) -> Settings {
    let (_dir, sources) = sources(ini, env, &[]);
    Settings::load(sources).unwrap()
}

/// The only error, without the folder of the file.
fn error(ini: &str, env: &[(&str, &str)]) -> String {
    let (dir, sources) = sources(ini, env, &[]);
    let errors = Settings::load(sources).unwrap_err();
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    texts.join("\n").replace(&format!("{}/", dir.path().display()), "")
}

#[test]
fn without_sources_every_default_is_good() {
    let settings = Settings::load(Sources::<Vec<(String, String)>>::default()).unwrap();
    assert_eq!(settings.notices(), [] as [String; 0]);
    let operator = settings.operator();
    assert_eq!(operator.lease_expiry, std::time::Duration::from_mins(1));
    assert_eq!(operator.lease_renewal_interval, std::time::Duration::from_secs(20));
    assert_eq!((operator.concurrent_drivers, operator.max_sync_workers, operator.max_attempts), (3, 10, 3));
    assert!(!operator.tls_insecure && operator.jobs_processing_enabled);
    assert_eq!(operator.metrics_address, "127.0.0.1:3000");
    assert_eq!(operator.log_format, LogFormat::Auto);
    assert_eq!(settings.provisioning().repository_types, windlass_api::RepositoryType::ALL);
    assert_eq!(settings.provisioning().allowed_targets.len(), 3);
    assert_eq!(settings.provisioning().max_repositories, 0);
}

#[test]
fn flags_win_over_variables_over_the_file_over_defaults() {
    let ini = "[operator]\nconcurrent_drivers = 4\nmax_sync_workers = 5\nworker_count = 6\n";
    let env = [
        ("GF_OPERATOR_CONCURRENT_DRIVERS", "7"),
        ("GF_OPERATOR_MAX_SYNC_WORKERS", "8"),
        ("GF_OPERATOR_WORKER_COUNT", ""),
    ];
    let (_dir, sources) = sources(ini, &env, &[("operator", "concurrent_drivers", "9")]);
    let settings = Settings::load(sources).unwrap();
    let operator = settings.operator();
    assert_eq!((operator.concurrent_drivers, operator.max_sync_workers, operator.worker_count), (9, 8, 6));
    let printed = settings.print();
    let line = |key: &str| printed.lines().find(|line| line.starts_with(key)).unwrap().to_owned();
    assert!(line("concurrent_drivers = 9").ends_with("; command line"));
    assert!(line("max_sync_workers = 8").ends_with("; GF_OPERATOR_MAX_SYNC_WORKERS"));
    assert!(line("worker_count = 6").ends_with("operator.ini:4"));
    assert!(line("job_interval = 30s").ends_with("; default"));
}

#[test]
fn an_ini_of_grafanas_operator_starts() {
    let settings = load(
        "[database]\nensure_default_org_and_user = false\nskip_migrations = true\n\
         [log]\nlevel = debug\n\
         [grpc_client_authentication]\ntoken = ProvisioningAdminToken\n\
         token_exchange_url = http://localhost:6481/sign/access-token\ntoken_namespace = *\n\
         [operator]\nprovisioning_server_url = https://localhost:6446\ndashboards_server_url = https://localhost:6447\n\
         tls_insecure = true\nlease_renewal_interval = 20s\n\
         [unified_storage]\ngrpc_address = localhost:10000\nother = 1\n\
         [unified_storage.dashboards.dashboard.grafana.app]\ndualWriterMode = 5\n\
         [provisioning]\nrepository_types = git|github|git\n",
        &[
            ("GF_DEFAULT_TARGET", "operator"),
            ("GF_OPERATOR_NAME", "provisioning-jobs"),
            ("GF_PATHS_HOME", "/x"),
            ("PATH", "/bin"),
        ],
    );
    assert_eq!(settings.auth().token.expose_secret(), "ProvisioningAdminToken");
    assert_eq!(settings.operator().dashboards_server_url, "https://localhost:6447");
    assert_eq!(settings.operator().folders_server_url, "https://localhost:6446");
    assert_eq!(settings.provisioning().repository_types.len(), 2);
    settings.require_for("provisioning-jobs").unwrap();
    let notices = settings.notices().join("\n");
    for part in [
        "[database]",
        "[log]",
        "[unified_storage]",
        "GF_PATHS_HOME",
        "[grpc_client_authentication] token_namespace",
    ] {
        assert!(notices.contains(part), "{part} is not in {notices}");
    }
    assert!(!notices.contains("GF_OPERATOR_NAME") && !notices.contains("PATH,"), "{notices}");
}

#[test]
fn an_unknown_key_of_ours_names_its_place_and_the_likely_one() {
    assert_eq!(
        error("[operator]\n\nlease_expiri = 5s\n", &[]),
        "operator.ini:3: unknown key `lease_expiri` in [operator] section; did you mean `lease_expiry`?"
    );
    assert_eq!(
        error("[windlass.git]\nzzz = 1\n", &[]),
        "operator.ini:2: unknown key `zzz` in [windlass.git] section"
    );
    let notices = load("", &[("GF_OPERATOR_LEASE_EXPIRI", "5s")]).notices().join("\n");
    assert!(notices.contains("did you mean GF_OPERATOR_LEASE_EXPIRY?"), "{notices}");
}

#[test]
fn a_bad_value_says_where_what_and_what_was_expected() {
    assert_eq!(
        error("[operator]\nconcurrent_drivers = many\n", &[]),
        "operator.ini:2: `concurrent_drivers` in [operator] section is \"many\", expected a whole number from 1 to 1024"
    );
    let text = error("", &[("GF_OPERATOR_JOB_INTERVAL", "5 minutes")]);
    assert!(
        text.starts_with("GF_OPERATOR_JOB_INTERVAL: `job_interval`") && text.contains("such as 30s"),
        "{text}"
    );
    let (_dir, sources) =
        sources("", &[], &[("operator", "tls_insecure", "perhaps"), ("operator", "nope", "")]);
    let errors = Settings::load(sources).unwrap_err();
    assert_eq!(errors[0].to_string(), "command line: unknown key `nope` in [operator] section");
    assert!(errors[1].to_string().starts_with("command line: `tls_insecure`"), "{errors:?}");
}

#[test]
fn all_errors_are_told_at_once_with_their_origins() {
    let ini = "[operator]\nworker_count = 0\n[commit_tracker]\nall = perhaps\n";
    let env = [("GF_PROVISIONING_REPOSITORY_TYPES", "git|svn")];
    let (_dir, sources) = sources(ini, &env, &[("operator", "job_interval", "soon")]);
    let errors: Vec<String> = Settings::load(sources).unwrap_err().iter().map(ToString::to_string).collect();
    let origins: Vec<&str> =
        errors.iter().map(|error| error.split(": ").next().unwrap().rsplit('/').next().unwrap()).collect();
    assert_eq!(
        origins,
        ["operator.ini:2", "command line", "GF_PROVISIONING_REPOSITORY_TYPES", "operator.ini:4"],
        "{errors:#?}"
    );
}

#[test]
fn repeated_keys_and_lines_without_meaning_are_refused() {
    assert_eq!(
        error("[operator]\nworker_count = 1\n[provisioning]\n[operator]\nworker_count = 2\n", &[]),
        "operator.ini:5: `worker_count` in [operator] section is set twice: first in line 2"
    );
    assert!(error("[operator]\nhello\n", &[]).starts_with("operator.ini:2: expected `key = value`"));
    let missing = Sources { config: Some("/nowhere/operator.ini".into()), ..Sources::<Vec<_>>::default() };
    let text = Settings::load(missing).unwrap_err()[0].to_string();
    assert!(text.starts_with("failed to read the configuration /nowhere/operator.ini"), "{text}");
}

#[test]
fn a_renewal_that_is_too_rare_is_refused_with_what_to_set() {
    assert_eq!(
        error("[operator]\nlease_renewal_interval = 30s\n", &[]),
        "operator.ini:2: `lease_renewal_interval` in [operator] section is 30s, more than a third of `lease_expiry` \
         (1m0s, default): a lease could lapse while its owner is at work. Set lease_renewal_interval to 20s or less \
         (or leave it out), or lease_expiry to 1m30s or more"
    );
    let settings = load("[operator]\nlease_expiry = 3s\n", &[]);
    assert_eq!(settings.operator().lease_renewal_interval, std::time::Duration::from_secs(1));
    let settings = load("[operator]\nlease_expiry = 90s\nlease_renewal_interval = 30s\n", &[]);
    assert_eq!(settings.operator().lease_renewal_interval, std::time::Duration::from_secs(30));
}

#[test]
fn what_is_printed_is_what_is_in_force() {
    let settings = load(
        "[operator]\nlease_expiry = 3s\njob_interval = 0\nprovisioning_server_url = https://api.example\n\
         folders_server_url = https://folders.example\n",
        &[],
    );
    let printed = settings.print();
    let line = |key: &str| printed.lines().find(|line| line.starts_with(key)).unwrap().to_owned();
    assert!(line("lease_renewal_interval = 1s").ends_with("; default"));
    assert!(line("job_interval = 30s").ends_with("operator.ini:3"));
    assert!(line("dashboards_server_url = https://api.example").ends_with("operator.ini:4"));
    assert!(line("folders_server_url = https://folders.example").ends_with("operator.ini:5"));
}

#[test]
fn history_is_kept_as_long_as_either_name_of_the_setting_says() {
    let age = |ini: &str| load(ini, &[]).operator().history_max_age.as_secs();
    assert_eq!(age(""), 14 * 24 * 3600);
    assert_eq!(age("[operator]\nhistory_max_age = 0\n"), 0);
    assert_eq!(age("[operator]\nhistory_expiration = 1h\n"), 3600);
    assert_eq!(age("[operator]\nhistory_expiration = 0\n"), 14 * 24 * 3600);
    assert_eq!(age("[operator]\nhistory_expiration = 1h\nhistory_max_age = 2h\n"), 7200);
}

#[test]
fn one_namespace_takes_all_drivers_but_one_unless_it_is_said() {
    let most = |ini: &str| load(ini, &[]).operator().max_jobs_per_namespace;
    assert_eq!(most(""), 2);
    assert_eq!(most("[operator]\nconcurrent_drivers = 1\n"), 1);
    assert_eq!(most("[operator]\nconcurrent_drivers = 9\nmax_jobs_per_namespace = 9\n"), 9);
}

#[test]
fn one_git_host_takes_all_drivers_but_one_unless_it_is_said() {
    let most = |ini: &str, operator: Option<&str>| {
        let (_dir, mut sources) = sources(ini, &[], &[]);
        sources.operator = operator.map(str::to_owned);
        Settings::load(sources).unwrap().operator().git_max_requests_per_host
    };
    for jobs in keys::JOBS {
        assert_eq!(most("", Some(jobs)), 2);
        assert_eq!(most("[operator]\nconcurrent_drivers = 1\n", Some(jobs)), 1);
        assert_eq!(most("[operator]\nconcurrent_drivers = 9\n", Some(jobs)), 4);
        assert_eq!(most("[operator]\ngit_max_requests_per_host = 4\n", Some(jobs)), 4);
    }
    for other in [None, Some("provisioning-repo"), Some("source-controller")] {
        assert_eq!(most("", other), 4, "{other:?}");
    }
}

#[test]
fn half_a_client_certificate_is_refused() {
    let text = error("[operator]\ntls_cert_file = a.pem\n", &[]);
    assert!(text.contains("operator.ini:2") && text.contains("`tls_key_file` is not set"), "{text}");
    load("[operator]\ntls_cert_file = a.pem\ntls_key_file = b.pem\n", &[]);
}

#[test]
fn what_an_operator_needs_is_named_unless_there_is_a_kubeconfig() {
    let errors = load("", &[]).require_for("provisioning-jobs").unwrap_err();
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), 3, "{texts:?}");
    assert_eq!(
        texts[0],
        "`token` is required in [grpc_client_authentication] section (or GF_GRPC_CLIENT_AUTHENTICATION_TOKEN in the environment)"
    );
    load("[operator]\nkubeconfig = k\n", &[]).require_for("provisioning-jobs").unwrap();
}

#[test]
fn secrets_are_shown_nowhere() {
    let dir = tempfile::tempdir().unwrap();
    let token = dir.path().join("token");
    std::fs::write(&token, "hunter2\n").unwrap();
    let ini = format!("[grpc_client_authentication]\ntoken = $__file{{{}}}\n", token.display());
    let settings = load(&ini, &[("GF_PROVISIONING_LOKI_PASSWORD", "hunter2")]);
    assert_eq!(settings.auth().token.expose_secret(), "hunter2");
    assert!(settings.print().contains("token = [redacted]"));
    for (endpoint, shown) in [
        ("https://me:hunter2@collector:4317", "https://[redacted]@collector:4317"),
        ("hunter2:x@collector:4317", "[redacted]@collector:4317"),
        ("https://hunter2/@collector", "https://[redacted]@collector"),
        ("https://collector:4317", "https://collector:4317"),
    ] {
        let printed = load(&format!("[operator]\ntelemetry_endpoint = {endpoint}\n"), &[]).print();
        assert!(printed.contains(&format!("telemetry_endpoint = {shown} ")), "{printed}");
    }
    let shown = format!("{settings:?} {} {:?}", settings.print(), settings.notices());
    assert!(!shown.contains("hunter2"), "{shown}");
    let text = error("[grpc_client_authentication]\ntoken_exchange_url = https://me:hunter2@x/\n", &[]);
    assert!(text.contains("[redacted]") && !text.contains("hunter2"), "{text}");
    assert!(!error("[grpc_client_authentication]\nhunter2\n", &[]).contains("hunter2"));
}

#[test]
fn allowed_origins_come_from_both_keys() {
    let settings = load(
        "[operator]\nallowed_git_origins = http://127.0.0.1:8080|https://git.internal|HTTP://127.0.0.1:8080/\n\
         [provisioning]\nallowed_git_urls = git.corp, git.lan:8443, http://10.0.0.1:80/x\n",
        &[],
    );
    assert_eq!(
        settings.operator().allowed_git_origins,
        [
            "http://127.0.0.1:8080",
            "https://git.internal",
            "https://git.corp",
            "https://git.lan:8443",
            "http://10.0.0.1"
        ]
    );
}

#[test]
fn what_is_printed_is_read_again_as_the_same() {
    let ini = "[operator]\nlog_level = \"\"\"info,a=debug;x#y\"\"\"\nhome_path = /srv/a b\nlocal_permitted_prefixes = /a,b|/c\n";
    let settings = load(ini, &[]);
    assert_eq!(settings.operator().local_permitted_prefixes, [PathBuf::from("/a,b"), PathBuf::from("/c")]);
    let again = load(&settings.print(), &[]);
    let values = |settings: &Settings| -> Vec<String> {
        keys().map(|key| settings.values.text(key.section, key.name).to_owned()).collect()
    };
    assert_eq!(values(&again), values(&settings));
}

#[test]
fn a_value_that_is_cut_short_by_a_comment_is_noticed() {
    let settings = load("[grpc_client_authentication]\ntoken = abc#def\n", &[]);
    assert_eq!(settings.auth().token.expose_secret(), "abc");
    let notices = settings.notices().join("\n");
    assert!(
        notices.contains("operator.ini:2") && notices.contains("`token`") && !notices.contains("def"),
        "{notices}"
    );
}

#[test]
fn every_key_has_a_name_a_variable_and_a_description_of_its_own() {
    let mut seen = std::collections::BTreeSet::new();
    for key in keys() {
        assert!(seen.insert(key.variable()), "{} shares its variable", key.name);
        assert!(key.description.concat().ends_with('.'), "{}", key.name);
    }
    for (section, names) in keys::UNUSED {
        for name in *names {
            assert!(seen.insert(key::variable(section, name)), "{section}.{name} is used");
        }
    }
    assert_eq!(key::variable("a.b-c", "d"), "GF_A_B_C_D");
}

#[test]
fn the_reference_has_every_key() {
    let reference = crate::reference_markdown();
    for key in keys() {
        assert!(reference.contains(&format!("| `{}` |", key.name)), "{}", key.name);
        assert!(reference.contains(&key.variable()));
    }
    let columns = |line: &str| line.replace("\\|", "").matches('|').count();
    for line in reference.lines().filter(|line| line.starts_with('|')) {
        assert_eq!(columns(line), 6, "{line}");
    }
}

#[test]
fn the_namespace_is_a_name_that_kubernetes_takes() {
    assert_eq!(load("", &[]).operator().namespace, None);
    let one = load("[operator]\nnamespace = team-1\n", &[]);
    assert_eq!(one.operator().namespace.as_deref(), Some("team-1"));
    for bad in ["Team", "a b", "-a", "a-", "a.b", "*", &"a".repeat(64)] {
        let text = error(&format!("[operator]\nnamespace = {bad}\n"), &[]);
        assert!(text.contains("`namespace`") && text.contains("at most 63"), "{text}");
    }
}

#[test]
fn without_a_server_the_environment_says_where_one_is() {
    let pod = ("KUBERNETES_SERVICE_HOST", "10.0.0.1");
    let settings = load("", &[pod]);
    assert!(settings.in_cluster() && settings.operator().kubeconfig.is_none());
    settings.require_for("provisioning-repo").unwrap();

    let settings = load("", &[("KUBECONFIG", "/a/config"), pod]);
    assert_eq!(settings.operator().kubeconfig.as_deref(), Some("/a/config".as_ref()));
    assert!(!settings.in_cluster() && settings.print().contains("KUBECONFIG"), "{}", settings.print());

    let url = load("[operator]\nprovisioning_server_url = http://a\n", &[("KUBECONFIG", "/a/config"), pod]);
    assert!(!url.in_cluster() && url.operator().kubeconfig.is_none(), "a key wins over the environment");
    let file = load("[operator]\nkubeconfig = mine\n", &[("KUBECONFIG", "/a/config"), pod]);
    assert_eq!(file.operator().kubeconfig.as_deref(), Some("mine".as_ref()));
}

#[test]
fn leader_election_is_on_where_the_api_server_is_a_kubernetes_one_unless_it_is_said() {
    let pod = ("KUBERNETES_SERVICE_HOST", "10.0.0.1");
    let url = "[operator]\nprovisioning_server_url = http://a\n";
    assert!(load("", &[pod]).leader_election());
    assert!(load("[operator]\nkubeconfig = k\n", &[]).leader_election());
    assert!(!load(url, &[pod]).leader_election());
    let said = |word: &str| format!("{url}[provisioning]\nleader_election = {word}\n");
    assert!(load(&said("on"), &[]).leader_election());
    assert!(!load("[provisioning]\nleader_election = false\n", &[pod]).leader_election());
    assert!(error(&said("maybe"), &[]).contains("auto, true or false"));
}

#[test]
fn times_of_an_election_that_would_let_two_lead_are_refused() {
    let text = error("[operator]\nleader_election_renew_deadline = 15s\n", &[]);
    assert!(text.contains("operator.ini:2") && text.contains("two replicas could lead"), "{text}");
    let text = error("[operator]\nleader_election_retry_period = 6s\n", &[]);
    assert!(text.contains("operator.ini:2") && text.contains("more than half"), "{text}");
}

/// What the commit tracker makes of an environment.
fn tracker(env: &[(&str, &str)], flags: &[(&str, &str, &str)]) -> Result<Settings, String> {
    let (_dir, mut sources) = sources("[operator]\nlog_level = warn\n", env, flags);
    sources.operator = Some(keys::COMMIT_TRACKER.to_owned());
    Settings::load(sources)
        .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

#[test]
fn the_commit_tracker_reads_the_variables_of_its_original_below_ours() {
    let env = [
        ("TELEMETRY_MODE", "otlp"),
        ("LOG_LEVEL", "TRACE"),
        ("RUNTIME_NAMESPACE", "flux-system"),
        ("METRICS_ADDR", ":1"),
        ("HEALTH_ADDR", ":2"),
        ("GF_COMMIT_TRACKER_HEALTH_ADDRESS", "127.0.0.1:3"),
        ("KUBE_CONTEXT", "kind"),
        ("GITHUB_TOKEN", "$__env{x}"),
    ];
    let settings = tracker(&env, &[("commit_tracker", "metrics_address", "127.0.0.1:4")]).unwrap();
    let (operator, tracker) = (settings.operator(), settings.commit_tracker());
    assert_eq!((&*operator.telemetry_mode, &*operator.log_level), ("otlp", "TRACE"));
    assert_eq!(operator.kubeconfig_context.as_deref(), Some("kind"));
    assert_eq!((&*tracker.metrics_address, &*tracker.health_address), ("127.0.0.1:4", "127.0.0.1:3"));
    let one = |name: &str| Selection::One { namespace: "flux-system".to_owned(), name: name.to_owned() };
    assert_eq!(
        tracker.selection(Some("flux-system")),
        one("kube-manifests-oci-flux-system"),
        "a token that happens to be there says nothing of what is watched"
    );
    assert!(
        matches!(tracker.github(), Some(GithubCredentials::Token(token)) if token.expose_secret() == "$__env{x}")
    );
    let older = ("commit_tracker", "exporter_info", "github");
    let older = self::tracker(&env, &[older]).unwrap();
    let selection = older.commit_tracker().selection(Some("flux-system"));
    assert_eq!(selection, one("kube-manifests-flux-system"), "as the original that asks GitHub");
    assert!(settings.print().contains("; RUNTIME_NAMESPACE"), "{}", settings.print());

    let other = load("", &env);
    assert_eq!(
        (&*other.operator().log_level, &*other.commit_tracker().metrics_address),
        ("info", "[::]:8888")
    );
    assert!(other.commit_tracker().github().is_none());
}

#[test]
fn the_commit_tracker_starts_without_any_setting_as_its_original() {
    let settings = tracker(&[], &[]).unwrap();
    let one =
        Selection::One { namespace: "default".to_owned(), name: "kube-manifests-oci-default".to_owned() };
    assert_eq!(settings.commit_tracker().selection(None), one);
    assert_eq!(settings.operator().telemetry_mode, "stdout-logs");
    settings.require_for(keys::COMMIT_TRACKER).unwrap();
}

#[test]
fn credentials_for_github_that_do_not_go_together_are_named() {
    let app = [("GITHUB_APP_ID", "1"), ("GITHUB_APP_PRIVATE_KEY", "k"), ("GITHUB_APP_INSTALLATION_ID", "2")];
    assert!(matches!(
        tracker(&app, &[]).unwrap().commit_tracker().github(),
        Some(GithubCredentials::App { .. })
    ));
    for missing in 0..3 {
        let half: Vec<_> = (0..3).filter(|index| *index != missing).map(|index| app[index]).collect();
        let error = tracker(&half, &[]).unwrap_err();
        assert!(app.iter().all(|(name, _)| error.contains(name)), "{error}");
        assert!(error.contains(&format!("without {}", app[missing].0)), "{error}");
    }
    let both = tracker(&[app[0], app[1], app[2], ("GITHUB_TOKEN", "t")], &[]).unwrap_err();
    assert!(both.contains("GITHUB_TOKEN") && both.contains("GITHUB_APP_ID"), "{both}");
    let none = tracker(&[("GF_COMMIT_TRACKER_EXPORTER_INFO", "github")], &[]).unwrap_err();
    assert!(none.contains("GITHUB_TOKEN") && none.contains("GITHUB_APP_PRIVATE_KEY"), "{none}");
}

#[test]
fn the_commit_tracker_follows_one_kustomization_or_those_with_labels_or_all() {
    let selection = |key, value| {
        let flags = [("commit_tracker", key, value)];
        tracker(&[], &flags).unwrap().commit_tracker().selection(None)
    };
    let one = Selection::One { namespace: "default".to_owned(), name: "apps".to_owned() };
    assert_eq!(selection("kustomization", "apps"), one);
    assert_eq!(selection("selector", "team=a"), Selection::Labels("team=a".to_owned()));
    assert_eq!(selection("all", "true"), Selection::All);
    let two = [("commit_tracker", "all", "true"), ("commit_tracker", "selector", "a=b")];
    assert!(
        tracker(&[], &two)
            .unwrap_err()
            .contains("`all` in [commit_tracker] section does not go with `selector`")
    );
}
