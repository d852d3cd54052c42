//! Reading and parsing, a batch at a time, ahead of writing.

use bytes::Bytes;
use windlass_git::{GitError, ObjectId};

use super::{BATCH_BYTES, BATCH_FILES, Job};
use crate::objects::Halt;
use crate::parse::{self, FileError, ParseContext, ParsedResource};
use crate::plan::{FileWrite, Known};
use crate::{Failure, Reason};

/// A file, read and parsed.
pub(super) struct Loaded {
    pub(super) write: FileWrite,
    pub(super) resource: Result<ParsedResource, Halt>,
    /// The name that its former content describes.
    pub(super) previous_name: Option<String>,
}

/// Splits writes so that a batch fits into memory.
pub(super) fn batches(writes: Vec<FileWrite>) -> Vec<Vec<FileWrite>> {
    let sizes: Vec<usize> = windlass_git::batches(&writes, |write| write.size, BATCH_FILES, BATCH_BYTES)
        .map(<[_]>::len)
        .collect();
    let mut writes = writes.into_iter();
    sizes.into_iter().map(|size| writes.by_ref().take(size).collect()).collect()
}

/// Reads and parses one batch, in order.
pub(super) async fn load(job: Job, batch: Vec<FileWrite>) -> Vec<Loaded> {
    let limit = job.context.max_file_bytes.min(job.source.limits().blob_bytes);
    let readable: Vec<ObjectId> =
        batch.iter().filter(|write| write.size <= limit).map(|write| write.id).collect();
    let previous: Vec<ObjectId> = batch.iter().filter_map(previous_id).collect();
    let mut contents = read(&job, &readable).await.into_iter();
    let mut former = read(&job, &previous).await.into_iter();
    let mut read = Vec::with_capacity(batch.len());
    for write in batch {
        let content = if write.size <= limit {
            contents.next().unwrap_or(Err(GitError::ObjectMissing { id: write.id })).map_err(unreadable)
        } else {
            Err(Failure::from(FileError::TooLarge { size: write.size, limit }).into())
        };
        let former = previous_id(&write).and_then(|_| former.next()).and_then(Result::ok);
        read.push((write, content, former));
    }
    let context = job.context;
    // A few megabytes of parsing would hold up everything else on this thread.
    tokio::task::spawn_blocking(move || {
        read.into_iter().map(|(write, content, former)| parse_one(write, content, former, &context)).collect()
    })
    .await
    .unwrap_or_default()
}

fn parse_one(
    write: FileWrite,
    bytes: Result<Bytes, Halt>,
    former: Option<Bytes>,
    context: &crate::Context,
) -> Loaded {
    let previous_path = write.previous_path.as_deref().unwrap_or(&write.path);
    let previous_name = former.and_then(|content| {
        let of = ParseContext { context, folder: None, checksum: "" };
        Some(parse::file(previous_path, &content, &of).ok()?.name)
    });
    let checksum = write.id.to_string();
    let of = ParseContext { context, folder: write.folder.as_deref(), checksum: &checksum };
    let resource = bytes.and_then(|content| {
        parse::file(&write.path, &content, &of).map_err(|error| Halt::Failed(error.into()))
    });
    Loaded { write, resource, previous_name }
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
