//! Texts as parts of URLs.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Everything but unreserved characters (RFC 3986).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// The same, but slashes stay.
const RESERVED_IN_PATH: &AsciiSet = &RESERVED.remove(b'/');

/// A text as it stands in a URL, with its slashes where `slashes` says that they stay.
pub fn encoded(text: &str, slashes: bool) -> String {
    utf8_percent_encode(text, if slashes { RESERVED_IN_PATH } else { RESERVED }).to_string()
}
