//! Where records of finished jobs are kept, as the settings have it.

use windlass_http_client::{SetUpError, Tls, is_loopback};
use windlass_loki::{Loki, LokiError, LokiOptions};
use windlass_settings::Settings;
use windlass_telemetry::ExposeSecret as _;

/// Why Loki cannot be used as the settings have it.
#[derive(Debug, thiserror::Error)]
pub enum LokiSettingsError {
    /// It is no URL.
    #[error("loki_url in [provisioning] section is no http or https URL")]
    Url,
    /// Whoever is on the way could read and change what is sent.
    #[error(
        "loki_url in [provisioning] section is plain http on another machine: use https, or set loki_plain_http = true"
    )]
    PlainHttp,
    /// Whoever is on the way could read the password.
    #[error(
        "loki_user and loki_password in [provisioning] section are not sent over plain http to another machine: use https"
    )]
    PlainCredentials,
    /// The certificates cannot be used.
    #[error("failed to use loki_ca_file in [provisioning] section")]
    Certificates(#[source] SetUpError),
    /// There can be no client.
    #[error("failed to make a client")]
    Client(#[source] LokiError),
}

/// The client of Loki, if records of finished jobs are kept there.
///
/// # Errors
/// [`LokiSettingsError`].
pub fn open_loki(settings: &Settings) -> Result<Option<Loki>, LokiSettingsError> {
    let settings = settings.provisioning();
    if settings.loki_url.is_empty() {
        return Ok(None);
    }
    let url: url::Url = settings.loki_url.parse().map_err(|_| LokiSettingsError::Url)?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(LokiSettingsError::Url);
    }
    let (user, password) = (settings.loki_user.clone(), settings.loki_password.clone());
    if url.scheme() == "http" && !is_loopback(&url) {
        if !settings.loki_plain_http {
            return Err(LokiSettingsError::PlainHttp);
        }
        if !user.is_empty() || !password.expose_secret().is_empty() {
            return Err(LokiSettingsError::PlainCredentials);
        }
    }
    let tls = settings.loki_ca_file.as_deref().map(Tls::of_bundle).transpose();
    let tls = tls.map_err(LokiSettingsError::Certificates)?.unwrap_or_default();
    let options = LokiOptions {
        url,
        user,
        password,
        tenant: settings.loki_tenant_id.clone(),
        tls,
        lookback: settings.loki_lookback,
    };
    Loki::new(options).map(Some).map_err(LokiSettingsError::Client)
}

#[cfg(test)]
mod tests {
    use windlass_settings::Sources;

    use super::*;

    fn open(values: &[(&str, &str)]) -> Result<Option<Loki>, LokiSettingsError> {
        let flag =
            |(key, value): &(&str, &str)| ("provisioning".to_owned(), (*key).to_owned(), (*value).to_owned());
        let flags = values.iter().map(flag).collect();
        let sources: Sources = Sources { flags, ..Sources::default() };
        open_loki(&Settings::load(sources).unwrap())
    }

    #[test]
    fn credentials_go_over_https_or_to_this_machine_alone() {
        let refused = |values: &[(&str, &str)]| open(values).unwrap_err().to_string();
        assert!(open(&[]).unwrap().is_none());
        assert!(open(&[("loki_url", "https://loki.example"), ("loki_user", "me")]).unwrap().is_some());
        assert!(open(&[("loki_url", "http://127.0.0.1:3100"), ("loki_password", "x")]).unwrap().is_some());
        assert!(refused(&[("loki_url", "http://loki.example")]).contains("loki_plain_http"));
        let plain = [("loki_url", "http://loki.example"), ("loki_plain_http", "true")];
        assert!(open(&plain).unwrap().is_some());
        let with_password = [&plain[..], &[("loki_password", "canary")]].concat();
        let text = refused(&with_password);
        assert!(text.contains("loki_password") && !text.contains("canary"), "{text}");
    }
}
