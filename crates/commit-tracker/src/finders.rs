//! Who answers which questions, as the settings say.

use std::sync::Arc;

use async_trait::async_trait;
use windlass_github::{App, Credentials, Github, Options};
use windlass_launch::Context;
use windlass_runtime::BoxError;
use windlass_settings::{CommitTrackerSettings, ExporterInfoSource, GithubCredentials};

use crate::changes::{
    Changes, ChangesError, ChangesQuery, FindChanges, Finders, GitChanges, GithubChanges, GithubConfig,
    MetadataChanges, OciChanges, OciConfig, Problem, Secrets,
};

/// Those who answer for this process.
///
/// # Errors
/// A setting cannot be used.
pub(crate) fn finders(process: &Context) -> Result<Finders, BoxError> {
    let settings = process.settings.commit_tracker();
    let secrets: Arc<dyn Secrets> = Arc::new(process.clients.core.clone());
    let github = github(settings)?;

    let by_git = || GitChanges::new(process.git.clone(), Arc::clone(&secrets), settings.max_commits);
    let git: Arc<dyn FindChanges> = Arc::new(by_git().with_github(github.clone()));
    let oci = OciConfig {
        client: windlass_oci::ClientConfig {
            insecure: settings.allowed_registries.clone(),
            ..windlass_oci::ClientConfig::default()
        },
        payload: settings.exporter_info,
        media_type: settings.exporter_info_media_type.clone(),
        max_payload_bytes: settings.max_payload_bytes,
        max_commits: settings.max_commits,
    };
    // An artifact's author says which repository it is of: that one is asked as nobody, without a token or a Secret.
    let oci: Arc<dyn FindChanges> =
        Arc::new(OciChanges::new(oci, Arc::clone(&secrets))?.with_git(Arc::new(by_git())));
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
    let credentials = match &settings.github() {
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
    /// Asked about what is not at GitHub, or hidden there, or has no such file, unless the file is required.
    otherwise: Arc<dyn FindChanges>,
    required: bool,
}

#[async_trait]
impl FindChanges for AtGithub {
    async fn find(&self, question: &ChangesQuery) -> Result<Changes, ChangesError> {
        if !self.required && !self.github.serves(question) {
            return self.otherwise.find(question).await;
        }
        match self.github.find(question).await {
            Err(error) if !self.required && is_elsewhere(error.problem) => {
                self.otherwise.find(question).await
            }
            answered => answered,
        }
    }
}

/// Whether others than GitHub's API may know: who has no such file, or may not see the repository, may reach it by Git.
fn is_elsewhere(problem: Problem) -> bool {
    matches!(problem, Problem::PayloadMissing | Problem::NotFound | Problem::Forbidden)
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;
    use windlass_github_stand_in::{Fault, StandIn};

    use super::*;
    use crate::SourceKind;
    use crate::given;

    /// Answers that the history was rewritten, so that its answers are known.
    struct ByGit;

    #[async_trait]
    impl FindChanges for ByGit {
        async fn find(&self, _question: &ChangesQuery) -> Result<Changes, ChangesError> {
            Ok(Changes { rewritten: true, ..Changes::default() })
        }
    }

    #[tokio::test]
    async fn a_repository_that_the_token_cannot_see_is_asked_about_by_git_unless_the_file_is_required() {
        let stand_in = StandIn::start().await.unwrap();
        let token = SecretString::from("a_t0ken");
        stand_in.allow_token(&token);
        let repository = stand_in.repository("apps/manifests");
        let (url, to) = (stand_in.url_of(&repository), format!("main@sha1:{:040}", 1));
        let question = given::question(SourceKind::GitRepository, &url, &to, &[]);
        for (status, required) in [(404, false), (403, false), (401, false), (403, true)] {
            let elsewhere = !required && status != 401;
            stand_in.fail("commits", 9, Fault::Status(status));
            let (api, file) = (stand_in.api().to_owned(), "exporter-info.json".to_owned());
            let options = Options { api, ..Options::new(Credentials::Token(token.clone())) };
            let config = GithubConfig { file, repository: None, max_commits: 10 };
            let github = Arc::new(GithubChanges::new(Github::new(options).unwrap(), config));
            let finder = AtGithub { github, otherwise: Arc::new(ByGit), required };
            let answered = finder.find(&question).await.is_ok_and(|changes| changes.rewritten);
            assert_eq!(answered, elsewhere, "{status}, required: {required}");
            stand_in.heal();
        }
    }
}
