//! `windlass demo`: everything in one process, one repository pulled before your eyes, then yours to look around in.

mod follow;
mod hook;
mod remote;
mod sample;
mod screen;
mod story;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use windlass_admission::Provisioning;
use windlass_api::JobState;
use windlass_git::Origin;
use windlass_launch::{Context, job_rules, open_loki, repository_rules};
use windlass_runtime::signals;
use windlass_settings::{Settings, Sources, listen_address};
use windlass_telemetry::{LogFormat, LogOutput, Metrics};

use self::hook::Hook;
use self::remote::Remote;
use self::sample::Sample;
use self::screen::Screen;
use crate::operators::registry;
use crate::server::{Server, ServerOptions};

/// How long everything may take to end after Ctrl-C.
const GRACE: Duration = Duration::from_secs(5);

/// Options of `windlass demo`.
#[derive(clap::Args)]
pub(crate) struct DemoArgs {
    /// Pull this repository instead of the sample.
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// The branch to pull.
    #[arg(long, default_value = "main")]
    branch: String,
    /// The folder inside the repository to pull.
    #[arg(long, value_name = "PATH", default_value = "")]
    path: String,
    /// A file with the access token of a private repository.
    #[arg(long, value_name = "FILE", requires = "url")]
    token_file: Option<PathBuf>,
    /// The user name that goes with the token.
    #[arg(long, value_name = "NAME", requires = "token_file")]
    token_user: Option<String>,
    /// End when the pull has ended, with 0 only if it succeeded.
    #[arg(long)]
    once: bool,
    /// Where the API listens (https).
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:6446", value_parser = listen_address)]
    api_address: String,
    /// Where the token exchange listens (http).
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:6481", value_parser = listen_address)]
    exchange_address: String,
    /// Keep everything in this folder instead of one that is deleted at the end.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The level of the log on standard error, or directives such as `info,windlass_git=debug`.
    #[arg(long, value_name = "FILTER", default_value = "warn")]
    log_level: String,
}

/// Runs the demo until Ctrl-C, or with `--once` until the pull has ended.
pub(crate) async fn run(args: DemoArgs) -> Result<ExitCode> {
    windlass_telemetry::init(
        LogFormat::Pretty { ansi: screen::is_terminal() },
        &args.log_level,
        LogOutput::Stderr,
    )?;
    let mut signals = signals()?;
    let folder = Folder::make(args.data_dir.as_deref())?;
    let screen = Screen::new();
    screen.title("Windlass demo");

    let (sender, pushes) = tokio::sync::mpsc::unbounded_channel();
    // Nobody listens any more once the demo ends.
    let on_push = move || sender.send(Instant::now()).unwrap_or_default();
    let sample = match &args.url {
        Some(_) => None,
        None => Some(Sample::serve(&folder.path().join("sample"), &args.branch, on_push).await?),
    };
    let remote = match (&args.url, &sample) {
        (Some(url), _) => Remote {
            name: "demo".to_owned(),
            title: "Your repository".to_owned(),
            url: url.clone(),
            branch: args.branch.clone(),
            path: args.path.clone(),
            token: args.token_file.as_deref().map(crate::serve::read_secret).transpose()?,
            token_user: args.token_user.clone(),
            writable: false,
            hook: None,
        },
        (None, Some(sample)) => Remote::sample(sample, args.branch.clone(), args.path.clone()),
        (None, None) => bail!("there is nothing to pull"),
    };
    let origin = remote.origin()?;
    let (context, ports, authority) = set_up(&args, folder.path(), &origin, &screen).await?;
    if let Some(sample) = &sample {
        screen.done("sample repository", &format!("{}  ({} files)", sample.url(), sample::FILES.len()));
    }
    start_operators(&context, &screen);

    let supervisor = context.supervisor.clone();
    let health = context.health.clone();
    let story = story::tell(&context, &remote, &screen);
    let ended = tokio::select! {
        ended = story => ended.map(Some),
        task = supervisor.ended() => Err(anyhow::Error::new(task)),
        _signal = futures::StreamExt::next(&mut signals) => Ok(None),
    };
    let code = match ended {
        Ok(Some(state)) => {
            if !args.once {
                let credentials = folder.path().join("git-credentials");
                if let Some(sample) = &sample {
                    sample.write_credentials(&credentials)?;
                }
                if let (Some(sample), Some(secret), Some(authority)) = (&sample, &remote.hook, authority) {
                    hook::listen(&context, &remote).await?;
                    let hook = Hook {
                        url: Hook::url(ports[0], &remote.name),
                        authority,
                        secret: secret.clone(),
                        bare: sample.path().to_owned(),
                        branch: args.branch.clone(),
                    };
                    let stop = supervisor.token().clone();
                    supervisor.spawn(
                        "webhook of the sample",
                        hook.run(Arc::clone(&context), pushes, Screen::new(), stop),
                    );
                }
                let sample = sample.as_ref().map(|sample| (sample, credentials.as_path()));
                screen.go_on(&remote, &folder.path().join("kubeconfig"), sample, ports);
                supervisor.run(signals, &health, GRACE).await?;
                return Ok(exit_code(state));
            }
            exit_code(state)
        }
        Ok(None) => ExitCode::from(130),
        Err(error) => {
            supervisor.shutdown(GRACE).await?;
            return Err(error);
        }
    };
    supervisor.shutdown(GRACE).await?;
    Ok(code)
}

fn exit_code(state: JobState) -> ExitCode {
    if state == JobState::Success { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The context of the operators, the ports of the API server and the token exchange beneath it, and whose certificate the
/// API server shows.
async fn set_up(
    args: &DemoArgs,
    folder: &Path,
    origin: &Origin,
    screen: &Screen,
) -> Result<(Arc<Context>, [u16; 2], Option<PathBuf>)> {
    let flags = vec![("operator".to_owned(), "allowed_git_origins".to_owned(), origin.to_string())];
    let settings = Settings::load(Sources { config: None, env: Vec::new(), flags, operator: None }).map_err(
        |errors| anyhow::anyhow!("{}", errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")),
    )?;
    let metrics = Metrics::new()?;
    let server = Server::open(ServerOptions {
        api: args.api_address.clone(),
        exchange: args.exchange_address.clone(),
        data: folder.join("server"),
        begin_anew: false,
        kubeconfig: folder.join("kubeconfig"),
        system_tokens: Vec::new(),
        well_known_token: true,
        namespaces_must_exist: false,
        names: Vec::new(),
        rules: Provisioning { repositories: repository_rules(&settings), jobs: job_rules(&settings) },
        resource_kinds: Vec::new(),
        loki: open_loki(&settings)?,
        accept_sha1: settings.operator().webhook_accept_sha1,
        audit: None,
        metrics: metrics.clone(),
    })
    .await?;
    let context = Arc::new(Context::new(settings, server.clients.clone(), &folder.join("git"), metrics)?);
    let (ports, authority) = ([server.api.port(), server.exchange.port()], server.ca_file.clone());
    screen.done("API server", &format!("https://localhost:{}", ports[0]));
    screen.done("token exchange", &format!("http://localhost:{}/sign/access-token", ports[1]));
    server.start(context.opener.clone(), context.spans.clone(), &context.supervisor)?;
    Ok((context, ports, authority))
}

fn start_operators(context: &Arc<Context>, screen: &Screen) {
    let registry = registry();
    let names = ["provisioning-jobs", "provisioning-repo"];
    for name in names {
        match registry.make(name) {
            Ok(operator) => context.supervisor.spawn(name, operator.run(Arc::clone(context))),
            Err(error) => tracing::error!(%error, "an operator is missing from this program"),
        }
    }
    screen.done("operators", &names.join(", "));
}

/// Where the demo keeps things: a folder of the user's, or one that goes with the demo.
enum Folder {
    Kept(PathBuf),
    Temporary(tempfile::TempDir),
}

impl Folder {
    fn make(kept: Option<&Path>) -> Result<Self> {
        match kept {
            Some(path) => {
                std::fs::create_dir_all(path)
                    .with_context(|| format!("failed to make {}", path.display()))?;
                Ok(Self::Kept(std::path::absolute(path)?))
            }
            None => {
                let folder = tempfile::Builder::new().prefix("windlass-demo-").tempdir();
                Ok(Self::Temporary(folder.context("failed to make a temporary folder")?))
            }
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::Kept(path) => path,
            Self::Temporary(folder) => folder.path(),
        }
    }
}
