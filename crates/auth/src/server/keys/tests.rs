use super::*;

const FILES: [&str; 8] =
    ["ca.crt", "ca.key", "server.crt", "server.key", "admin.crt", "admin.key", "signing.key", "sealing.key"];

fn contents(directory: &Path) -> Vec<String> {
    FILES.iter().map(|name| fs::read_to_string(directory.join(name)).unwrap()).collect()
}

#[test]
fn keys_are_private_files_and_re_used_at_the_next_start() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("deep/keys");
    let first = Keys::load_or_create(&directory, &[]).unwrap();
    let before = contents(&directory);
    for name in FILES {
        let mode = fs::metadata(directory.join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{name} has mode {mode:o}");
    }
    assert_eq!(fs::metadata(&directory).unwrap().permissions().mode() & 0o777, 0o700);

    let second = Keys::load_or_create(&directory, &[]).unwrap();
    assert_eq!(contents(&directory), before);
    assert_eq!(second.sealing_key().expose_secret(), first.sealing_key().expose_secret());
    assert_eq!(second.signing_keys().newest.point(), first.signing_keys().newest.point());
    assert_ne!(first.sealing_key().expose_secret(), &[0; 32]);
}

#[test]
fn two_processes_that_start_at_once_agree() {
    let directory = tempfile::tempdir().unwrap();
    let keys: Vec<Keys> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..4).map(|_| scope.spawn(|| Keys::load_or_create(directory.path(), &[]).unwrap())).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for other in &keys[1..] {
        assert_eq!(other.ca_certificate(), keys[0].ca_certificate());
        assert_eq!(other.server().certificate, keys[0].server().certificate);
        assert_eq!(other.signing_keys().newest.point(), keys[0].signing_keys().newest.point());
    }
}

#[test]
fn certificates_near_their_end_are_replaced_and_keys_kept() {
    let directory = tempfile::tempdir().unwrap();
    let year_ago = Timestamp::now() - Duration::from_hours(24 * 380);
    let old = Keys::assemble(Some(directory.path()), &[], year_ago).unwrap();
    let new = Keys::load_or_create(directory.path(), &[]).unwrap();
    assert_ne!(new.server().certificate, old.server().certificate);
    assert_ne!(new.admin().certificate, old.admin().certificate);
    assert_eq!(new.ca_certificate(), old.ca_certificate());
    assert_eq!(new.signing_keys().newest.point(), old.signing_keys().newest.point());
    assert_eq!(new.sealing_key().expose_secret(), old.sealing_key().expose_secret());
}

#[test]
fn a_ca_near_its_end_takes_its_certificates_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let long_ago = Timestamp::now() - Duration::from_hours(24 * 3640);
    let old = Keys::assemble(Some(directory.path()), &[], long_ago).unwrap();
    // Certificates that are still good, of the CA that is about to go.
    let leaf =
        certificates::new_leaf(&old.ca, &Leaf::Server(&["localhost".to_owned()]), Timestamp::now()).unwrap();
    store_pair(Some(directory.path()), SERVER, leaf).unwrap();
    let new = Keys::load_or_create(directory.path(), &[]).unwrap();
    assert_ne!(new.ca_certificate(), old.ca_certificate());
    assert!(signed_by(&new.ca, new.server()));
    assert!(signed_by(&new.ca, new.admin()));
}

#[test]
fn another_name_gets_another_server_certificate() {
    let directory = tempfile::tempdir().unwrap();
    let old = Keys::load_or_create(directory.path(), &[]).unwrap();
    let names = ["windlass.example".to_owned(), "10.1.2.3".to_owned(), "fd00::1".to_owned()];
    let new = Keys::load_or_create(directory.path(), &names).unwrap();
    assert_ne!(new.server().certificate, old.server().certificate);
    assert_eq!(new.ca_certificate(), old.ca_certificate());
    let facts = certificates::facts(&new.server().certificate).unwrap();
    assert_eq!(facts.names, ["localhost", "127.0.0.1", "::1", "windlass.example", "10.1.2.3", "fd00::1"]);
    let again = Keys::load_or_create(directory.path(), &names).unwrap();
    assert_eq!(again.server().certificate, new.server().certificate);
}

#[test]
fn a_file_that_holds_something_else_is_named_and_left_alone() {
    for name in FILES {
        let directory = tempfile::tempdir().unwrap();
        Keys::load_or_create(directory.path(), &[]).unwrap();
        let path = directory.path().join(name);
        fs::write(&path, "something else").unwrap();
        let error = Keys::load_or_create(directory.path(), &[]).unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "something else");
    }
}

#[test]
fn a_lost_key_is_an_error_and_a_lost_certificate_is_not() {
    let directory = tempfile::tempdir().unwrap();
    Keys::load_or_create(directory.path(), &[]).unwrap();
    fs::remove_file(directory.path().join("server.crt")).unwrap();
    Keys::load_or_create(directory.path(), &[]).unwrap();
    fs::remove_file(directory.path().join("server.key")).unwrap();
    let error = Keys::load_or_create(directory.path(), &[]).unwrap_err().to_string();
    assert!(error.contains("server.key is missing"), "{error}");
}

#[test]
fn a_key_file_open_to_others_is_closed() {
    let directory = tempfile::tempdir().unwrap();
    Keys::load_or_create(directory.path(), &[]).unwrap();
    let path = directory.path().join("ca.key");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    Keys::load_or_create(directory.path(), &[]).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_crash_leaves_whole_files_or_none() {
    // A temporary file of a process that was killed while writing is no obstacle.
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join(format!(".ca.key.{}", std::process::id())), "half").unwrap();
    // A key whose certificate was never written.
    fs::write(directory.path().join("admin.key"), "half").unwrap();
    // Of another process, that was killed as well.
    fs::write(directory.path().join(".sealing.key.4000000000"), "half").unwrap();
    assert!(!Keys::has_sealing_key(directory.path()));
    let keys = Keys::load_or_create(directory.path(), &[]).unwrap();
    assert!(signed_by(&keys.ca, keys.admin()));
    assert!(Keys::has_sealing_key(directory.path()));
    let mut left: Vec<_> =
        fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    let mut expected: Vec<_> = FILES.iter().copied().chain([".lock"]).map(std::ffi::OsString::from).collect();
    expected.sort();
    assert_eq!(left, expected);
}
