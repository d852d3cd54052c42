//! Reading and parsing, a batch at a time, ahead of writing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use tokio::task::JoinError;
use windlass_git::ObjectId;
use windlass_repository::ReadError;

use super::{BATCH_BYTES, BATCH_FILES, Job};
use crate::parse::{self, Document, FileError, ParseContext};
use crate::plan::{FileWrite, Known};
use crate::{Failure, Kind, Kinds, Reason, SyncContext};

/// A file, read and parsed.
pub(super) struct Loaded {
    pub(super) write: FileWrite,
    pub(super) content: Content,
    /// The objects that its former content describes; nothing if that is not known of all.
    pub(super) previous: Option<Vec<(Kind, String)>>,
}

/// What is in a file.
pub(super) enum Content {
    /// Its objects: none of something well-formed that is plainly no resource.
    Documents(Vec<Document>),
    /// What cannot be read or understood.
    Failed(Failure),
    /// Reading was cancelled.
    Cancelled,
}

impl From<FileError> for Content {
    fn from(error: FileError) -> Self {
        match error {
            FileError::NotAResource => Self::Documents(Vec::new()),
            error => Self::Failed(error.into()),
        }
    }
}

/// Splits writes so that a batch fits into memory.
pub(super) fn batches(writes: Vec<FileWrite>) -> Vec<Vec<FileWrite>> {
    let sizes: Vec<usize> = windlass_git::batches(&writes, |write| write.size, BATCH_FILES, BATCH_BYTES)
        .map(<[_]>::len)
        .collect();
    let mut writes = writes.into_iter();
    sizes.into_iter().map(|size| writes.by_ref().take(size).collect()).collect()
}

/// A file, read.
struct Read {
    write: FileWrite,
    content: Result<Bytes, Content>,
    former: Option<Bytes>,
}

/// A file, parsed as far as it was read, and the objects that its former content describes.
struct Parsed {
    documents: Option<Result<Vec<Document>, FileError>>,
    previous: Option<Vec<(Kind, String)>>,
}

/// Reads and parses one batch, in order. If that panics, each of its files has failed.
pub(super) async fn load(job: Job, batch: Vec<FileWrite>) -> Vec<Loaded> {
    let failed = |write| Loaded { write, content: FileError::Panicked.into(), previous: None };
    let loaded = tokio::spawn(read_and_parse(job, batch.clone())).await.flatten();
    loaded.unwrap_or_else(|_lost| batch.into_iter().map(failed).collect())
}

async fn read_and_parse(job: Job, batch: Vec<FileWrite>) -> Result<Vec<Loaded>, JoinError> {
    let files = read_batch(&job, batch).await;
    let further = job.clients.further.clone();
    let context = Arc::new(job.context);
    let kinds = further.known().await;
    let (mut files, mut parsed) = parse_batch(files, &context, &kinds).await?;
    let outdated = |file: &Parsed| file.documents.as_ref().is_some_and(parse::depends_on_server);
    if !further.is_empty() && parsed.iter().any(outdated) {
        let kinds = further.newer_than(&kinds).await;
        (files, parsed) = parse_batch(files, &context, &kinds).await?;
    }
    let loaded =
        files.into_iter().zip(parsed).map(|(Read { write, content, .. }, Parsed { documents, previous })| {
            let parsed = match (content, documents) {
                (Err(unread), _) => unread,
                (Ok(_), Some(Ok(documents))) => Content::Documents(documents),
                (Ok(_), Some(Err(error))) => error.into(),
                (Ok(_), None) => Content::Cancelled,
            };
            Loaded { write, content: parsed, previous }
        });
    Ok(loaded.collect())
}

async fn read_batch(job: &Job, batch: Vec<FileWrite>) -> Vec<Read> {
    let limit = job.reader.limits().blob_bytes;
    let readable: Vec<ObjectId> =
        batch.iter().filter(|write| write.size <= limit).map(|write| write.id).collect();
    let previous: Vec<ObjectId> = batch.iter().filter_map(previous_id).collect();
    let mut contents = read(job, &readable).await.into_iter();
    let mut former = read(job, &previous).await.into_iter();
    let files = batch.into_iter().map(|write| {
        let content = if write.size <= limit {
            contents.next().unwrap_or(Err(ReadError::missing(write.id))).map_err(unreadable)
        } else {
            Err(FileError::TooLarge { size: write.size, limit }.into())
        };
        let former = previous_id(&write).and_then(|_| former.next()).and_then(Result::ok);
        Read { write, content, former }
    });
    files.collect()
}

/// A few megabytes of parsing would hold up everything else on the runtime's thread.
async fn parse_batch(
    files: Vec<Read>,
    context: &Arc<SyncContext>,
    kinds: &Kinds,
) -> Result<(Vec<Read>, Vec<Parsed>), JoinError> {
    let (context, kinds) = (Arc::clone(context), kinds.clone());
    let task = tokio::task::spawn_blocking(move || {
        let parsed = each_by_itself(&files, |file| file.parse(&context, &kinds));
        (files, parsed)
    });
    task.await
}

/// Parses every file; one on which the parser panics has failed, and the others go on.
fn each_by_itself(files: &[Read], parse: impl Fn(&Read) -> Parsed) -> Vec<Parsed> {
    let contained = |file: &Read| {
        catch_unwind(AssertUnwindSafe(|| parse(file))).unwrap_or_else(|panic| {
            tracing::error!(
                path = file.write.path,
                panic = super::panic_text(&*panic),
                "the parser panicked"
            );
            Parsed { documents: Some(Err(FileError::Panicked)), previous: None }
        })
    };
    files.iter().map(contained).collect()
}

impl Read {
    fn parse(&self, context: &SyncContext, kinds: &Kinds) -> Parsed {
        let write = &self.write;
        let previous_path = write.previous_path.as_deref().unwrap_or(&write.path);
        let previous = self.former.as_ref().and_then(|content| {
            let of = ParseContext { context, folder: None, checksum: "", kinds };
            parse::objects(previous_path, content, &of)
        });
        let checksum = write.id.to_string();
        let of = ParseContext { context, folder: write.folder.as_deref(), checksum: &checksum, kinds };
        let documents = self.content.as_ref().ok().map(|content| parse::documents(&write.path, content, &of));
        Parsed { documents, previous }
    }
}

fn previous_id(write: &FileWrite) -> Option<ObjectId> {
    match &write.known {
        Known::FromContent(previous) => *previous,
        Known::Listed(_) | Known::Nothing => None,
    }
}

/// Contents in order. One that cannot be read must not hide the others.
async fn read(job: &Job, ids: &[ObjectId]) -> Vec<Result<Bytes, ReadError>> {
    if ids.is_empty() {
        return Vec::new();
    }
    match job.reader.blobs(ids, &job.cancel).await {
        Ok(contents) if contents.len() == ids.len() => contents.into_iter().map(Ok).collect(),
        Err(error) if ids.len() == 1 => vec![Err(error)],
        _ => {
            let mut contents = Vec::with_capacity(ids.len());
            for id in ids {
                contents.push(job.reader.blob(*id, &job.cancel).await);
            }
            contents
        }
    }
}

fn unreadable(error: ReadError) -> Content {
    if error.is_cancelled() {
        return Content::Cancelled;
    }
    let reason = if error.is_too_large() { Reason::ResourceTooLarge } else { Reason::ReadFailed };
    Content::Failed(Failure::new(reason, format!("failed to read the file: {error}")))
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use windlass_api::SyncTarget;

    use super::*;

    fn read(path: &str) -> Read {
        let write = FileWrite {
            path: path.to_owned(),
            previous_path: None,
            id: ObjectId::from_bytes([1; 20]),
            size: 2,
            folder: None,
            known: Known::Nothing,
        };
        Read { write, content: Ok(Bytes::from_static(b"[]")), former: None }
    }

    #[test]
    fn a_parser_that_panics_on_one_file_leaves_the_others_alone() {
        let files = ["a.json", "b.json", "c.json"].map(read);
        let parsed = each_by_itself(&files, |file| {
            assert!(file.write.path != "b.json", "as a defect of the parser would");
            Parsed { documents: Some(Err(FileError::NotAResource)), previous: None }
        });
        let errors: Vec<_> = parsed.into_iter().map(|file| file.documents.unwrap().unwrap_err()).collect();
        assert_eq!(errors, [FileError::NotAResource, FileError::Panicked, FileError::NotAResource]);
        let failure = Failure::from(FileError::Panicked);
        assert_eq!((failure.reason, failure.warning), (Reason::InternalError, true));
    }

    #[test]
    fn a_batch_that_is_not_parsed_is_not_one_without_files() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let gone = runtime.handle().clone();
        drop(runtime);
        let _entered = gone.enter();
        let context = Arc::new(SyncContext {
            namespace: "default".to_owned(),
            repository: "test6".to_owned(),
            title: "Test".to_owned(),
            target: SyncTarget::Folder,
        });
        let kinds = Kinds::default();
        let parsed = parse_batch(vec![read("a.json")], &context, &kinds).now_or_never();
        assert!(parsed.expect("nothing runs any more").is_err());
    }
}
