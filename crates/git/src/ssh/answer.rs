//! What a program on the server writes.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use russh::client::{Handle, Msg};
use russh::{Channel, ChannelMsg};

use super::verifier::Verifier;
use crate::GitError;
use crate::call::Call;
use crate::pktline::{self, Pkt};
use crate::upload::Upload;

/// Bytes of its complaints that are kept.
const MAX_COMPLAINT: usize = 4 << 10;
/// How long a program that wrote nothing more is waited for, to learn how it ended.
const LINGER: Duration = Duration::from_secs(2);

/// The rest of what a program on the server writes. Its session ends when this is dropped.
pub(crate) struct SshAnswer {
    channel: Channel<Msg>,
    /// The session, which lives as long as this.
    _session: Handle<Verifier>,
    /// What was read and not handed out.
    ready: BytesMut,
    complaint: Vec<u8>,
    status: Option<u32>,
    received: u64,
    over: bool,
}

impl SshAnswer {
    /// Starts a program and sends it what it is to read once it has said what it has.
    pub(super) async fn run(
        call: &Call<'_>,
        session: Handle<Verifier>,
        (command, v2): (&str, bool),
        body: Option<Bytes>,
        upload: Option<Upload>,
    ) -> Result<Self, GitError> {
        let broken = |error: russh::Error| broken(call, &error);
        let start = async {
            let channel = session.channel_open_session().await?;
            if v2 {
                channel.set_env(false, "GIT_PROTOCOL", "version=2").await?;
            }
            channel.exec(true, command).await?;
            Ok(channel)
        };
        let channel = call.waiting(start).await?.map_err(broken)?;
        let mut answer = Self {
            channel,
            _session: session,
            ready: BytesMut::new(),
            complaint: Vec::new(),
            status: None,
            received: 0,
            over: false,
        };
        if body.is_none() && upload.is_none() {
            return Ok(answer);
        }
        answer.pass_greeting(call, v2).await?;
        if let Some(body) = body {
            call.waiting(answer.channel.data_bytes(body)).await?.map_err(broken)?;
        }
        if let Some(upload) = upload {
            let mut pieces = std::pin::pin!(upload.into_pieces(call.cancel.clone()));
            let send = async {
                while let Some(piece) = pieces.next().await {
                    answer.channel.data_bytes(piece.map_err(russh::Error::IO)?).await?;
                }
                Ok(())
            };
            call.waiting(send).await?.map_err(broken)?;
        }
        call.waiting(answer.channel.eof()).await?.map_err(broken)?;
        Ok(answer)
    }

    /// Reads what a program says of itself before anybody asks, up to its end.
    async fn pass_greeting(&mut self, call: &Call<'_>, v2: bool) -> Result<(), GitError> {
        let (mut first, mut passed) = (true, 0_usize);
        loop {
            let frame = pktline::take(&mut self.ready).map_err(|what| call.protocol(what))?;
            match frame {
                Some(Pkt::Data(payload)) => {
                    if let Some(message) = payload.strip_prefix(b"ERR ") {
                        let message = call.printable(&String::from_utf8_lossy(message), 300);
                        return Err(GitError::Remote { host: call.host(), message });
                    }
                    if first && v2 && pktline::text(&payload) != Some("version 2") {
                        return Err(call.protocol("it does not speak protocol v2"));
                    }
                    first = false;
                    passed += payload.len();
                    if passed > 256 << 20 {
                        return Err(call.protocol("a list of refs without end"));
                    }
                }
                Some(_) => return Ok(()),
                None => match call.waiting(self.next(call)).await?? {
                    Some(piece) => self.ready.extend_from_slice(&piece),
                    None => return Err(call.protocol("the answer ended in the middle")),
                },
            }
        }
    }

    /// The next piece; nothing at the end. More than `max` bytes are too many.
    pub(crate) async fn chunk(
        &mut self,
        call: &Call<'_>,
        (limit, max): (&'static str, u64),
    ) -> Result<Option<Bytes>, GitError> {
        let piece =
            if self.ready.is_empty() { self.next(call).await? } else { Some(self.ready.split().freeze()) };
        self.received += piece.as_ref().map_or(0, |piece| piece.len() as u64);
        if self.received > max {
            let what = format!("the answer of {}", call.host());
            return Err(GitError::LimitExceeded { limit, max, what });
        }
        Ok(piece)
    }

    /// The next piece of what is written, which is not waited for longer than any.
    async fn next(&mut self, call: &Call<'_>) -> Result<Option<Bytes>, GitError> {
        let after = call.pace.silence;
        let waited = tokio::time::timeout(after, self.piece(call)).await;
        waited.unwrap_or_else(|_| Err(GitError::Timeout { host: call.host(), what: call.what, after }))
    }

    async fn piece(&mut self, call: &Call<'_>) -> Result<Option<Bytes>, GitError> {
        while !self.over {
            match self.channel.wait().await {
                Some(ChannelMsg::Data { data }) => return Ok(Some(data)),
                Some(ChannelMsg::ExtendedData { data, .. }) => self.complain(&data),
                Some(ChannelMsg::ExitStatus { exit_status }) => self.status = Some(exit_status),
                Some(ChannelMsg::ExitSignal { .. }) => self.status = Some(255),
                Some(ChannelMsg::Failure) => {
                    return Err(call.protocol("it runs no programs in this session"));
                }
                // How it ended is said after what it wrote has.
                Some(ChannelMsg::Eof) => {
                    self.linger().await;
                    self.over = true;
                }
                Some(ChannelMsg::Close) | None => self.over = true,
                Some(_) => {}
            }
        }
        match self.status {
            None | Some(0) => Ok(None),
            Some(_) => Err(complaint(call, &String::from_utf8_lossy(&self.complaint))),
        }
    }

    /// Reads on for a moment behind the end of what was written, until it is said how the program ended.
    async fn linger(&mut self) {
        while let Ok(Some(message)) = tokio::time::timeout(LINGER, self.channel.wait()).await {
            match message {
                ChannelMsg::ExitStatus { exit_status } => {
                    self.status = Some(exit_status);
                    return;
                }
                ChannelMsg::ExtendedData { data, .. } => self.complain(&data),
                ChannelMsg::Close => return,
                _ => {}
            }
        }
    }

    fn complain(&mut self, words: &[u8]) {
        let room = MAX_COMPLAINT.saturating_sub(self.complaint.len());
        self.complaint.extend_from_slice(&words[..words.len().min(room)]);
    }
}

fn broken(call: &Call<'_>, error: &russh::Error) -> GitError {
    GitError::Unreachable { host: call.host(), detail: call.printable(&error.to_string(), 200) }
}

/// What the words of a program that failed mean: Git's own, and those of the large hosts.
fn complaint(call: &Call<'_>, words: &str) -> GitError {
    let lower = words.to_ascii_lowercase();
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| lower.contains(phrase));
    if says(&["not found", "does not appear to be a git repository", "could not be found", "no such"]) {
        return GitError::NotFound { url: call.url.to_string() };
    }
    if says(&["permission", "denied", "not authorized", "unauthorized", "not allowed"]) {
        return GitError::Forbidden { host: call.host() };
    }
    let words: Vec<_> = words.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let message = if words.is_empty() { "its program failed".to_owned() } else { words.join("; ") };
    GitError::Remote { host: call.host(), message: call.printable(&message, 300) }
}
