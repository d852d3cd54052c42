//! Git's framing: four hexadecimal digits of length, then that much (Git: `protocol-common`).

use bytes::{Bytes, BytesMut};

/// The longest frame that Git sends, its length digits included.
pub(crate) const LONGEST: usize = 65_520;

/// One frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Pkt {
    /// `0000`: end of a message or of a list.
    Flush,
    /// `0001`: end of a section.
    Delimiter,
    /// `0002`: end of an answer.
    ResponseEnd,
    /// Payload, as sent.
    Data(Bytes),
}

/// Takes one whole frame off the front of `buffer`: `Ok(None)` if more bytes are needed, an error with what was
/// wrong if these can be no frame.
pub(crate) fn take(buffer: &mut BytesMut) -> Result<Option<Pkt>, String> {
    let Some(digits) = buffer.get(..4) else {
        return Ok(None);
    };
    let length = std::str::from_utf8(digits)
        .ok()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()))
        .and_then(|text| usize::from_str_radix(text, 16).ok())
        .ok_or_else(|| format!("a frame begins with {:?}", String::from_utf8_lossy(digits)))?;
    let special = match length {
        0 => Pkt::Flush,
        1 => Pkt::Delimiter,
        2 => Pkt::ResponseEnd,
        3 | LONGEST.. if length != LONGEST => return Err(format!("a frame of {length} bytes")),
        _ if buffer.len() < length => return Ok(None),
        _ => {
            let mut frame = buffer.split_to(length);
            return Ok(Some(Pkt::Data(frame.split_off(4).freeze())));
        }
    };
    let _ = buffer.split_to(4);
    Ok(Some(special))
}

/// A request body under construction.
#[derive(Default)]
pub(crate) struct Body(Vec<u8>);

impl Body {
    /// Appends one line; the line feed is added.
    pub(crate) fn line(&mut self, text: &str) -> &mut Self {
        self.0.extend_from_slice(format!("{:04x}{text}\n", text.len() + 5).as_bytes());
        self
    }

    /// Appends a flush.
    pub(crate) fn flush(&mut self) -> &mut Self {
        self.0.extend_from_slice(b"0000");
        self
    }

    /// Appends a delimiter.
    pub(crate) fn delimiter(&mut self) -> &mut Self {
        self.0.extend_from_slice(b"0001");
        self
    }

    /// The bytes.
    pub(crate) fn take(&mut self) -> Bytes {
        std::mem::take(&mut self.0).into()
    }
}

/// A frame's payload as a line of text, without its line feed.
pub(crate) fn text(payload: &[u8]) -> Option<&str> {
    std::str::from_utf8(payload).ok().map(|text| text.trim_end_matches('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(input: &[u8]) -> Result<(Vec<Pkt>, usize), String> {
        let mut buffer = BytesMut::from(input);
        let mut frames = Vec::new();
        while let Some(frame) = take(&mut buffer)? {
            frames.push(frame);
        }
        Ok((frames, buffer.len()))
    }

    #[test]
    fn frames_are_taken_whole() {
        let (frames, rest) = all(b"0006a\n00010002000000").unwrap();
        assert_eq!(
            frames,
            [Pkt::Data(Bytes::from_static(b"a\n")), Pkt::Delimiter, Pkt::ResponseEnd, Pkt::Flush]
        );
        assert_eq!(rest, 2);
        assert_eq!(all(b"0008abc").unwrap(), (vec![], 7));
        assert_eq!(all(b"0004").unwrap(), (vec![Pkt::Data(Bytes::new())], 0));
    }

    #[test]
    fn what_is_no_frame_is_an_error() {
        for input in ["0003", "fff1", "ffff", "+001", "<htm", "00g0"] {
            assert!(all(input.as_bytes()).is_err(), "{input}");
        }
        assert!(all("fff0".as_bytes()).is_ok());
    }

    #[test]
    fn a_body_is_what_git_sends() {
        let body = Body::default().line("command=ls-refs").delimiter().line("peel").flush().take();
        assert_eq!(body, "0014command=ls-refs\n00010009peel\n0000");
        assert_eq!(all(&body).unwrap().0.len(), 4);
    }
}
