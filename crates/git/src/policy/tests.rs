use super::*;

fn refused(policy: &UrlPolicy, url: &str) -> String {
    match policy.check(url, false) {
        Err(GitError::PolicyRefused { url, detail }) => format!("{url}: {detail}"),
        other => panic!("{url} should be refused, got {other:?}"),
    }
}

#[test]
fn public_https_is_allowed() {
    for url in ["https://example.com/a.git", "https://1.1.1.1/a", "https://[2606:4700::1111]:8443/a"] {
        UrlPolicy::default().check(url, false).unwrap();
    }
}

#[test]
fn addresses_that_are_not_public_are_refused() {
    for host in [
        "0.0.0.0",
        "10.1.2.3",
        "100.64.0.1",
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f.0.0.1",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.8",
        "192.168.1.1",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "[::1]",
        "[::]",
        "[::ffff:8.8.8.8]",
        "[::ffff:127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[64:ff9b:1::1]",
        "[fc00::1]",
        "[fe80::1]",
        "[fec0::1]",
        "[ff02::1]",
        "[2001::1]",
        "[2001:db8::1]",
        "[2002:7f00:1::]",
    ] {
        let why = refused(&UrlPolicy::default(), &format!("https://{host}/a.git"));
        assert!(why.contains("not a public address") && why.contains("allowed_git_origins"), "{why}");
    }
}

#[test]
fn schemes_user_info_and_queries_are_refused_in_clear_words() {
    let policy = UrlPolicy::default();
    assert!(refused(&policy, "http://example.com/a").contains("only https"));
    assert!(refused(&policy, "file:///etc").contains("type local"));
    assert!(refused(&policy, "ssh://git@example.com/a").contains("use https"));
    assert!(refused(&policy, "git://example.com/a").contains("use https"));
    assert!(refused(&policy, "git@example.com:a/b.git").contains("https://host/path"));
    assert!(refused(&policy, "https://example.com/a?x=1").contains("query"));
    let why = refused(&policy, "https://user:s3cret@example.com/a");
    assert!(why.contains("token field") && !why.contains("s3cret"), "{why}");
}

#[test]
fn an_allowed_origin_is_lifted_alone() {
    let policy = UrlPolicy::default().allow_origin("http://127.0.0.1:1234").unwrap();
    policy.check("http://127.0.0.1:1234/a.git", false).unwrap();
    refused(&policy, "http://127.0.0.1:1235/a.git");
    refused(&policy, "https://127.0.0.1:1234/a.git");
    refused(&policy, "http://127.0.0.2:1234/a.git");
}

#[test]
fn an_origin_must_be_no_more_than_one() {
    for origin in ["127.0.0.1:80", "ftp://a", "http://a/b", "http://u@a", "http://a?b"] {
        assert!(UrlPolicy::default().allow_origin(origin).is_err(), "{origin}");
    }
}
