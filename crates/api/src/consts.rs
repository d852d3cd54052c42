//! Names that are part of the wire: groups, labels, annotations, finalizers, audiences.

/// The API group of repositories, connections and jobs.
pub const GROUP: &str = "provisioning.grafana.app";
/// The version of [`GROUP`] that is stored.
pub const VERSION: &str = "v0alpha1";
/// The versions of [`GROUP`] that are served, all of one shape.
pub const SERVED_VERSIONS: [&str; 2] = [VERSION, "v1beta1"];
/// The API group of folders.
pub const FOLDER_GROUP: &str = "folder.grafana.app";
/// The API group of dashboards.
pub const DASHBOARD_GROUP: &str = "dashboard.grafana.app";

/// Labels that we read or write.
pub mod labels {
    /// Name of the repository that a job or a historic job belongs to.
    pub const REPOSITORY: &str = "provisioning.grafana.app/repository";
    /// Unix milliseconds of the claim or of its last renewal, decimal. Its presence means claimed.
    pub const CLAIM: &str = "provisioning.grafana.app/claim";
    /// Random token of the present claim; new for every claim.
    pub const CLAIM_OWNER: &str = "provisioning.grafana.app/claim-owner";
    /// On a historic job: the UID of the job that it records.
    pub const ORIGINAL_UID: &str = "provisioning.grafana.app/original-uid";
    /// `"true"` on a repository whose namespace is soft-deleted: it is left alone.
    pub const PENDING_DELETE: &str = "cloud.grafana.com/pending-delete";
    /// How often a job was claimed, decimal, counted from 1.
    pub const ATTEMPT: &str = "windlass.dev/attempt";
    /// On a managed resource: the name of the repository that manages it, so that one selector lists them.
    pub const MANAGED_BY_ID: &str = "windlass.dev/managed-by";
    /// On an `ExternalArtifact`: the name of the repository that it is made of.
    pub const EXTERNAL_ARTIFACT_OF: &str = "windlass.dev/artifact-of";
    /// On a Secret that people made: the name of the one repository of its namespace that may use it.
    pub const SECRET_REPOSITORY: &str = "windlass.dev/repository";
    /// On a Secret that people made: the name of the one connection of its namespace that may use it.
    pub const SECRET_CONNECTION: &str = "windlass.dev/connection";
}

/// Annotations that we read or write.
pub mod annotations {
    /// Kind of the manager of a resource; [`MANAGER_KIND_REPO`] for ours.
    pub const MANAGED_BY: &str = "grafana.app/managedBy";
    /// Value of [`MANAGED_BY`] for resources that a repository manages.
    pub const MANAGER_KIND_REPO: &str = "repo";
    /// Name of the managing repository.
    pub const MANAGER_ID: &str = "grafana.app/managerId";
    /// Path of the source file, relative to the repository's path.
    pub const SOURCE_PATH: &str = "grafana.app/sourcePath";
    /// Hash of the source file.
    pub const SOURCE_CHECKSUM: &str = "grafana.app/sourceChecksum";
    /// How many objects the source file stands for, where they are several.
    pub const SOURCE_DOCUMENTS: &str = "windlass.dev/source-documents";
    /// Where they are several: a hash of the document that the resource was written from, a space, and one of all
    /// documents of the file as it was then.
    pub const SOURCE_DOCUMENT: &str = "windlass.dev/source-document";
    /// Time of the source file.
    pub const SOURCE_TIMESTAMP: &str = "grafana.app/sourceTimestamp";
    /// Labels and annotations that the source file set, so that those which it drops are taken off: `labels/KEY` and
    /// `annotations/KEY`, separated by spaces.
    pub const FILE_METADATA: &str = "windlass.dev/file-metadata";
    /// `metadata.generation` that the object had after its repository's last write, so that a change of its spec by
    /// somebody else is noticed. On kinds that count generations and are not written by server-side apply.
    pub const WRITTEN_GENERATION: &str = "windlass.dev/written-generation";
    /// On a repository: the name of the `ExternalArtifact` that the source operator makes of its files, for Flux to apply.
    pub const EXTERNAL_ARTIFACT: &str = "windlass.dev/external-artifact";
    /// Name of the folder that holds the resource.
    pub const FOLDER: &str = "grafana.app/folder";
    /// Message of the last change, used as the commit's.
    pub const MESSAGE: &str = "grafana.app/message";
    /// On a folder at the root: `default` asks for the default permissions.
    pub const GRANT_PERMISSIONS: &str = "grafana.app/grant-permissions";
    /// Name of the person who asked for a job.
    pub const AUTHOR: &str = "provisioning.grafana.app/author";
    /// E-mail of the person who asked for a job.
    pub const AUTHOR_EMAIL: &str = "provisioning.grafana.app/authorEmail";
    /// Identity of the person who asked for a job.
    pub const AUTHOR_ID: &str = "provisioning.grafana.app/authorId";
    /// Where the author's identity comes from: `Grafana`, `Unknown`, or a provider's name.
    pub const AUTHOR_ORIGIN: &str = "provisioning.grafana.app/authorOrigin";
    /// The four author annotations, which only the server sets.
    pub const AUTHORS: [&str; 4] = [AUTHOR, AUTHOR_EMAIL, AUTHOR_ID, AUTHOR_ORIGIN];
    /// On a historic job: the id of the trace that tells how the job went, where traces are recorded.
    pub const TRACE_ID: &str = "windlass.dev/trace-id";
    /// On a historic job: the revision that the job worked on, such as the commit that a pull brought.
    pub const REVISION: &str = "windlass.dev/revision";
    /// On a Secret that people made: where its value may be sent, as URLs with commas between them. Each is an origin,
    /// such as `https://git.example.com`, or the beginning of a repository's URL.
    pub const SECRET_URLS: &str = "windlass.dev/urls";
    /// On a historic job: about how many bytes it has, decimal.
    pub const BYTES: &str = "windlass.dev/bytes";
    /// On a job: the provider's number of the webhook delivery that asked for it.
    pub const DELIVERY: &str = "windlass.dev/delivery";
    /// On a job: the span that it is a part of, as a W3C `traceparent`; the delivery's that asked for it.
    pub const TRACEPARENT: &str = "windlass.dev/traceparent";
    /// On a repository: the commit and the time of a push that came while a pull was under way, which may not have seen it.
    pub const PUSHED: &str = "windlass.dev/pushed";
    /// `"true"` on a repository: deletion goes on although the repository cannot be opened.
    pub const FORCE_DELETE: &str = "provisioning.grafana.app/force-delete";
}

/// Finalizers of a repository, in the order in which they are run, and of a connection.
pub mod finalizers {
    /// Deletes the repository's jobs that nobody has claimed.
    pub const REMOVE_PENDING_JOBS: &str = "remove-pending-jobs";
    /// Deletes what was set up at the provider; removing it by hand is the way out when credentials are dead.
    pub const CLEANUP: &str = "cleanup";
    /// Keeps the managed resources and takes the manager's annotations off them.
    pub const RELEASE_ORPHAN_RESOURCES: &str = "release-orphan-resources";
    /// Deletes the managed resources.
    pub const REMOVE_ORPHAN_RESOURCES: &str = "remove-orphan-resources";
    /// On a connection: repositories refer to it.
    pub const REFERENCED_BY_REPOSITORIES: &str = "windlass.dev/referenced-by-repositories";
    /// All of a repository's, in the order in which they are run.
    pub const ALL: [&str; 4] =
        [REMOVE_PENDING_JOBS, CLEANUP, RELEASE_ORPHAN_RESOURCES, REMOVE_ORPHAN_RESOURCES];
}

/// Audiences of access tokens: one for each API group.
pub mod audience {
    /// Audience of the core kinds, so that a provisioning token reads no Secrets.
    pub const CORE: &str = "core.windlass.dev";

    /// The audience that a token needs to be used on an API group (`""` is the core group).
    pub fn for_group(group: &str) -> &str {
        match group {
            "" | "coordination.k8s.io" | "events.k8s.io" => CORE,
            other => other,
        }
    }
}
