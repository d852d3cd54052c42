//! As whom GitHub is asked.

use secrecy::{ExposeSecret as _, SecretString};

use crate::{App, AppError};

/// As whom GitHub is asked.
#[derive(Clone, Debug, Default)]
pub enum Credentials {
    /// As nobody: public repositories only, 60 requests an hour.
    #[default]
    Anonymous,
    /// With a token: a personal one, or an Action's.
    Token(SecretString),
    /// As an installation of a GitHub App.
    App(App),
}

/// What a user gave by flags or variables, each of which may be missing.
#[derive(Clone, Debug, Default)]
pub struct GivenCredentials {
    /// `GITHUB_TOKEN`.
    pub token: Option<SecretString>,
    /// `GITHUB_APP_ID`.
    pub app_id: Option<String>,
    /// `GITHUB_APP_PRIVATE_KEY`: PEM; line ends may be written as `\n`.
    pub app_private_key: Option<SecretString>,
    /// `GITHUB_APP_INSTALLATION_ID`.
    pub app_installation_id: Option<String>,
}

/// The given credentials do not go together. Messages name the variables.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// Two ways at once.
    #[error("GITHUB_TOKEN and {app} are both set: give the token, or the App, not both")]
    Both {
        /// What is set of the App.
        app: String,
    },
    /// An App by half.
    #[error("the GitHub App lacks {missing} (given: {given}): give all three, or GITHUB_TOKEN alone")]
    Half {
        /// What is set.
        given: String,
        /// What is not.
        missing: String,
    },
    /// An App that cannot be.
    #[error("failed to read {variable}")]
    App {
        /// Where it came from.
        variable: &'static str,
        /// What is wrong.
        #[source]
        source: AppError,
    },
}

impl GivenCredentials {
    /// What was chosen: [`Credentials::Anonymous`] if nothing was given. Empty values count as missing.
    pub fn chosen(self) -> Result<Credentials, CredentialsError> {
        let secret = |secret: Option<SecretString>| secret.filter(|it| !it.expose_secret().trim().is_empty());
        let text = |text: Option<String>| text.filter(|it| !it.trim().is_empty());
        let token = secret(self.token);
        let id = text(self.app_id);
        let key = secret(self.app_private_key);
        let installation = text(self.app_installation_id);
        let parts = [
            ("GITHUB_APP_ID", id.is_some()),
            ("GITHUB_APP_PRIVATE_KEY", key.is_some()),
            ("GITHUB_APP_INSTALLATION_ID", installation.is_some()),
        ];
        let named = |wanted: bool| {
            let names: Vec<_> =
                parts.iter().filter(|(_, set)| *set == wanted).map(|(name, _)| *name).collect();
            names.join(" and ")
        };
        match (token, id, key, installation) {
            (None, None, None, None) => Ok(Credentials::Anonymous),
            (Some(token), None, None, None) => {
                let token = SecretString::from(token.expose_secret().trim().to_owned());
                Ok(Credentials::Token(token))
            }
            (Some(_), ..) => Err(CredentialsError::Both { app: named(true) }),
            (None, Some(id), Some(key), Some(installation)) => {
                App::new(&id, &installation, &key).map(Credentials::App).map_err(|source| {
                    let variable = match source {
                        AppError::Id { .. } => "GITHUB_APP_ID",
                        AppError::Installation { .. } => "GITHUB_APP_INSTALLATION_ID",
                        AppError::Key { .. } => "GITHUB_APP_PRIVATE_KEY",
                    };
                    CredentialsError::App { variable, source }
                })
            }
            _ => Err(CredentialsError::Half { given: named(true), missing: named(false) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(token: &str, id: &str, key: &str, installation: &str) -> GivenCredentials {
        let text = |text: &str| (text != "-").then(|| text.to_owned());
        GivenCredentials {
            token: text(token).map(SecretString::from),
            app_id: text(id),
            app_private_key: text(key).map(SecretString::from),
            app_installation_id: text(installation),
        }
    }

    fn refusal(given: GivenCredentials) -> String {
        given.chosen().unwrap_err().to_string()
    }

    #[test]
    fn nothing_or_empty_values_are_nobody() {
        assert!(matches!(given("-", "-", "-", "-").chosen(), Ok(Credentials::Anonymous)));
        assert!(matches!(given("", " ", "", "").chosen(), Ok(Credentials::Anonymous)));
    }

    #[test]
    fn a_token_alone_is_taken_without_the_line_end_of_its_file() {
        let Ok(Credentials::Token(token)) = given("s3cret\n", "-", "-", "-").chosen() else {
            panic!("no token");
        };
        assert_eq!(token.expose_secret(), "s3cret");
    }

    #[test]
    fn both_or_half_is_refused_by_the_names_of_the_variables() {
        assert_eq!(
            refusal(given("s3cret", "7", "-", "-")),
            "GITHUB_TOKEN and GITHUB_APP_ID are both set: give the token, or the App, not both"
        );
        assert_eq!(
            refusal(given("-", "7", "-", "9")),
            "the GitHub App lacks GITHUB_APP_PRIVATE_KEY (given: GITHUB_APP_ID and \
             GITHUB_APP_INSTALLATION_ID): give all three, or GITHUB_TOKEN alone"
        );
    }

    #[test]
    fn a_key_that_is_none_is_refused_without_showing_it() {
        let error = given("-", "7", "s3cret", "9").chosen().unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(error.to_string().contains("GITHUB_APP_PRIVATE_KEY"), "{shown}");
        assert!(!shown.contains("s3cret"), "{shown}");
    }
}
