//! What is wrong with bytes that are no JSON, in the words of Go's `encoding/json`, which clients of Kubernetes know.

/// Nesting beyond this is refused, as Go refuses it.
const MAX_DEPTH: usize = 10_000;

/// The first syntax error; `None` when there is none.
pub fn syntax_error(bytes: &[u8]) -> Option<String> {
    let mut scanner = Scanner { bytes, at: 0, open: Vec::new() };
    scanner.document().err().map(|wrong| match wrong {
        Wrong::Ended => "unexpected end of JSON input".to_owned(),
        Wrong::TooDeep => "exceeded max depth".to_owned(),
        Wrong::Byte(byte, context) => format!("invalid character {} {context}", quoted(byte)),
        Wrong::Literal(byte, word, expected) => {
            format!("invalid character {} in literal {word} (expecting '{expected}')", quoted(byte))
        }
    })
}

enum Wrong {
    Ended,
    TooDeep,
    Byte(u8, &'static str),
    Literal(u8, &'static str, char),
}

enum Open {
    Array,
    Object,
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    open: Vec<Open>,
}

impl Scanner<'_> {
    fn document(&mut self) -> Result<(), Wrong> {
        let byte = self.after_blanks()?;
        self.value(byte)?;
        while !self.open.is_empty() {
            self.after_value()?;
        }
        match self.after_blanks() {
            Ok(byte) => Err(Wrong::Byte(byte, "after top-level value")),
            Err(_) => Ok(()),
        }
    }

    /// What follows a value inside an array or an object: the next value, or the container's end.
    fn after_value(&mut self) -> Result<(), Wrong> {
        let byte = self.after_blanks()?;
        self.at += 1;
        match (self.open.last(), byte) {
            (Some(Open::Array), b',') => {
                let byte = self.after_blanks()?;
                self.value(byte)
            }
            (Some(Open::Array), b']') | (Some(Open::Object), b'}') => {
                self.open.pop();
                Ok(())
            }
            (Some(Open::Object), b',') => {
                let byte = self.after_blanks()?;
                self.member(byte)
            }
            (Some(Open::Array), byte) => Err(Wrong::Byte(byte, "after array element")),
            (_, byte) => Err(Wrong::Byte(byte, "after object key:value pair")),
        }
    }

    /// A key and its value.
    fn member(&mut self, byte: u8) -> Result<(), Wrong> {
        let byte = self.key(byte)?;
        self.value(byte)
    }

    /// A key with its colon; returns the first byte of the value.
    fn key(&mut self, byte: u8) -> Result<u8, Wrong> {
        if byte != b'"' {
            return Err(Wrong::Byte(byte, "looking for beginning of object key string"));
        }
        self.string()?;
        let byte = self.after_blanks()?;
        if byte != b':' {
            return Err(Wrong::Byte(byte, "after object key"));
        }
        self.at += 1;
        self.after_blanks()
    }

    /// A scalar or an empty container, with the containers that are opened before it.
    fn value(&mut self, mut byte: u8) -> Result<(), Wrong> {
        while let b'{' | b'[' = byte {
            if self.open.len() == MAX_DEPTH {
                return Err(Wrong::TooDeep);
            }
            self.at += 1;
            let next = self.after_blanks()?;
            if (byte, next) == (b'{', b'}') || (byte, next) == (b'[', b']') {
                self.at += 1;
                return Ok(());
            }
            if byte == b'{' {
                self.open.push(Open::Object);
                byte = self.key(next)?;
            } else {
                self.open.push(Open::Array);
                byte = next;
            }
        }
        match byte {
            b'"' => self.string(),
            b't' => self.literal("true"),
            b'f' => self.literal("false"),
            b'n' => self.literal("null"),
            b'-' | b'0'..=b'9' => self.number(),
            byte => Err(Wrong::Byte(byte, "looking for beginning of value")),
        }
    }

    fn literal(&mut self, word: &'static str) -> Result<(), Wrong> {
        for expected in word.bytes() {
            let byte = self.byte()?;
            if byte != expected {
                return Err(Wrong::Literal(byte, word, char::from(expected)));
            }
            self.at += 1;
        }
        Ok(())
    }

    fn string(&mut self) -> Result<(), Wrong> {
        self.at += 1;
        loop {
            let byte = self.byte()?;
            self.at += 1;
            match byte {
                b'"' => return Ok(()),
                b'\\' => self.escape()?,
                0..0x20 => return Err(Wrong::Byte(byte, "in string literal")),
                _ => {}
            }
        }
    }

    fn escape(&mut self) -> Result<(), Wrong> {
        let byte = self.byte()?;
        self.at += 1;
        match byte {
            b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => Ok(()),
            b'u' => {
                for _ in 0..4 {
                    let byte = self.byte()?;
                    if !byte.is_ascii_hexdigit() {
                        return Err(Wrong::Byte(byte, "in \\u hexadecimal character escape"));
                    }
                    self.at += 1;
                }
                Ok(())
            }
            byte => Err(Wrong::Byte(byte, "in string escape code")),
        }
    }

    fn number(&mut self) -> Result<(), Wrong> {
        if self.byte()? == b'-' {
            self.at += 1;
        }
        if self.byte()? == b'0' {
            self.at += 1;
        } else {
            self.digits("in numeric literal")?;
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if matches!(self.bytes.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.byte()?, b'+' | b'-') {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        Ok(())
    }

    /// One digit or more.
    fn digits(&mut self, context: &'static str) -> Result<(), Wrong> {
        let byte = self.byte()?;
        if !byte.is_ascii_digit() {
            return Err(Wrong::Byte(byte, context));
        }
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        Ok(())
    }

    fn byte(&self) -> Result<u8, Wrong> {
        self.bytes.get(self.at).copied().ok_or(Wrong::Ended)
    }

    fn after_blanks(&mut self) -> Result<u8, Wrong> {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
        self.byte()
    }
}

fn quoted(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        b'\\' => r"'\\'".to_owned(),
        b'\n' => r"'\n'".to_owned(),
        b'\r' => r"'\r'".to_owned(),
        b'\t' => r"'\t'".to_owned(),
        0..0x20 | 0x7f => format!(r"'\x{byte:02x}'"),
        0x80..0xa0 | 0xad => format!(r"'\u{byte:04x}'"),
        byte => format!("'{}'", char::from(byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_worded_as_go_words_them() {
        for (text, expected) in [
            ("", Some("unexpected end of JSON input")),
            (r#"{"a":"#, Some("unexpected end of JSON input")),
            ("not", Some("invalid character 'o' in literal null (expecting 'u')")),
            ("{} x", Some("invalid character 'x' after top-level value")),
            (r#"{"a":1,}"#, Some("invalid character '}' looking for beginning of object key string")),
            ("{'a'", Some("invalid character '\\'' looking for beginning of object key string")),
            (r#"{"a" 1}"#, Some("invalid character '1' after object key")),
            (r#"{"a":1 "b"}"#, Some("invalid character '\"' after object key:value pair")),
            ("[1 2]", Some("invalid character '2' after array element")),
            ("[-]", Some("invalid character ']' in numeric literal")),
            ("[1.]", Some("invalid character ']' after decimal point in numeric literal")),
            ("[1e]", Some("invalid character ']' in exponent of numeric literal")),
            (r#"["\x"]"#, Some("invalid character 'x' in string escape code")),
            ("[\"\n\"]", Some("invalid character '\\n' in string literal")),
            ("[01]", Some("invalid character '1' after array element")),
            (r#"{"a":[1,{"b":[]}],"c":{},"d":"\u00e4"}"#, None),
            (" 5 ", None),
        ] {
            assert_eq!(syntax_error(text.as_bytes()).as_deref(), expected, "{text}");
        }
        assert_eq!(syntax_error("[".repeat(20_000).as_bytes()).as_deref(), Some("exceeded max depth"));
    }
}
