//! Who answers which questions, as the settings say.

use std::sync::Arc;

use async_trait::async_trait;
use windlass_github::{App, Credentials, Github, Options};
use windlass_launch::Context;
use windlass_runtime::BoxError;
use windlass_settings::{CommitTrackerSettings, ExporterInfoSource, GithubCredentials};

use crate::changes::{
    Changes, ChangesError, ClusterSecrets, FindChanges, Finders, GitChanges, GithubChanges, GithubConfig,
    MetadataChanges, NoSecrets, OciChanges, OciConfig, PayloadWanted, Problem, Question, Secrets,
};

/// Those who answer for this process.
///
/// # Errors
/// A setting cannot be used.
pub(crate) fn finders(process: &Context) -> Result<Finders, BoxError> {
    let settings = process.settings.commit_tracker();
    let secrets: Arc<dyn Secrets> = if settings.source_secrets {
        Arc::new(ClusterSecrets::new(process.clients.core.clone()))
    } else {
        Arc::new(NoSecrets)
    };
    let github = github(settings)?;

    let mut git = GitChanges::new(process.git.clone(), Arc::clone(&secrets), settings.max_commits);
    if let Some(github) = github.clone() {
        git = git.with_tokens(Arc::new(github));
    }
    let git: Arc<dyn FindChanges> = Arc::new(git);
    let oci = OciConfig {
        client: windlass_oci::ClientConfig {
            insecure: settings.allowed_registries.clone(),
            ..windlass_oci::ClientConfig::default()
        },
        payload: match settings.exporter_info {
            ExporterInfoSource::Auto => PayloadWanted::IfThere,
            ExporterInfoSource::Oci => PayloadWanted::Required,
            ExporterInfoSource::None | ExporterInfoSource::Github => PayloadWanted::Never,
        },
        media_type: settings.exporter_info_media_type.clone(),
        max_payload_bytes: settings.max_payload_bytes,
        max_commits: settings.max_commits,
        ..OciConfig::default()
    };
    // An artifact's author says which repository it is of: that one is asked as nobody.
    let origin = GitChanges::new(process.git.clone(), Arc::new(NoSecrets), settings.max_commits);
    let oci: Arc<dyn FindChanges> = Arc::new(OciChanges::new(oci, secrets)?.with_git(Arc::new(origin)));
    let metadata: Arc<dyn FindChanges> = Arc::new(MetadataChanges);

    let Some(github) = github else { return Ok(Finders { git, oci, metadata }) };
    let config = GithubConfig {
        file: settings.exporter_info_file.clone(),
        repository: settings.exporter_info_repository.as_deref().map(str::parse).transpose()?,
        max_commits: settings.max_commits,
    };
    let at_github = Arc::new(GithubChanges::new(github, config));
    let first = |otherwise, required| -> Arc<dyn FindChanges> {
        Arc::new(AtGithub { github: Arc::clone(&at_github), otherwise, required })
    };
    Ok(match settings.exporter_info {
        ExporterInfoSource::Github => Finders { git: first(git, true), oci: first(oci, true), metadata },
        ExporterInfoSource::Auto => Finders { git: first(git, false), oci, metadata },
        ExporterInfoSource::None | ExporterInfoSource::Oci => Finders { git, oci, metadata },
    })
}

/// GitHub, as whom the settings say; none where they say nobody.
fn github(settings: &CommitTrackerSettings) -> Result<Option<Github>, BoxError> {
    let credentials = match &settings.github {
        None => return Ok(None),
        Some(GithubCredentials::Token(token)) => Credentials::Token(token.clone()),
        Some(GithubCredentials::App { id, private_key, installation }) => {
            Credentials::App(App::new(id, installation, private_key)?)
        }
    };
    let options = Options {
        api: settings.github_api_url.clone(),
        max_file: settings.max_payload_bytes,
        ..Options::new(credentials)
    };
    Ok(Some(Github::new(options)?))
}

/// Looks for the exporter's file at GitHub first.
struct AtGithub {
    github: Arc<GithubChanges>,
    /// Asked about what is not at GitHub, or has no such file, unless the file is required.
    otherwise: Arc<dyn FindChanges>,
    required: bool,
}

#[async_trait]
impl FindChanges for AtGithub {
    async fn find(&self, question: &Question) -> Result<Changes, ChangesError> {
        if !self.required && !self.github.serves(question) {
            return self.otherwise.find(question).await;
        }
        match self.github.find(question).await {
            Err(error) if error.problem == Problem::PayloadMissing && !self.required => {
                self.otherwise.find(question).await
            }
            answered => answered,
        }
    }
}
