//! Clients of kubeconfigs that come from somebody else: they may name neither programs nor files of ours.

use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use secrecy::{ExposeSecret as _, SecretString};

use crate::{ProvisionError, Reason};

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);

pub(super) async fn client(kubeconfig: &SecretString) -> Result<Client, ProvisionError> {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig.expose_secret())
        .map_err(|error| invalid("it cannot be read").caused_by(error))?;
    if let Some(why) = forbidden(&kubeconfig) {
        return Err(invalid(why));
    }
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(|error| invalid("its context, cluster or user is not there").caused_by(error))?;
    config.connect_timeout = Some(CONNECT);
    // Whatever the environment of this process says.
    config.proxy_url = None;
    Client::try_from(config)
        .map_err(|error| invalid("its certificates or its address cannot be used").caused_by(error))
}

/// What a kubeconfig must not say.
fn forbidden(kubeconfig: &Kubeconfig) -> Option<&'static str> {
    for user in kubeconfig.auth_infos.iter().filter_map(|user| user.auth_info.as_ref()) {
        if user.exec.is_some() || user.auth_provider.is_some() {
            return Some("it names a program for getting credentials, which is not run");
        }
        if user.token_file.is_some() || user.client_certificate.is_some() || user.client_key.is_some() {
            return Some("it names files for credentials; they have to stand in it");
        }
    }
    for cluster in kubeconfig.clusters.iter().filter_map(|cluster| cluster.cluster.as_ref()) {
        if cluster.certificate_authority.is_some() {
            return Some("it names a file of authorities; they have to stand in it");
        }
        if cluster.proxy_url.is_some() {
            return Some("it names a proxy, which is not supported");
        }
    }
    None
}

fn invalid(why: &str) -> ProvisionError {
    ProvisionError::user_action(Reason::InvalidKubeconfig, format!("the kubeconfig cannot be used: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn refused(cluster: &str, user: &str) -> String {
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: a\n\
             contexts: [{{name: a, context: {{cluster: a, user: a}}}}]\n\
             clusters: [{{name: a, cluster: {{server: 'https://127.0.0.1:1'{cluster}}}}}]\n\
             users: [{{name: a, user: {{{user}}}}}]\n"
        );
        match client(&text.into()).await {
            Ok(_) => String::new(),
            Err(error) => {
                assert_eq!(error.reason, Reason::InvalidKubeconfig);
                error.message
            }
        }
    }

    #[tokio::test]
    async fn a_kubeconfig_that_cannot_be_read_or_names_programs_or_files_is_refused_with_the_reason() {
        let _ = windlass_auth::install_crypto_provider();
        let why = |text: &str| format!("the kubeconfig cannot be used: {text}");
        let unreadable = client(&"{[".to_owned().into()).await.err().unwrap();
        assert_eq!(unreadable.message, why("it cannot be read"));
        let empty = client(&"apiVersion: v1\nkind: Config\n".to_owned().into()).await.err().unwrap();
        assert_eq!(empty.message, why("its context, cluster or user is not there"));
        assert_eq!(refused("", "token: t").await, "");
        let program = why("it names a program for getting credentials, which is not run");
        assert_eq!(refused("", "exec: {apiVersion: v1, command: cat}").await, program);
        assert_eq!(
            refused("", "tokenFile: /etc/passwd").await,
            why("it names files for credentials; they have to stand in it")
        );
        assert_eq!(
            refused(", certificate-authority: /etc/passwd", "token: t").await,
            why("it names a file of authorities; they have to stand in it")
        );
        assert_eq!(
            refused(", proxy-url: 'http://x'", "token: t").await,
            why("it names a proxy, which is not supported")
        );
    }
}
