//! The audit log: a line of JSON for each request, in the form of `audit.k8s.io/v1` at the level `Metadata`.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{ConnectInfo, Request};
use axum::response::Response;
use http::header;
use jiff::Timestamp;
use serde_json::{Value, json};
use tracing::error;
use uuid::Uuid;
use windlass_auth::Caller;

use super::about::About;

/// The longest path and user agent that are told.
const LONGEST: usize = 4 << 10;

/// Where the audit log is, and how much of it is kept.
#[derive(Clone, Debug)]
pub struct AuditOptions {
    /// The file. Older ones are beside it, with `.1` (the newest) and so on added.
    pub path: PathBuf,
    /// A file of so many bytes is put aside.
    pub max_bytes: u64,
    /// How many files that were put aside are kept.
    pub keep: u32,
}

/// The audit log cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("failed to open the audit log {}", path.display())]
pub struct AuditError {
    /// The file.
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// A log of requests: who, what, when, from where, with what outcome. No bodies. Clones write to the same file.
#[derive(Clone, Debug)]
pub struct AuditLog(Arc<Mutex<Log>>);

#[derive(Debug)]
struct Log {
    options: AuditOptions,
    file: File,
    bytes: u64,
    /// Whether the last line could not be written.
    failing: bool,
}

impl AuditLog {
    /// Opens the file, which only its owner can read, and goes on after what is in it.
    ///
    /// # Errors
    /// [`AuditError`], which names the file.
    pub fn open(options: AuditOptions) -> Result<Self, AuditError> {
        let opened = open(&options).and_then(|file| Ok((file.metadata()?.len(), file)));
        let failed = |source| AuditError { path: options.path.clone(), source };
        let (bytes, file) = opened.map_err(failed)?;
        Ok(Self(Arc::new(Mutex::new(Log { options, file, bytes, failing: false }))))
    }

    /// Adds a line. What cannot be written is not told again: the server's own log says so.
    pub(super) fn write(&self, event: &Value) {
        let mut line = event.to_string();
        line.push('\n');
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let written = log.add(line.as_bytes());
        if let (Err(error), false) = (&written, log.failing) {
            error!(path = %log.options.path.display(), %error, "failed to write to the audit log");
        }
        log.failing = written.is_err();
    }
}

fn open(options: &AuditOptions) -> io::Result<File> {
    File::options().create(true).append(true).mode(0o600).open(&options.path)
}

impl Log {
    fn add(&mut self, line: &[u8]) -> io::Result<()> {
        if self.bytes > 0 && self.bytes + line.len() as u64 > self.options.max_bytes {
            self.rotate()?;
        }
        self.file.write_all(line)?;
        self.bytes += line.len() as u64;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        let aside = |number: u32| self.options.path.with_added_extension(number.to_string());
        for number in (1..self.options.keep).rev() {
            match fs::rename(aside(number), aside(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        if self.options.keep == 0 {
            fs::remove_file(&self.options.path)?;
        } else {
            fs::rename(&self.options.path, aside(1))?;
        }
        self.file = open(&self.options)?;
        self.bytes = 0;
        Ok(())
    }
}

/// What is told of a request, as far as it is known before it is answered.
pub(super) struct Entry {
    id: Uuid,
    uri: String,
    agent: Option<String>,
    source: Option<String>,
}

impl Entry {
    pub(super) fn of(request: &Request) -> Self {
        let cut = |text: &str| text[..text.floor_char_boundary(LONGEST)].to_owned();
        let agent = request.headers().get(header::USER_AGENT);
        let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
        Self {
            id: Uuid::new_v4(),
            uri: cut(&request.uri().to_string()),
            agent: agent.map(|agent| cut(&String::from_utf8_lossy(agent.as_bytes()))),
            source: peer.map(|ConnectInfo(peer)| peer.ip().to_string()),
        }
    }

    pub(super) fn line(
        &self,
        about: &About,
        response: &Response,
        received: Timestamp,
        answered: Timestamp,
    ) -> Value {
        let user = response.extensions().get::<Caller>().map_or_else(
            || json!({}),
            |caller| json!({ "username": caller.name, "uid": caller.uid, "groups": caller.groups }),
        );
        let mut event = json!({
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "Metadata",
            "auditID": self.id.to_string(),
            "stage": if about.is_watch() { "ResponseStarted" } else { "ResponseComplete" },
            "requestURI": self.uri,
            "verb": about.verb,
            "user": user,
            "sourceIPs": self.source.iter().collect::<Vec<_>>(),
            "userAgent": self.agent,
            "responseStatus": { "code": response.status().as_u16() },
            "requestReceivedTimestamp": received.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string(),
            "stageTimestamp": answered.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string(),
        });
        if !about.resource.is_empty() {
            let parts = [
                ("resource", &about.resource),
                ("namespace", &about.namespace),
                ("name", &about.name),
                ("apiGroup", &about.group),
                ("apiVersion", &about.version),
                ("subresource", &about.subresource),
            ];
            let parts = parts.into_iter().filter(|(_, part)| !part.is_empty());
            event["objectRef"] = parts
                .map(|(field, part)| (field.to_owned(), json!(part)))
                .collect::<serde_json::Map<_, _>>()
                .into();
        }
        event
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_file_is_put_aside_and_the_oldest_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let options = AuditOptions { path: path.clone(), max_bytes: 30, keep: 2 };
        for number in 0..7 {
            // Opened anew each time, as after a restart.
            AuditLog::open(options.clone()).unwrap().write(&json!({ "number": number }));
        }
        let lines = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        let line = |number: u32| format!("{{\"number\":{number}}}\n");
        assert_eq!(lines("audit.log"), line(6));
        assert_eq!(lines("audit.log.1"), line(4) + &line(5));
        assert_eq!(lines("audit.log.2"), line(2) + &line(3));
        assert!(!folder.path().join("audit.log.3").exists());
    }
}
