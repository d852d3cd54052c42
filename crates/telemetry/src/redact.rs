//! Printing URLs without the credentials that people put into them.

/// Returns `url` without its user-info: `https://user:token@host/x` becomes `https://host/x`.
///
/// Works on any text, since a URL that does not parse is the one most likely to be printed in an error.
/// Where the authority cannot be told from the rest because the password holds a `/`, `?` or `#`, everything up
/// to the last `@` goes: too much is removed rather than too little.
pub fn redact_url(url: &str) -> String {
    let (scheme, rest) = match url.find("://") {
        Some(at) => url.split_at(at + 3),
        None => ("", url),
    };
    let end = rest.find(['/', '\\', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    if let Some(at) = authority.rfind('@') {
        return format!("{scheme}{}{tail}", &authority[at + 1..]);
    }
    if has_a_port_that_is_none(authority)
        && let Some(at) = tail.rfind('@')
    {
        return format!("{scheme}{}", &tail[at + 1..]);
    }
    url.to_owned()
}

/// `user:pass` of `https://user:pass/word@host`: what follows the colon is no port.
fn has_a_port_that_is_none(authority: &str) -> bool {
    match authority.rsplit_once(':') {
        Some((host, port)) if !host.starts_with('[') || host.ends_with(']') => {
            !port.bytes().all(|byte| byte.is_ascii_digit())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str, expected: &str) {
        assert_eq!(redact_url(url), expected, "for {url}");
    }

    #[test]
    fn user_info_is_removed() {
        check("https://user:secret@host/org/repo.git", "https://host/org/repo.git");
        check("https://secret@host:8443/x?y=z#f", "https://host:8443/x?y=z#f");
        check("ssh://git:secret@host/x", "ssh://host/x");
        check("user:secret@host:org/repo", "host:org/repo");
        check("https://u:s@cr@t@host", "https://host");
        check("https://u:secret@[::1]:80/x", "https://[::1]:80/x");
    }

    #[test]
    fn a_password_that_ends_the_authority_early_is_removed_too() {
        check("https://user:sec/ret@host/x", "https://host/x");
        check("https://user:sec?ret@host/x", "https://host/x");
        check("https://user:sec#ret@host/x", "https://host/x");
    }

    #[test]
    fn a_url_without_user_info_stays() {
        for url in [
            "https://host/a@b",
            "https://host:443/a@b",
            "https://[::1]:80/a@b",
            "https://[::1]/a@b",
            "",
            "host/path",
            "://",
        ] {
            check(url, url);
        }
    }
}
