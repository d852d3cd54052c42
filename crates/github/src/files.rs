//! Files at a commit, of any size up to the limit, checked against the hash that Git knows them by.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, HeaderMap, HeaderValue};
use serde::Deserialize;
use sha1::{Digest as _, Sha1};
use sha2::Sha256;
use tracing::field;
use windlass_http_client::printable;
use windlass_telemetry::traced;

use crate::route::segment;
use crate::{ErrorKind, Github, GithubError, RepositoryName};

/// Answers with an object for directories, too, and for files over 1 MB, whose content it then leaves out.
const OBJECT: HeaderValue = HeaderValue::from_static("application/vnd.github.object+json");

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
        // octocrab's own call for content puts the path into the URL as it is.
        let below: Vec<String> = segments.into_iter().map(|part| segment(part).to_string()).collect();
        let route = format!("/repos/{repository}/contents/{}", below.join("/"));
        let accept = HeaderMap::from_iter([(ACCEPT, OBJECT)]);
        let found = self.octocrab().get_with_headers(route, Some(&[("ref", reference)]), Some(accept)).await;
        let found: Content = found.map_err(|error| self.of_file(&what, self.error(&what, error)))?;
        if found.kind != "file" {
            let detail = format!("it is a {}, not a file", self.printable(&found.kind, 20));
            return Err(self.malformed(&what, detail));
        }
        if found.size.is_some_and(|size| size > self.max_file()) {
            return Err(self.too_large(&what));
        }
        if found.encoding == "base64" && (!found.text.is_empty() || found.size == Some(0)) {
            return self.whole(&what, &found, &found.sha);
        }
        self.blob(repository, &found.sha, &what).await
    }

    /// The content of a Git object.
    async fn blob(&self, repository: &RepositoryName, sha: &str, what: &str) -> Result<Bytes, GithubError> {
        let route = format!("/repos/{repository}/git/blobs/{}", segment(sha));
        let found = self.get(what, route, None::<&()>).await;
        let found: Content = found.map_err(|error| self.of_file(what, error))?;
        if found.encoding != "base64" {
            let detail = format!("its encoding is {:?}", self.printable(&found.encoding, 20));
            return Err(self.malformed(what, detail));
        }
        self.whole(what, &found, sha)
    }

    /// An answer that is too large is a file that is.
    fn of_file(&self, what: &str, error: GithubError) -> GithubError {
        if matches!(error.kind(), ErrorKind::TooLarge(_)) { self.too_large(what) } else { error }
    }

    fn too_large(&self, what: &str) -> GithubError {
        GithubError::new(self.host(), ErrorKind::TooLarge(self.max_file())).during(what)
    }

    /// The decoded content, if it is what `sha` names.
    fn whole(&self, what: &str, found: &Content, sha: &str) -> Result<Bytes, GithubError> {
        let mut packed = found.text.clone().into_bytes();
        packed.retain(|byte| !byte.is_ascii_whitespace());
        let bytes = STANDARD
            .decode(packed)
            .map_err(|error| self.malformed(what, format!("its content is no base64: {error}")))?;
        if bytes.len() as u64 > self.max_file() {
            return Err(self.too_large(what));
        }
        if object_hash(&bytes, sha.len()).eq_ignore_ascii_case(sha) {
            return Ok(bytes.into());
        }
        let detail = format!("its {} bytes are not object {}", bytes.len(), self.printable(sha, 64));
        Err(self.malformed(what, detail))
    }
}

/// The name that Git gives a file's content; SHA-256 if the name has that length.
fn object_hash(bytes: &[u8], length: usize) -> String {
    let head = format!("blob {}\0", bytes.len());
    let hash = if length == 64 {
        Sha256::new().chain_update(head).chain_update(bytes).finalize().to_vec()
    } else {
        Sha1::new().chain_update(head).chain_update(bytes).finalize().to_vec()
    };
    hex::encode(hash)
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
