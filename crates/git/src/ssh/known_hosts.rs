//! Servers and their keys, as OpenSSH writes them down (sshd(8), "`SSH_KNOWN_HOSTS` FILE FORMAT").

use aws_lc_rs::hmac;
use ssh_key::known_hosts::{Entry, HostPatterns, Marker};
use ssh_key::public::KeyData;

/// The lines that can be read. Others, of key types that nobody has any more, name nobody.
#[derive(Debug)]
pub(super) struct KnownHosts(Vec<Entry>);

impl KnownHosts {
    pub(super) fn parse(text: &str) -> Self {
        let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
        Self(lines.filter_map(|line| line.parse().ok()).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The keys that a server may show: those that are written down of it, and not as revoked. Authorities are not known.
    pub(super) fn keys_of(&self, host: &str, port: u16) -> Vec<KeyData> {
        let host = host.to_ascii_lowercase();
        let mut names = vec![format!("[{host}]:{port}")];
        if port == 22 {
            names.push(host);
        }
        let of_host = || self.0.iter().filter(|entry| is_of(entry.host_patterns(), &names));
        let marked = |marker: Option<Marker>| {
            let entries = of_host().filter(move |entry| entry.marker().copied() == marker);
            entries.map(|entry| entry.public_key().key_data().clone())
        };
        let revoked: Vec<_> = marked(Some(Marker::Revoked)).collect();
        marked(None).filter(|key| !revoked.contains(key)).collect()
    }
}

fn is_of(patterns: &HostPatterns, names: &[String]) -> bool {
    match patterns {
        HostPatterns::HashedName { salt, hash } => {
            let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, salt);
            names.iter().any(|name| hmac::sign(&key, name.as_bytes()).as_ref() == hash)
        }
        HostPatterns::Patterns(patterns) => {
            let is_any = |pattern: &str| names.iter().any(|name| fits(pattern.as_bytes(), name.as_bytes()));
            let lower: Vec<_> = patterns.iter().map(|pattern| pattern.to_ascii_lowercase()).collect();
            let negated = |pattern: &String| pattern.strip_prefix('!').is_some_and(is_any);
            lower.iter().any(|pattern| is_any(pattern)) && !lower.iter().any(negated)
        }
    }
}

/// Whether a name fits a pattern with `*` and `?`.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut from, mut star) = (0, 0, None);
    while from < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(&c) if c == b'?' || c == name[from] => (at, from) = (at + 1, from + 1),
            _ => match star {
                Some((back, taken)) => {
                    star = Some((back, taken + 1));
                    (at, from) = (back + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|c| *c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";
    const OTHER: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBIJbsHLTcX0ZtnXPsGNY2GMdUdsQzL0mvrAMl4fw1pL one's comment";

    fn count(lines: &[String], host: &str, port: u16) -> usize {
        KnownHosts::parse(&lines.join("\n")).keys_of(host, port).len()
    }

    #[test]
    fn names_patterns_and_ports_are_told_apart() {
        let lines = [
            format!("example.org,10.0.0.1 {ONE}"),
            format!("*.example.net,!bad.example.net {OTHER}"),
            format!("[git.example.org]:2222 {ONE}"),
            "# a comment".to_owned(),
            "broken line".to_owned(),
            "old.example.org ssh-dss AAAA".to_owned(),
        ];
        for (host, port, found) in [
            ("example.org", 22, 1),
            ("EXAMPLE.org", 22, 1),
            ("example.org", 23, 0),
            ("10.0.0.1", 22, 1),
            ("a.example.net", 22, 1),
            ("bad.example.net", 22, 0),
            ("example.net", 22, 0),
            ("git.example.org", 2222, 1),
            ("git.example.org", 22, 0),
            ("old.example.org", 22, 0),
        ] {
            assert_eq!(count(&lines, host, port), found, "{host}:{port}");
        }
    }

    #[test]
    fn hashed_names_are_known_and_revoked_keys_are_not_trusted() {
        // ssh-keygen -H of `example.org`, made with a salt of twenty times one byte.
        let salt = [7_u8; 20];
        let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &salt);
        let encoded =
            |bytes: &[u8]| base64::Engine::encode(&base64::engine::general_purpose::STANDARD, bytes);
        let hash = encoded(hmac::sign(&key, b"example.org").as_ref());
        let mut lines = vec![format!("|1|{}|{hash} {ONE}", encoded(&salt)), format!("example.org {OTHER}")];
        assert_eq!((count(&lines, "example.org", 22), count(&lines, "example.com", 22)), (2, 0));
        lines.push(format!("@revoked * {ONE}"));
        lines.push(format!("@cert-authority * {ONE}"));
        assert_eq!(count(&lines, "example.org", 22), 1);
    }
}
