//! `windlass serve`: the API server and the token exchange alone.
#![expect(clippy::print_stdout, reason = "it says where it listens")]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use secrecy::SecretString;
use windlass_admission::Provisioning;
use windlass_apiserver::AuditOptions;
use windlass_auth::{Audiences, Rights, SystemToken};
use windlass_launch::{
    FLUSH, Listener, SettingsFlags, environment, job_rules, open_git, open_loki, open_repositories,
    repository_rules, start_telemetry,
};
use windlass_runtime::{Supervisor, signals};
use windlass_settings::listen_address;
use windlass_telemetry::{Health, LogOutput};

use crate::server::{Server, ServerOptions};

/// How long requests under way may take at shutdown.
const GRACE: Duration = Duration::from_secs(10);

/// Options of `windlass serve`.
#[derive(clap::Args)]
pub(crate) struct ServeArgs {
    /// Where the API listens (https).
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:6446", value_parser = listen_address)]
    api_address: String,
    /// Where the token exchange listens: http on loopback addresses, https on others.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:6481", value_parser = listen_address)]
    exchange_address: String,
    /// Where `/metrics`, `/livez` and `/readyz` are served (http): `serve_metrics_address` of the settings; nowhere unless set.
    #[arg(long, value_name = "HOST:PORT", value_parser = listen_address)]
    metrics_address: Option<String>,
    /// The folder for the store, the keys and the Git cache.
    #[arg(long, value_name = "DIR", default_value = "windlass-data")]
    data_dir: PathBuf,
    /// Begin with an empty store where the keys of another are, or with a new sealing key where there is a store: what
    /// Secrets hold is then lost. Otherwise both are refused.
    #[arg(long)]
    begin_anew: bool,
    /// Where to write the kubeconfig [default: kubeconfig in the data folder].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// A file with the system token that the exchange accepts.
    #[arg(long, value_name = "FILE")]
    system_token_file: Option<PathBuf>,
    /// A file with further system tokens, YAML: a list of `name`, `tokenFile`, and what they are limited to: `audiences`,
    /// `namespaces`, `verbs`, `resources`.
    #[arg(long, value_name = "FILE")]
    system_tokens: Option<PathBuf>,
    /// Accept the system token `ProvisioningAdminToken`, which everybody knows, while the exchange listens on a loopback
    /// address: for development.
    #[arg(long)]
    well_known_token: bool,
    /// Refuse to create anything in a namespace that there is not, as a real API server does.
    #[arg(long)]
    namespaces_must_exist: bool,
    /// Write a line of JSON for each request to this file: who, what, when, and the outcome.
    #[arg(long, value_name = "FILE")]
    audit_log: Option<PathBuf>,
    /// How large that file may become before it is put aside, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 100, requires = "audit_log")]
    audit_log_max_size: u64,
    /// How many of those files are kept beside it.
    #[arg(long, value_name = "COUNT", default_value_t = 10, requires = "audit_log")]
    audit_log_max_backups: u32,
    /// A name or address that the server's certificate carries, beside localhost; may be given again.
    #[arg(long, value_name = "NAME")]
    tls_name: Vec<String>,
    /// An origin (`scheme://host:port`) that repositories may use although it is plain http, private or local.
    /// `allowed_git_origins` of the settings; may be given again.
    #[arg(long, value_name = "ORIGIN")]
    allow_git_origin: Vec<String>,
    /// Certificates that Git servers' are checked against beside the system's, PEM: `git_ca_file` of the settings.
    #[arg(long, value_name = "FILE")]
    git_ca_file: Option<String>,
    /// A folder that `local` repositories may lie in, as `…/test` checks them: `local_permitted_prefixes` of the settings;
    /// may be given again.
    #[arg(long, value_name = "DIR")]
    local_permitted_prefix: Vec<String>,
    /// A kind that repositories may write beside folders and dashboards, such as `widgets.example.com`: `resource_kinds` of
    /// the settings; may be given again.
    #[arg(long, value_name = "PLURAL.GROUP")]
    resource_kind: Vec<String>,
    /// The level of the log, or directives such as `info,windlass_apiserver=debug`.
    #[arg(long, value_name = "FILTER")]
    log_level: Option<String>,
    /// `json`, `pretty`, or `auto`: `pretty` on a terminal.
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// Settings: repositories are checked and read with the ones that the operators have.
    #[command(flatten)]
    settings: SettingsFlags,
}

/// Serves until a signal.
pub(crate) async fn run(args: ServeArgs) -> Result<ExitCode> {
    let list = |items: Vec<String>| (!items.is_empty()).then(|| items.join("|"));
    let start = args.settings.start([
        ("operator", "allowed_git_origins", list(args.allow_git_origin)),
        ("operator", "git_ca_file", args.git_ca_file),
        ("operator", "serve_metrics_address", args.metrics_address),
        ("operator", "local_permitted_prefixes", list(args.local_permitted_prefix)),
        ("provisioning", "resource_kinds", list(args.resource_kind)),
        ("operator", "log_level", args.log_level),
        ("operator", "log_format", args.log_format),
    ]);
    let settings = match start.settings(environment(), None) {
        Ok(settings) => settings,
        Err(code) => return Ok(code),
    };
    let operator = settings.operator();
    let telemetry = start_telemetry(&settings, "windlass", LogOutput::Stderr)?;
    let (metrics, spans) = (telemetry.metrics(), telemetry.spans());
    for notice in settings.notices() {
        tracing::info!(notice, "settings");
    }
    let kubeconfig = args.kubeconfig.unwrap_or_else(|| args.data_dir.join("kubeconfig"));
    let mut system_tokens = match &args.system_token_file {
        None => Vec::new(),
        Some(file) => vec![SystemToken::admin("system", read_secret(file)?)],
    };
    let has_tokens = args.system_token_file.is_some() || args.system_tokens.is_some();
    if let Some(file) = &args.system_tokens {
        system_tokens.extend(read_tokens(file)?);
    }
    let git = open_git(&settings, &args.data_dir.join("git"), Some(&metrics))
        .context("failed to set up Git access")?;
    let opener = open_repositories(&settings, git, &metrics).context("failed to set up Git access")?;
    let server = Server::open(ServerOptions {
        api: args.api_address,
        exchange: args.exchange_address,
        data: args.data_dir,
        begin_anew: args.begin_anew,
        kubeconfig: kubeconfig.clone(),
        system_tokens,
        well_known_token: args.well_known_token,
        namespaces_must_exist: args.namespaces_must_exist,
        names: args.tls_name,
        rules: Provisioning { repositories: repository_rules(&settings), jobs: job_rules(&settings) },
        resource_kinds: settings.provisioning().resource_kinds.clone(),
        loki: open_loki(&settings)?,
        accept_sha1: settings.operator().webhook_accept_sha1,
        metrics: metrics.clone(),
        audit: args.audit_log.map(|path| AuditOptions {
            path,
            max_bytes: args.audit_log_max_size.saturating_mul(1 << 20),
            keep: args.audit_log_max_backups,
        }),
    })
    .await?;
    let supervisor = Supervisor::new();
    println!("API server       https://localhost:{}", server.api.port());
    let scheme = if server.exchange.ip().is_loopback() { "http" } else { "https" };
    println!("token exchange   {scheme}://localhost:{}/sign/access-token", server.exchange.port());
    println!("kubeconfig       {}", kubeconfig.display());
    if let Some(ca) = &server.ca_file {
        println!("authority        {} (tls_ca_file of operators)", ca.display());
    }
    if !server.well_known_token && !has_tokens {
        println!("no system token is accepted: name one with --system-token-file");
    }
    let health = Health::new();
    let store = server.store.clone();
    health.check("store", move || store.problem());
    server.start(opener, spans, &supervisor)?;
    let scraped = Listener {
        address: operator.serve_metrics_address.clone(),
        setting: "[operator] serve_metrics_address, or --metrics-address,",
    };
    let answers = windlass_telemetry::router(health.clone(), metrics);
    scraped
        .serve(&supervisor, "metrics and health", answers)
        .await
        .map_err(|error| anyhow::anyhow!(error))?;
    let ended = supervisor.run(signals()?, &health, GRACE).await;
    telemetry.shutdown(FLUSH).await;
    ended?;
    Ok(ExitCode::SUCCESS)
}

/// One entry of the file of system tokens. What is left out is not limited.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TokenEntry {
    name: String,
    /// The file that the token stands in; a relative path begins at this file's folder.
    token_file: PathBuf,
    #[serde(default)]
    audiences: BTreeSet<String>,
    #[serde(default)]
    namespaces: Vec<String>,
    #[serde(default)]
    verbs: BTreeSet<String>,
    #[serde(default)]
    resources: BTreeSet<String>,
}

fn read_tokens(file: &std::path::Path) -> Result<Vec<SystemToken>> {
    let failed = || format!("failed to read {}", file.display());
    let text = std::fs::read_to_string(file).with_context(failed)?;
    let entries: serde_json::Value = windlass_api::yaml::parse(&text).with_context(failed)?;
    let entries: Vec<TokenEntry> = serde_json::from_value(entries).with_context(failed)?;
    let folder = file.parent().unwrap_or(file);
    let token = |entry: TokenEntry| {
        let audiences = entry.audiences;
        Ok(SystemToken {
            token: read_secret(&folder.join(entry.token_file))?,
            name: entry.name,
            allowed_audiences: if audiences.is_empty() { Audiences::All } else { Audiences::Some(audiences) },
            namespaces: if entry.namespaces.is_empty() { vec!["*".to_owned()] } else { entry.namespaces },
            rights: Rights { verbs: entry.verbs, resources: entry.resources },
        })
    };
    entries.into_iter().map(token).collect()
}

/// A secret from a file, without the line's end.
pub(crate) fn read_secret(file: &std::path::Path) -> Result<SecretString> {
    let text = std::fs::read_to_string(file).with_context(|| format!("failed to read {}", file.display()))?;
    Ok(SecretString::from(text.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;

    fn read(text: &str) -> Result<Vec<SystemToken>> {
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("reader.token"), "of-the-reader\n")?;
        std::fs::write(folder.path().join("tokens.yaml"), text)?;
        read_tokens(&folder.path().join("tokens.yaml"))
    }

    #[test]
    fn a_file_of_system_tokens_limits_each_to_what_it_says_and_nothing_more() {
        let text = "\
- name: reader
  tokenFile: reader.token
  audiences: [provisioning.grafana.app]
  namespaces: [team-a, team-b]
  verbs: [get, list, watch]
  resources: [repositories, jobs]
- {name: whole, tokenFile: reader.token}
";
        let tokens = read(text).unwrap();
        assert_eq!(tokens.len(), 2);
        let (reader, whole) = (&tokens[0], &tokens[1]);
        assert_eq!((reader.name.as_str(), reader.token.expose_secret()), ("reader", "of-the-reader"));
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        assert!(
            matches!(&reader.allowed_audiences, Audiences::Some(some) if *some == set(&["provisioning.grafana.app"]))
        );
        assert_eq!(reader.namespaces, ["team-a", "team-b"]);
        assert_eq!(reader.rights.verbs, set(&["get", "list", "watch"]));
        assert_eq!(reader.rights.resources, set(&["repositories", "jobs"]));
        assert!(matches!(whole.allowed_audiences, Audiences::All));
        assert_eq!(whole.namespaces, ["*"]);
        assert!(whole.rights.verbs.is_empty() && whole.rights.resources.is_empty());
    }

    #[test]
    fn a_limit_that_is_misspelt_is_an_error_and_no_token_without_limits() {
        for text in [
            "- {name: a, tokenFile: reader.token, verb: [get]}",
            "- {name: a, tokenFile: none.token}",
            "- {name: a}",
            "name: a",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
