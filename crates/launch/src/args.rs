//! The flags of operator binaries.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "settings are printed when that was asked for, and what is wrong with them before logs are set up"
)]

use std::path::PathBuf;
use std::process::ExitCode;

use windlass_settings::{Settings, Sources};

/// The exit code for settings and flags that make no sense.
pub(crate) const USAGE: u8 = 2;

/// How a program is started: its settings file, and what the command line says beside it.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// The settings file.
    pub config: Option<PathBuf>,
    /// Print the settings in force, and end.
    pub print_config: bool,
    /// Section, key and value of each flag; of two for one key the last counts.
    pub settings: Vec<(String, String, String)>,
    /// What is to be logged of the command line.
    pub notices: Vec<String>,
}

impl Start {
    /// The settings in force, of an operator if one is started.
    ///
    /// # Errors
    /// The exit code with which the process ends: what is wrong was printed, or, as it was asked for, the settings were.
    pub fn settings(
        self,
        environment: impl IntoIterator<Item = (String, String)>,
        operator: Option<String>,
    ) -> Result<Settings, ExitCode> {
        let sources = Sources { config: self.config, env: environment, flags: self.settings, operator };
        match Settings::load(sources) {
            Ok(settings) if self.print_config => {
                print!("{}", settings.print());
                Err(ExitCode::SUCCESS)
            }
            Ok(settings) => Ok(settings),
            Err(errors) => {
                for error in errors {
                    eprintln!("error: {}", windlass_telemetry::ErrorChain(&error));
                }
                Err(ExitCode::from(USAGE))
            }
        }
    }
}

/// The variables of this process whose names and values are text.
pub fn environment() -> Vec<(String, String)> {
    std::env::vars_os()
        .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// Flags of every program that has settings.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct SettingsFlags {
    /// The settings file, such as conf/operator.ini.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print every setting in force and where it came from, secrets redacted, and end.
    #[arg(long)]
    pub print_config: bool,
    /// Override one setting; may be given again.
    #[arg(long = "set", value_name = "SECTION.KEY=VALUE", value_parser = assignment)]
    pub set: Vec<(String, String, String)>,
}

impl SettingsFlags {
    /// These flags together with those that a program has beside them, as section, key and value.
    pub fn start<'a>(self, others: impl IntoIterator<Item = (&'a str, &'a str, Option<String>)>) -> Start {
        let flags = others
            .into_iter()
            .filter_map(|(section, key, value)| Some((section.to_owned(), key.to_owned(), value?)));
        Start {
            config: self.config,
            print_config: self.print_config,
            settings: self.set.into_iter().chain(flags).collect(),
            notices: Vec::new(),
        }
    }
}

/// Flags that every program which runs an operator takes.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct CommonFlags {
    /// Flags of every program that has settings.
    #[command(flatten)]
    pub settings: SettingsFlags,
    /// A kubeconfig to reach the API server with, instead of a token exchange.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The one namespace to watch and work in, instead of all.
    #[arg(long, value_name = "NAME")]
    pub namespace: Option<String>,
}

impl CommonFlags {
    /// These flags together with those that a program has beside them, as section, key and value.
    pub fn start<'a>(self, others: impl IntoIterator<Item = (&'a str, &'a str, Option<String>)>) -> Start {
        let kubeconfig = self.kubeconfig.as_ref().map(|path| path.display().to_string());
        let own = [("operator", "kubeconfig", kubeconfig), ("operator", "namespace", self.namespace)];
        self.settings.start(others.into_iter().chain(own))
    }
}

/// Flags of the operators of repositories and jobs.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct OperatorArgs {
    /// Flags that every program which runs an operator takes.
    #[command(flatten)]
    pub common: CommonFlags,
    /// The context of the kubeconfig, instead of its current one.
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// Flags of the stand-alone controllers.
    #[command(flatten)]
    pub legacy: LegacyFlags,
}

/// The flags that Grafana's stand-alone controllers have; each is a setting under another name.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct LegacyFlags {
    /// The system token that is presented to the token exchange.
    #[arg(long, value_name = "TOKEN")]
    pub token: Option<String>,
    /// The token exchange's URL.
    #[arg(long, value_name = "URL")]
    pub token_exchange_url: Option<String>,
    /// The API server's URL.
    #[arg(long, value_name = "URL")]
    pub provisioning_server_url: Option<String>,
    /// The age at which finished jobs are deleted, such as 30m; 0 keeps them.
    #[arg(long, value_name = "DURATION")]
    pub history_expiration: Option<String>,
    /// Accept any server certificate.
    #[arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    pub tls_insecure: Option<String>,
    /// A client certificate, PEM; goes with --tls-key-file.
    #[arg(long, value_name = "FILE")]
    pub tls_cert_file: Option<String>,
    /// The client certificate's key, PEM.
    #[arg(long, value_name = "FILE")]
    pub tls_key_file: Option<String>,
    /// The authorities that server certificates are verified against, PEM.
    #[arg(long, value_name = "FILE")]
    pub tls_ca_file: Option<String>,
}

impl From<OperatorArgs> for Start {
    fn from(args: OperatorArgs) -> Self {
        let legacy = args.legacy;
        args.common.start([
            ("grpc_client_authentication", "token", legacy.token),
            ("grpc_client_authentication", "token_exchange_url", legacy.token_exchange_url),
            ("operator", "provisioning_server_url", legacy.provisioning_server_url),
            ("operator", "history_expiration", legacy.history_expiration),
            ("operator", "tls_insecure", legacy.tls_insecure),
            ("operator", "tls_cert_file", legacy.tls_cert_file),
            ("operator", "tls_key_file", legacy.tls_key_file),
            ("operator", "tls_ca_file", legacy.tls_ca_file),
            ("operator", "kubeconfig_context", args.context),
        ])
    }
}

fn assignment(text: &str) -> Result<(String, String, String), String> {
    let parsed = text.split_once('=').and_then(|(name, value)| {
        let (section, key) = name.rsplit_once('.')?;
        Some((section.trim().to_owned(), key.trim().to_owned(), value.trim().to_owned()))
    });
    parsed.ok_or_else(|| "expected SECTION.KEY=VALUE, such as operator.concurrent_drivers=5".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assignment_has_section_key_and_value() {
        let parsed = assignment("operator.job_interval=5s").unwrap();
        assert_eq!(parsed, ("operator".to_owned(), "job_interval".to_owned(), "5s".to_owned()));
        assert!(assignment("job_interval=5s").unwrap_err().contains("SECTION.KEY=VALUE"));
    }
}
