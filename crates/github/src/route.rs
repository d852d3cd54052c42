//! Routes of the API: octocrab takes them as they are, so that what is put into one is percent-encoded here.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};

/// All but RFC 3986's unreserved characters.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// One segment of a route.
pub(crate) fn segment(text: &str) -> PercentEncode<'_> {
    utf8_percent_encode(text, RESERVED)
}

#[cfg(test)]
mod tests {
    use super::segment;

    #[test]
    fn a_segment_stays_one_whatever_is_in_it() {
        assert_eq!(segment("a-b.c_d~e").to_string(), "a-b.c_d~e");
        assert_eq!(segment("a b%/?#ü+&").to_string(), "a%20b%25%2F%3F%23%C3%BC%2B%26");
    }
}
