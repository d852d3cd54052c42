//! Reading and parsing, a batch at a time, ahead of writing.

use std::sync::Arc;

use bytes::Bytes;
use windlass_git::{GitError, ObjectId};

use super::{BATCH_BYTES, BATCH_FILES, Job};
use crate::objects::Halt;
use crate::parse::{self, FileError, ParseContext, ParsedResource};
use crate::plan::{FileWrite, Known};
use crate::{Context, Failure, Kind, Kinds, Reason};

/// A file, read and parsed.
pub(super) struct Loaded {
    pub(super) write: FileWrite,
    pub(super) resource: Result<ParsedResource, Halt>,
    /// The object that its former content describes.
    pub(super) previous: Option<(Kind, String)>,
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
    content: Result<Bytes, Halt>,
    former: Option<Bytes>,
}

/// A file, parsed as far as it was read, and the object that its former content describes.
struct Parsed {
    resource: Option<Result<ParsedResource, FileError>>,
    previous: Option<(Kind, String)>,
}

/// Reads and parses one batch, in order.
pub(super) async fn load(job: Job, batch: Vec<FileWrite>) -> Vec<Loaded> {
    let files = read_batch(&job, batch).await;
    let further = job.clients.further.clone();
    let context = Arc::new(job.context);
    let kinds = further.known().await;
    let (mut files, mut parsed) = parse_batch(files, &context, &kinds).await;
    let outdated =
        |file: &Parsed| matches!(&file.resource, Some(Err(error)) if Kinds::may_be_outdated(error));
    if !further.is_empty() && parsed.iter().any(outdated) {
        let kinds = further.newer_than(&kinds).await;
        (files, parsed) = parse_batch(files, &context, &kinds).await;
    }
    let loaded =
        files.into_iter().zip(parsed).map(|(Read { write, content, .. }, Parsed { resource, previous })| {
            let resource = content.and_then(|_| match resource {
                Some(Ok(resource)) => Ok(resource),
                Some(Err(error)) => Err(Halt::Failed(error.into())),
                None => Err(Halt::Cancelled),
            });
            Loaded { write, resource, previous }
        });
    loaded.collect()
}

async fn read_batch(job: &Job, batch: Vec<FileWrite>) -> Vec<Read> {
    let limit = job.context.max_file_bytes.min(job.source.limits().blob_bytes);
    let readable: Vec<ObjectId> =
        batch.iter().filter(|write| write.size <= limit).map(|write| write.id).collect();
    let previous: Vec<ObjectId> = batch.iter().filter_map(previous_id).collect();
    let mut contents = read(job, &readable).await.into_iter();
    let mut former = read(job, &previous).await.into_iter();
    let files = batch.into_iter().map(|write| {
        let content = if write.size <= limit {
            contents.next().unwrap_or(Err(GitError::ObjectMissing { id: write.id })).map_err(unreadable)
        } else {
            Err(Failure::from(FileError::TooLarge { size: write.size, limit }).into())
        };
        let former = previous_id(&write).and_then(|_| former.next()).and_then(Result::ok);
        Read { write, content, former }
    });
    files.collect()
}

/// A few megabytes of parsing would hold up everything else on the runtime's thread.
async fn parse_batch(files: Vec<Read>, context: &Arc<Context>, kinds: &Kinds) -> (Vec<Read>, Vec<Parsed>) {
    let (context, kinds) = (Arc::clone(context), kinds.clone());
    let task = tokio::task::spawn_blocking(move || {
        let parsed = files.iter().map(|file| file.parse(&context, &kinds)).collect();
        (files, parsed)
    });
    task.await.unwrap_or_default()
}

impl Read {
    fn parse(&self, context: &Context, kinds: &Kinds) -> Parsed {
        let write = &self.write;
        let previous_path = write.previous_path.as_deref().unwrap_or(&write.path);
        let previous = self.former.as_ref().and_then(|content| {
            let of = ParseContext { context, folder: None, checksum: "", kinds };
            let ParsedResource { kind, name, .. } = parse::file(previous_path, content, &of).ok()?;
            Some((kind, name))
        });
        let checksum = write.id.to_string();
        let of = ParseContext { context, folder: write.folder.as_deref(), checksum: &checksum, kinds };
        let resource = self.content.as_ref().ok().map(|content| parse::file(&write.path, content, &of));
        Parsed { resource, previous }
    }
}

fn previous_id(write: &FileWrite) -> Option<ObjectId> {
    match &write.known {
        Known::FromContent(previous) => *previous,
        Known::Listed(_) => None,
    }
}

/// Contents in order. One that cannot be read must not hide the others.
async fn read(job: &Job, ids: &[ObjectId]) -> Vec<Result<Bytes, GitError>> {
    if ids.is_empty() {
        return Vec::new();
    }
    match job.source.blobs(ids, &job.cancel).await {
        Ok(contents) if contents.len() == ids.len() => contents.into_iter().map(Ok).collect(),
        Err(error) if ids.len() == 1 => vec![Err(error)],
        _ => {
            let mut contents = Vec::with_capacity(ids.len());
            for id in ids {
                contents.push(job.source.blob(*id, &job.cancel).await);
            }
            contents
        }
    }
}

fn unreadable(error: GitError) -> Halt {
    let reason = match error {
        GitError::Cancelled => return Halt::Cancelled,
        GitError::LimitExceeded { .. } => Reason::ResourceTooLarge,
        _ => Reason::ReadFailed,
    };
    Failure::new(reason, format!("failed to read the file: {error}")).into()
}
