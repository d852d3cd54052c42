//! The wire types of Windlass, and every rule about them that needs no IO.
//!
//! The crate knows the JSON of `provisioning.grafana.app/v0alpha1` and of the two kinds that it manages
//! (folders and dashboards), how such objects are admitted, what their conditions and errors look like, and
//! the custom resource definitions that describe them to an API server.
//! It refuses to know clients, sockets, files and clocks: times are handed in as Unix milliseconds.
//!
//! # Where to start
//!
//! * the types: [`Repository`], [`Connection`], [`Job`], [`HistoricJob`], [`Folder`], [`Dashboard`];
//! * admission: [`repositories`] and [`jobs`], which return [`FieldError`]s;
//! * errors on the wire: [`status`], the only place where a `metav1.Status` is made;
//! * definitions: [`crds::all`], and of Flux's kinds [`crds::flux`].
//!
//! # How the wire writes absence
//!
//! Absent and zero mean the same for most fields of these kinds, and a zero is left out when it is written.
//! Those fields are plain values here (`String`, `i64`, `Vec`), empty when absent. The exceptions, which are
//! written even when they are empty or `null`, say so beside the field.
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "tests")
)]

#[macro_use]
mod object;
mod connection;
mod consts;
mod dashboard;
mod duration;
mod field_error;
mod file_outcome;
mod folder;
mod group_resource;
mod health;
mod job;
mod job_options;
mod job_state;
mod repository;
mod repository_options;
mod repository_status;
mod repository_urls;
mod schema;
mod secure;
mod views;
mod wire;

pub mod conditions;
pub mod crds;
pub mod flux;
pub mod jobs;
pub mod patch;
pub mod paths;
pub mod repositories;
pub mod rules;
pub mod secret_use;
pub mod status;
pub mod yaml;

pub use crate::{
    connection::{
        Connection, ConnectionBitbucket, ConnectionGithub, ConnectionGithubEnterprise,
        ConnectionGithubEnterpriseOauth, ConnectionOauth, ConnectionSecureValues, ConnectionSpec,
        ConnectionStatus, ConnectionType, ConnectionWebhook,
    },
    consts::{
        DASHBOARD_GROUP, FOLDER_GROUP, GROUP, SERVED_VERSIONS, VERSION, annotations, audience, finalizers,
        labels,
    },
    dashboard::Dashboard,
    duration::{GoDuration, ParseDurationError},
    field_error::{FieldError, FieldErrorReason},
    file_outcome::FileOutcome,
    folder::{Folder, FolderSpec},
    group_resource::{GroupResource, ParseGroupResourceError},
    health::{ErrorDetails, HealthErrorKind, HealthStatus, TokenStatus},
    job::{HistoricJob, Job, JobAction, JobResourceSummary, JobSpec, JobStatus},
    job_options::{
        DeleteOptions, FixFolderMetadataOptions, MigrateOptions, MoveOptions, PullOptions,
        PullRequestJobOptions, PushOptions, ResourceRef, TestOptions,
    },
    job_state::JobState,
    repository::{
        BitbucketRepository, ConnectionRef, GitRepository, GithubEnterpriseRepository, GithubRepository,
        GitlabRepository, LocalRepository, Repository, RepositorySpec, RepositoryType,
    },
    repository_options::{
        BranchOptions, CommitOptions, PullRequestOptions, SigningMethod, SyncOptions, SyncTarget,
        WebhookConfig, Workflow,
    },
    repository_status::{
        DeletionError, DeletionStatus, DeletionTarget, QuotaStatus, RepositoryStatus, ResourceCount,
        SyncStatus, UnsyncedStatus, WebhookStatus,
    },
    repository_urls::RepositoryUrls,
    secure::{InlineSecureValue, ONE_OF as ONE_SECRET, SecureValues, is_secret_name},
    views::{
        AvailableResource, ExternalRepository, ExternalRepositoryList, FileItem, FileList, HistoryAuthor,
        HistoryItem, HistoryList, ManagedStats, RefItem, RefList, RepositoryView, RepositoryViewList,
        ResourceAction, ResourceList, ResourceListItem, ResourceObjects, ResourceRepositoryInfo,
        ResourceStats, ResourceType, ResourceWrapper, TestResults, UnsyncedList, WebhookResponse,
    },
};

#[cfg(test)]
mod round_trip_tests;
