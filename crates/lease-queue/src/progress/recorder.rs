//! What a worker has reported so far, and the status that follows from it. Pure.

use std::collections::{BTreeMap, BTreeSet};

use windlass_api::{FileOutcome, JobResourceSummary, JobState, JobStatus, RepositoryUrls};

use super::cut;
use super::phase::Phase;
use super::result::{ResourceAction, ResourceResult, Severity};

/// So many errors are listed; all are counted. Grafana: progress.go.
const LISTED_ERRORS: usize = 20;
/// So many warnings are listed in a status, so that it stays far below the size that an API server takes.
const LISTED_WARNINGS: usize = 100;
/// So many texts of each sort are listed for each kind.
const LISTED_BY_KIND: usize = 20;
/// What the list of all files may take in a job's record, in bytes: an API server takes some 1.5 MiB in all.
const FILES_BYTES: usize = 768 * 1024;

/// What was done, or tried, to resources of a kind, and how it ended: what operations are counted by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Operation {
    /// What was done: `created`, `updated`, `deleted`, `renamed`, `ignored`.
    pub operation: &'static str,
    /// `success`, `warning` or `error`.
    pub outcome: &'static str,
    /// Why it did not work; empty where it did.
    pub reason: String,
    /// API group.
    pub group: String,
    /// Kind.
    pub kind: String,
}

/// The results of one job.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    started: i64,
    message: String,
    final_message: Option<String>,
    total: usize,
    results: usize,
    error_count: usize,
    errors: Vec<String>,
    reasons: BTreeSet<String>,
    summary: BTreeMap<(String, String), JobResourceSummary>,
    operations: BTreeMap<Operation, u64>,
    phases: Vec<Phase>,
    urls: Option<RepositoryUrls>,
    revision: Option<String>,
    files: Vec<FileOutcome>,
    files_bytes: usize,
    files_omitted: i64,
}

impl Recorder {
    /// Nothing reported yet. `started` is in Unix milliseconds.
    pub fn new(started: i64) -> Self {
        Self { started, ..Self::default() }
    }

    /// What the worker is doing.
    pub fn set_message(&mut self, message: impl Into<String>) {
        self.message = message.into();
    }

    /// What the status shall say in the end, unless the job fails.
    pub fn set_final_message(&mut self, message: impl Into<String>) {
        self.final_message = Some(message.into());
    }

    /// How many results are expected: progress is their share.
    pub fn set_total(&mut self, total: usize) {
        self.total = total;
    }

    /// Links into the provider.
    pub fn set_urls(&mut self, urls: RepositoryUrls) {
        self.urls = Some(urls);
    }

    /// The revision of the repository that the job works on.
    pub fn set_revision(&mut self, revision: impl Into<String>) {
        self.revision = Some(revision.into());
    }

    /// The revision of the repository that the job works on, when there is one.
    pub fn revision(&self) -> Option<&str> {
        self.revision.as_deref()
    }

    /// Takes in what time was spent on.
    pub fn add_phase(&mut self, phase: Phase) {
        self.phases.push(phase);
    }

    /// What time was spent on, in the order in which it was over.
    pub fn phases(&self) -> &[Phase] {
        &self.phases
    }

    /// Every operation and how often there was one. Those before a [`Recorder::reset`] were done as well.
    pub fn operations(&self) -> impl Iterator<Item = (&Operation, u64)> {
        self.operations.iter().map(|(operation, count)| (operation, *count))
    }

    /// Takes in one result.
    pub fn record(&mut self, result: &ResourceResult) {
        self.results += 1;
        *self.operations.entry(Operation::of(result)).or_default() += 1;
        self.keep(result.outcome());
        let summary = self.summary.entry((result.group.clone(), result.kind.clone())).or_insert_with(|| {
            JobResourceSummary {
                group: result.group.clone(),
                kind: result.kind.clone(),
                ..JobResourceSummary::default()
            }
        });
        summary.total += 1;
        let Some(failure) = &result.failure else {
            match result.action {
                ResourceAction::Created => summary.create += 1,
                ResourceAction::Updated => summary.update += 1,
                ResourceAction::Deleted => summary.delete += 1,
                ResourceAction::Ignored => summary.noop += 1,
                ResourceAction::Renamed => {
                    summary.create += 1;
                    summary.delete += 1;
                }
            }
            summary.repaired += i64::from(result.repaired);
            summary.write = summary.create + summary.update;
            summary.total_changes = summary.write + summary.delete;
            return;
        };

        let name = if result.name.is_empty() { String::new() } else { format!(", name: {}", result.name) };
        let text = format!(
            "{} (file: {}{name}, action: {})",
            cut(&failure.message),
            cut(&result.path),
            result.action.attempted()
        );
        if failure.severity == Severity::Error {
            summary.error += 1;
            list(&mut summary.errors, LISTED_BY_KIND, &text);
            if result.action != ResourceAction::Ignored {
                self.error_count += 1;
                list(&mut self.errors, LISTED_ERRORS, &text);
            }
        } else {
            summary.warning += 1;
            list(&mut summary.warnings, LISTED_BY_KIND, &text);
            self.reasons.extend(failure.reason.clone());
        }
    }

    fn keep(&mut self, file: Option<FileOutcome>) {
        let Some(file) = file else { return };
        self.files_bytes += file.weight();
        if self.files_bytes <= FILES_BYTES {
            self.files.push(file);
        } else {
            self.files_omitted += 1;
        }
    }

    /// Lists what stands in the way of the whole job, such as the refusal of a server. Its end is the worker's to tell.
    pub fn list_error(&mut self, message: &str) {
        list(&mut self.errors, LISTED_ERRORS, &cut(message));
    }

    /// Forgets results before the work is begun anew, such as a full pull after an incremental one was not possible.
    /// With `keep_warnings`, what was warned about stays.
    pub fn reset(&mut self, keep_warnings: bool) {
        self.results = 0;
        self.error_count = 0;
        self.errors.clear();
        self.files.clear();
        (self.files_bytes, self.files_omitted) = (0, 0);
        if keep_warnings {
            self.summary.retain(|_, summary| summary.warning > 0);
        } else {
            self.summary.clear();
            self.reasons.clear();
        }
    }

    /// How many errors there were, listed or not.
    pub fn error_count(&self) -> usize {
        self.error_count
    }

    /// How many warnings there were, listed or not.
    pub fn warning_count(&self) -> usize {
        self.summary.values().map(|summary| usize::try_from(summary.warning).unwrap_or_default()).sum()
    }

    /// Reasons of the warnings.
    pub fn reasons(&self) -> impl Iterator<Item = &str> {
        self.reasons.iter().map(String::as_str)
    }

    /// The status while the job runs.
    pub fn status(&self) -> JobStatus {
        JobStatus {
            state: JobState::Working,
            started: self.started,
            message: self.message.clone(),
            errors: self.errors.clone(),
            progress: self.percent(),
            summary: self.summaries(),
            urls: self.urls.clone(),
            ..JobStatus::default()
        }
    }

    /// The status that the job ends with: `outcome` is the worker's, `finished` in Unix milliseconds.
    pub fn finish(&self, outcome: Result<(), String>, finished: i64) -> JobStatus {
        let warnings = self.warnings();
        let (state, message) = match outcome {
            // An error stays one, whatever was warned about. (Grafana turns it into a warning.)
            Err(error) => (JobState::Error, cut(&error)),
            Ok(()) if self.error_count > 0 => (JobState::Error, "completed with errors".to_owned()),
            Ok(()) => {
                let (state, message) = if warnings.is_empty() {
                    (JobState::Success, "completed successfully")
                } else {
                    (JobState::Warning, "completed with warnings")
                };
                (state, self.final_message.clone().unwrap_or_else(|| message.to_owned()))
            }
        };
        JobStatus {
            state,
            started: self.started,
            finished,
            message,
            errors: self.errors.clone(),
            warnings,
            summary: self.summaries(),
            files: self.files(),
            files_omitted: self.files_omitted,
            urls: self.urls.clone(),
            ..JobStatus::default()
        }
    }

    fn files(&self) -> Vec<FileOutcome> {
        let mut files = self.files.clone();
        files.sort_by(|a, b| (&a.path, &a.name).cmp(&(&b.path, &b.name)));
        files
    }

    fn percent(&self) -> f64 {
        if self.total == 0 { 0.0 } else { (self.results as f64 / self.total as f64 * 100.0).min(100.0) }
    }

    fn summaries(&self) -> Vec<JobResourceSummary> {
        self.summary.values().cloned().collect()
    }

    fn warnings(&self) -> Vec<String> {
        let listed = self.summary.values().flat_map(|summary| &summary.warnings).take(LISTED_WARNINGS);
        let mut listed: Vec<_> = listed.cloned().collect();
        let unlisted = self.warning_count() - listed.len();
        if unlisted > 0 {
            listed.push(format!("and {unlisted} more"));
        }
        listed
    }
}

impl Operation {
    fn of(result: &ResourceResult) -> Self {
        let (outcome, reason) = match &result.failure {
            None => ("success", String::new()),
            Some(failure) => {
                let is_error = failure.severity == Severity::Error;
                let reason = failure.reason.clone().unwrap_or_else(|| "Error".to_owned());
                (if is_error { "error" } else { "warning" }, reason)
            }
        };
        Self {
            operation: result.action.as_str(),
            outcome,
            reason,
            group: result.group.clone(),
            kind: result.kind.clone(),
        }
    }
}

fn list(texts: &mut Vec<String>, most: usize, text: &str) {
    if texts.len() < most {
        texts.push(text.to_owned());
    }
}
