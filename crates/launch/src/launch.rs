//! From the command line to a running operator, and to its orderly end.
#![expect(clippy::print_stderr, reason = "before logs are set up")]

use std::future::poll_fn;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::Runtime;
use windlass_runtime::{BoxError, Definitions, Registry, signals};
use windlass_settings::Settings;
use windlass_telemetry::{
    Collector, ComponentHandle, ErrorChain, LogFormat, LogOutput, Metrics, Telemetry, TelemetryError,
    TelemetryOptions,
};

use crate::args::{Start, USAGE, environment};
use crate::context::{self, Context, ContextError};
use crate::needs::Needs;

/// How long tasks may take to end beyond the longest job.
const GRACE: Duration = Duration::from_secs(30);
/// How long telemetry that is still waiting may take to reach its collector at the end.
pub const FLUSH: Duration = Duration::from_secs(5);

/// What has to be set for a whole process before its first thread: libgit2's options, the TLS provider; then the
/// threads.
///
/// # Errors
/// Anything that fails here leaves a process that cannot work.
pub fn process_setup() -> Result<Runtime, BoxError> {
    bound_arenas();
    windlass_git::init_process()?;
    windlass_auth::install_crypto_provider()?;
    raise_open_files();
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

/// As many heaps as there are processors. The C library would take eight times as many, one for each thread that blocks,
/// and what is freed in one of them is not used again by the others.
#[cfg_attr(
    all(target_os = "linux", target_env = "gnu"),
    expect(unsafe_code, reason = "the C library's own knob, which has no safe form")
)]
fn bound_arenas() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    if std::env::var_os("MALLOC_ARENA_MAX").is_none() {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        // SAFETY: it sets a number. There is no other thread yet.
        unsafe { libc::mallopt(libc::M_ARENA_MAX, i32::try_from(processors).unwrap_or(i32::MAX)) };
    }
}

/// Allows as many open files, and with them connections, as the system lets this process have: by default it would have
/// 1,024, fewer than the connections that a server takes.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        // It stays as it was if it cannot be raised.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
}

/// A binary's operators, and how one of them is started.
pub struct Launch {
    registry: Registry<Context>,
    version: &'static str,
    default: Option<&'static str>,
    needs: Vec<(&'static str, Needs)>,
}

impl Launch {
    /// The operators of a binary of this version that wants to be told which one to run.
    pub fn new(registry: Registry<Context>, version: &'static str) -> Self {
        Self { registry, version, default: None, needs: Vec::new() }
    }

    /// Runs this operator when the environment names none.
    #[must_use]
    pub fn or_else(mut self, name: &'static str) -> Self {
        self.default = Some(name);
        self
    }

    /// Says what the operator of this name needs of its process; without, it needs what [`Needs::default`] says.
    #[must_use]
    pub fn needs(mut self, name: &'static str, needs: Needs) -> Self {
        self.needs.push((name, needs));
        self
    }

    /// Runs the operator that `GF_OPERATOR_NAME` names until a signal, and answers the process's exit code.
    pub fn run(self, runtime: &Runtime, start: impl Into<Start>) -> ExitCode {
        let mut start: Start = start.into();
        let notices = std::mem::take(&mut start.notices);
        let environment = environment();
        let name = self.operator_name(&environment);
        let settings = match start.settings(environment, name.clone().ok()) {
            Ok(settings) => settings,
            Err(code) => return code,
        };
        let name = match name {
            Ok(name) => name,
            Err(why) => return refused(&why),
        };
        let operator = match self.registry.make(&name) {
            Ok(operator) => operator,
            Err(unknown) => return refused(&format!("{unknown}; set GF_OPERATOR_NAME")),
        };
        if let Err(errors) = settings.require_for(&name) {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            return refused(&errors.join("\nerror: "));
        }
        // Connections to a collector live on the runtime.
        let entered = runtime.enter();
        let telemetry = match start_telemetry(&settings, &name, LogOutput::Stdout) {
            Ok(telemetry) => telemetry,
            Err(error) => return refused(&ErrorChain(&error).to_string()),
        };
        drop(entered);
        let needs = self.needs.iter().find(|(known, _)| *known == name).map(|(_, needs)| *needs);
        let needs = needs.unwrap_or_default();
        let (metrics, spans) = (telemetry.metrics(), telemetry.spans());
        for notice in settings.notices() {
            tracing::info!(notice, "settings");
        }
        for notice in notices {
            tracing::warn!(notice, "command line");
        }
        let ended = runtime.block_on(async {
            // First of all: from here on a signal ends it in order.
            let stop = signals()?;
            let context = Arc::new(Context { spans, ..connect(settings, needs, metrics).await? });
            let starting = context.health.component(name.as_str());
            (needs.listeners)(&context.settings).serve(&context).await?;
            tracing::info!(operator = name, version = self.version, "starting");
            if !needs.kubernetes && context.is_on_kubernetes() {
                let definitions =
                    Definitions::new(context.clients.provisioning.clone(), &windlass_api::crds::all());
                let token = context.supervisor.token().clone();
                context.supervisor.spawn("definitions", definitions.run(context.health.clone(), token));
            }
            context.supervisor.spawn(name, until_started(operator.run(Arc::clone(&context)), starting));
            context.supervisor.run(stop, &context.health, GRACE).await.map_err(BoxError::from)
        });
        let code = match ended {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                // Once: logs are set up, and are where whoever runs an operator looks.
                tracing::error!(error = %ErrorChain(&*error), "ended");
                match error.downcast_ref::<ContextError>() {
                    // Nothing was sent yet: what was said about the server makes no sense.
                    Some(ContextError::Connect(_) | ContextError::NoCluster) => ExitCode::from(USAGE),
                    _ => ExitCode::FAILURE,
                }
            }
        };
        runtime.block_on(telemetry.shutdown(FLUSH));
        code
    }

    /// The operator that is asked for: by `GF_OPERATOR_NAME`, with `GF_DEFAULT_TARGET` saying that one is.
    fn operator_name(&self, environment: &[(String, String)]) -> Result<String, String> {
        let value = |wanted: &str| {
            environment
                .iter()
                .find(|(key, _)| key == wanted)
                .map(|(_, value)| value.as_str())
                .filter(|v| !v.is_empty())
        };
        if let Some(target) = value("GF_DEFAULT_TARGET")
            && target != "operator"
        {
            return Err(format!(
                "GF_DEFAULT_TARGET is {target:?}; this program runs operators only: set it to \"operator\""
            ));
        }
        match (value("GF_OPERATOR_NAME"), self.default) {
            (Some(name), _) => Ok(name.to_owned()),
            (None, Some(default)) => Ok(default.to_owned()),
            (None, None) => Err(format!(
                "no operator was named: set GF_OPERATOR_NAME to one of: {}",
                self.registry.names().join(", ")
            )),
        }
    }
}

/// Runs an operator, and releases `starting` after its first poll: in it the operator's parts register their own health,
/// and until then the process would look ready.
async fn until_started<T>(run: impl Future<Output = T>, starting: ComponentHandle) -> T {
    let mut run = pin!(run);
    let first = poll_fn(|context| Poll::Ready(run.as_mut().poll(context))).await;
    drop(starting);
    match first {
        Poll::Ready(ended) => ended,
        Poll::Pending => run.await,
    }
}

fn refused(why: &str) -> ExitCode {
    eprintln!("error: {why}");
    ExitCode::from(USAGE)
}

/// Telemetry as the settings have it, of a process of this name whose log lines go there; within a runtime, on which
/// connections to a collector live.
///
/// # Errors
/// A setting makes no sense, or the collector's address or certificates do not.
pub fn start_telemetry(
    settings: &Settings,
    service: &str,
    output: LogOutput,
) -> Result<Telemetry, TelemetryError> {
    let operator = settings.operator();
    let terminal = match output {
        LogOutput::Stdout => std::io::stdout().is_terminal(),
        LogOutput::Stderr => std::io::stderr().is_terminal(),
    };
    Telemetry::start(&TelemetryOptions {
        // Settings take the names of the modes only; a test holds that they are the same.
        mode: operator.telemetry_mode.parse().unwrap_or_default(),
        format: log_format(settings, terminal),
        filter: operator.log_level.clone(),
        output,
        collector: Collector {
            endpoint: operator.telemetry_endpoint.clone(),
            insecure: operator.telemetry_insecure,
        },
        service: service.to_owned(),
        version: env!("CARGO_PKG_VERSION"),
        exponential: &[],
    })
}

/// The form of log lines that go to a terminal or elsewhere.
pub fn log_format(settings: &Settings, terminal: bool) -> LogFormat {
    match settings.operator().log_format {
        windlass_settings::LogFormat::Pretty => LogFormat::Pretty { ansi: terminal },
        windlass_settings::LogFormat::Auto if terminal => LogFormat::Pretty { ansi: true },
        windlass_settings::LogFormat::Auto | windlass_settings::LogFormat::Json => LogFormat::Json,
    }
}

async fn connect(settings: Settings, needs: Needs, metrics: Metrics) -> Result<Context, BoxError> {
    let clients = if needs.kubernetes {
        context::connect_cluster(&settings).await?
    } else {
        context::connect(&settings).await?
    };
    Ok(Context::new(settings, clients, &default_cache(), metrics)?)
}

/// Where Git objects are cached when no setting says: in the user's cache folder, or else among temporary files.
fn default_cache() -> PathBuf {
    let named =
        |variable: &str| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    named("XDG_CACHE_HOME")
        .or_else(|| named("HOME").map(|home| home.join(".cache")))
        .unwrap_or_else(std::env::temp_dir)
        .join("windlass/git")
}

#[cfg(test)]
mod tests {
    use rustix::process::{Resource, getrlimit};
    use windlass_telemetry::TelemetryMode;

    #[test]
    fn as_many_files_may_be_open_as_the_system_allows() {
        super::raise_open_files();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
    }

    #[test]
    fn settings_take_the_names_of_the_telemetry_modes() {
        assert_eq!(windlass_settings::TELEMETRY_MODES, TelemetryMode::NAMES);
    }
}
