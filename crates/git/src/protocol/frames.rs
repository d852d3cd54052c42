//! Frames of an answer as they arrive, and the packfile inside them.

use bytes::{Buf as _, BytesMut};

use crate::GitError;
use crate::call::Call;
use crate::http::Answer;
use crate::pack::PackSink;
use crate::pktline::{self, Pkt};

pub(super) struct Frames<'a> {
    answer: Answer<'a>,
    buffer: BytesMut,
}

impl<'a> Frames<'a> {
    pub(super) fn new(answer: Answer<'a>) -> Self {
        Self { answer, buffer: BytesMut::new() }
    }

    pub(super) fn call(&self) -> &'a Call<'a> {
        self.answer.call
    }

    /// The next frame. `ERR` frames are errors; so is an end, wherever it comes: every answer that is read here
    /// has a frame that says it is over.
    pub(super) async fn next(&mut self) -> Result<Pkt, GitError> {
        loop {
            if let Some(frame) = pktline::take(&mut self.buffer).map_err(|what| self.call().protocol(what))? {
                if let Pkt::Data(payload) = &frame
                    && let Some(message) = payload.strip_prefix(b"ERR ")
                {
                    return Err(remote_error(self.call(), &String::from_utf8_lossy(message)));
                }
                return Ok(frame);
            }
            match self.answer.chunk().await? {
                Some(piece) if self.buffer.is_empty() => {
                    self.buffer = piece.try_into_mut().unwrap_or_else(|piece| BytesMut::from(&piece[..]));
                }
                Some(piece) => self.buffer.extend_from_slice(&piece),
                None => return Err(self.call().protocol("the answer ended in the middle")),
            }
        }
    }

    /// The next frame as a line of text; nothing at a flush or delimiter, which it also returns.
    pub(super) async fn line(&mut self) -> Result<Result<String, Pkt>, GitError> {
        match self.next().await? {
            Pkt::Data(payload) => match pktline::text(&payload) {
                Some(line) => Ok(Ok(line.to_owned())),
                None => Err(self.call().protocol("a line that is not UTF-8")),
            },
            end => Ok(Err(end)),
        }
    }

    /// Reads what follows the last frame, which is nothing.
    pub(super) async fn end(self) {
        self.answer.end().await;
    }

    /// Reads side-band frames up to a flush, and feeds the packfile in them to `sink`. `first` is a frame that
    /// was read already.
    pub(super) async fn pack(mut self, mut first: Option<Pkt>, sink: &mut PackSink) -> Result<(), GitError> {
        let call = self.call();
        loop {
            let frame = match first.take() {
                Some(frame) => frame,
                None => self.next().await?,
            };
            let mut payload = match frame {
                Pkt::Data(payload) => payload,
                Pkt::Flush => {
                    self.end().await;
                    return Ok(());
                }
                other => return Err(call.protocol(format!("{other:?} inside the packfile"))),
            };
            if payload.is_empty() {
                return Err(call.protocol("an empty frame inside the packfile"));
            }
            match payload.get_u8() {
                1 => call.within(sink.write(payload)).await??,
                2 => {}
                3 => return Err(remote_error(call, &String::from_utf8_lossy(&payload))),
                band => return Err(call.protocol(format!("side band {band}"))),
            }
        }
    }
}

/// The error behind a server's own words.
fn remote_error(call: &Call<'_>, message: &str) -> GitError {
    let message = call.printable(message, 300);
    // Git's words, and JGit's: "want … not valid".
    let refused = message
        .split("not our ref")
        .nth(1)
        .or_else(|| message.strip_suffix("not valid")?.split("want").nth(1));
    if let Some(revision) = refused {
        let revision = revision.trim().to_owned();
        return GitError::RevisionMissing { url: call.url.to_string(), revision };
    }
    GitError::Remote { host: call.host(), message }
}
