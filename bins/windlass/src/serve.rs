//! `windlass serve`: the API server and the token exchange alone.
#![expect(clippy::print_stdout, reason = "it says where it listens")]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use secrecy::SecretString;
use windlass_api::repositories::RepositoryRules;
use windlass_api::{GroupResource, ParseGroupResourceError};
use windlass_git::{Git, GitConfig, UrlPolicy};
use windlass_resources::repository::Sources;
use windlass_runtime::{Supervisor, signals};
use windlass_telemetry::{Health, LogFormat, LogOutput};

use crate::server::{Server, ServerOptions};

/// How long requests under way may take at shutdown.
const GRACE: Duration = Duration::from_secs(10);

/// Options of `windlass serve`.
#[derive(clap::Args)]
pub(crate) struct ServeArgs {
    /// Where the API listens (https).
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:6446")]
    api_address: SocketAddr,
    /// Where the token exchange listens (http).
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:6481")]
    exchange_address: SocketAddr,
    /// The folder for the store, the keys and the Git cache.
    #[arg(long, value_name = "DIR", default_value = "windlass-data")]
    data_dir: PathBuf,
    /// Where to write the kubeconfig [default: kubeconfig in the data folder].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// A file with the system token that the exchange accepts; on loopback addresses `ProvisioningAdminToken` works too.
    #[arg(long, value_name = "FILE")]
    system_token_file: Option<PathBuf>,
    /// A name or address that the server's certificate carries, beside localhost; may be given again.
    #[arg(long, value_name = "NAME")]
    tls_name: Vec<String>,
    /// An origin (`scheme://host:port`) that repositories may use although it is plain http, private or local.
    #[arg(long, value_name = "ORIGIN")]
    allow_git_origin: Vec<String>,
    /// A folder that `local` repositories may lie in, as `…/test` checks them; may be given again.
    #[arg(long, value_name = "DIR")]
    local_permitted_prefix: Vec<PathBuf>,
    /// A kind that repositories may write beside folders and dashboards, such as `widgets.example.com`, as operators have
    /// it in `resource_kinds`; may be given again.
    #[arg(long, value_name = "PLURAL.GROUP", value_parser = allowed)]
    resource_kind: Vec<GroupResource>,
    /// The level of the log, or directives such as `info,windlass_apiserver=debug`.
    #[arg(long, value_name = "FILTER", default_value = "info")]
    log_level: String,
    /// `json` or `pretty`.
    #[arg(long, value_name = "FORMAT", default_value = "json")]
    log_format: LogFormat,
}

/// Serves until a signal.
pub(crate) async fn run(args: ServeArgs) -> Result<ExitCode> {
    windlass_telemetry::init(args.log_format, &args.log_level, LogOutput::Stderr)?;
    let kubeconfig = args.kubeconfig.unwrap_or_else(|| args.data_dir.join("kubeconfig"));
    let system_tokens = match &args.system_token_file {
        None => Vec::new(),
        Some(file) => vec![("system".to_owned(), read_secret(file)?)],
    };
    let mut policy = UrlPolicy::default();
    for origin in &args.allow_git_origin {
        policy = policy.allow_origin(origin).context("failed to read --allow-git-origin")?;
    }
    let git = Git::new(GitConfig { policy, ..GitConfig::new(args.data_dir.join("git")) })?;
    let server = Server::open(ServerOptions {
        api: args.api_address,
        exchange: args.exchange_address,
        data: args.data_dir,
        kubeconfig: kubeconfig.clone(),
        system_tokens,
        names: args.tls_name,
        rules: RepositoryRules::default(),
        resource_kinds: args.resource_kind,
    })
    .await?;
    let supervisor = Supervisor::new();
    println!("API server       https://localhost:{}", server.api.port());
    println!("token exchange   http://localhost:{}/sign/access-token", server.exchange.port());
    println!("kubeconfig       {}", kubeconfig.display());
    if let Some(ca) = &server.ca_file {
        println!("authority        {} (tls_ca_file of operators)", ca.display());
    }
    if !server.well_known_token && args.system_token_file.is_none() {
        println!("no system token is accepted on this address: name one with --system-token-file");
    }
    server.start(Sources::new(git, None, args.local_permitted_prefix), &supervisor)?;
    supervisor.run(signals()?, &Health::new(), GRACE).await?;
    Ok(ExitCode::SUCCESS)
}

/// A kind that repositories may write.
fn allowed(text: &str) -> Result<GroupResource, String> {
    let kind: GroupResource = text.parse().map_err(|error: ParseGroupResourceError| error.to_string())?;
    match kind.refusal() {
        None => Ok(kind),
        Some(why) => Err(why.to_owned()),
    }
}

/// A secret from a file, without the line's end.
pub(crate) fn read_secret(file: &std::path::Path) -> Result<SecretString> {
    let text = std::fs::read_to_string(file).with_context(|| format!("failed to read {}", file.display()))?;
    Ok(SecretString::from(text.trim().to_owned()))
}
