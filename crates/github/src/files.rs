//! Files at a commit, of any size up to the limit, checked against the hash that Git knows them by.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::HeaderValue;
use serde::Deserialize;
use sha1::{Digest as _, Sha1};
use sha2::Sha256;
use tracing::field;
use windlass_http_client::printable;
use windlass_telemetry::traced;

use crate::{Github, GithubError, RepositoryName};

/// Answers with an object for directories, too, and for files over 1 MB, whose content it then leaves out.
const OBJECT: HeaderValue = HeaderValue::from_static("application/vnd.github.object+json");
/// What JSON adds to a file's encoded content, at most.
const AROUND: u64 = 64 << 10;

/// `contents/{path}`, `git/blobs/{sha}`.
#[derive(Deserialize)]
struct Content {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    encoding: String,
    #[serde(default, rename = "content")]
    text: String,
    sha: String,
    size: Option<u64>,
}

impl Github {
    /// The file at `path` (from the repository's root) of `reference` (a hash, a branch or a tag).
    ///
    /// One request; two if the file is larger than 1 MB, which GitHub gives out as a Git object only. What came is
    /// checked against the object's hash: it is the whole file, or an error.
    pub async fn file(
        &self,
        repository: &RepositoryName,
        path: &str,
        reference: &str,
    ) -> Result<Bytes, GithubError> {
        let span = tracing::info_span!(
            "github.get_file",
            otel.kind = "client",
            github.repo = %repository,
            github.path = path,
            "github.ref" = reference,
            github.file.size_bytes = field::Empty,
        );
        let bytes = traced(span.clone(), self.read(repository, path, reference)).await?;
        span.record("github.file.size_bytes", bytes.len());
        Ok(bytes)
    }

    async fn read(
        &self,
        repository: &RepositoryName,
        path: &str,
        reference: &str,
    ) -> Result<Bytes, GithubError> {
        let (shown, at) = (printable(path, 200), printable(reference, 64));
        let what = format!("read {shown} of {repository} at {at}");
        let segments: Vec<&str> = path.split('/').collect();
        if segments.iter().any(|segment| matches!(*segment, "" | "." | "..")) {
            return Err(self.malformed(&what, "the path is none within a repository"));
        }
        let below: Vec<&str> = std::iter::once("contents").chain(segments).collect();
        let mut question = self.question(repository, &below, what);
        question.accept = OBJECT;
        question.cap = encoded(self.max_file().min(2 << 20)) + (8 << 20);
        question.url.query_pairs_mut().append_pair("ref", reference);
        let (found, _) = self.json::<Content>(&question).await?;
        if found.kind != "file" {
            let detail = format!("it is a {}, not a file", printable(&found.kind, 20));
            return Err(self.malformed(&question.what, detail));
        }
        if found.size.is_some_and(|size| size > self.max_file()) {
            return Err(GithubError::TooLarge { what: question.what, limit: self.max_file() });
        }
        if found.encoding == "base64" && (!found.text.is_empty() || found.size == Some(0)) {
            return self.whole(&question.what, &found, &found.sha);
        }
        self.blob(repository, &found.sha, question.what).await
    }

    /// The content of a Git object.
    async fn blob(&self, repository: &RepositoryName, sha: &str, what: String) -> Result<Bytes, GithubError> {
        let mut question = self.question(repository, &["git", "blobs", sha], what);
        question.cap = encoded(self.max_file());
        let (found, _) = self.json::<Content>(&question).await.map_err(|error| match error {
            GithubError::TooLarge { what, .. } => GithubError::TooLarge { what, limit: self.max_file() },
            error => error,
        })?;
        if found.encoding != "base64" {
            let detail = format!("its encoding is {:?}", printable(&found.encoding, 20));
            return Err(self.malformed(&question.what, detail));
        }
        self.whole(&question.what, &found, sha)
    }

    /// The decoded content, if it is what `sha` names.
    fn whole(&self, what: &str, found: &Content, sha: &str) -> Result<Bytes, GithubError> {
        let mut packed = found.text.clone().into_bytes();
        packed.retain(|byte| !byte.is_ascii_whitespace());
        let bytes = STANDARD
            .decode(packed)
            .map_err(|error| self.malformed(what, format!("its content is no base64: {error}")))?;
        if bytes.len() as u64 > self.max_file() {
            return Err(GithubError::TooLarge { what: what.to_owned(), limit: self.max_file() });
        }
        if object_hash(&bytes, sha.len()).eq_ignore_ascii_case(sha) {
            return Ok(bytes.into());
        }
        let detail = format!("its {} bytes are not object {}", bytes.len(), printable(sha, 64));
        Err(self.malformed(what, detail))
    }
}

/// Bytes that `size` bytes take in an answer: base64 with line ends, and what is around it.
fn encoded(size: u64) -> u64 {
    size / 3 * 4 + size / 30 + AROUND
}

/// The name that Git gives a file's content; SHA-256 if the name has that length.
fn object_hash(bytes: &[u8], length: usize) -> String {
    let head = format!("blob {}\0", bytes.len());
    let hash = if length == 64 {
        Sha256::new().chain_update(head).chain_update(bytes).finalize().to_vec()
    } else {
        Sha1::new().chain_update(head).chain_update(bytes).finalize().to_vec()
    };
    hash.iter().fold(String::with_capacity(length), |mut text, byte| {
        use std::fmt::Write as _;
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_objects_hash_is_the_one_of_git() {
        // `printf 'hello\n' | git hash-object --stdin`, and with `--object-format=sha256`.
        assert_eq!(object_hash(b"hello\n", 40), "ce013625030ba8dba906f756967f9e9ca394464a");
        assert_eq!(
            object_hash(b"hello\n", 64),
            "2cf8d83d9ee29543b34a87727421fdecb7e3f3a183d337639025de576db9ebb4"
        );
    }
}
