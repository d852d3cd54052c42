//! Signed commits, judged by `git verify-commit`, with keys that `ssh-keygen` and `gpg` make.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use secrecy::SecretString;
use tempfile::TempDir;
use windlass_git::{CommitMeta, GitError, Revision, Signature, SigningKey, TreeChange};
use windlass_git_server::is_missing;

use crate::fixture::Fixture;

/// A time after all keys of these tests were made.
const LATER: i64 = 4_000_000_000;

pub(crate) fn run(program: &str, home: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).env("GNUPGHOME", home).env("HOME", home).env("GIT_CONFIG_NOSYSTEM", "1");
    command.output().unwrap_or_else(|error| panic!("{program}: {error}"))
}

pub(crate) fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

pub(crate) fn done(program: &str, home: &Path, arguments: &[&str]) -> String {
    let output = run(program, home, arguments);
    assert!(output.status.success(), "{program} {arguments:?}: {}", said(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// An SSH key, and what allows it to sign.
pub(crate) fn ssh_key(home: &Path, kind: &[&str], passphrase: &str) -> SecretString {
    let file = home.join("key");
    let (text, public) = windlass_git_server::ssh_key(&file, kind, passphrase).unwrap();
    std::fs::write(home.join("allowed"), format!("windlass@example.com {public}")).unwrap();
    // For the next one of this home.
    std::fs::remove_file(&file).unwrap();
    SecretString::from(text)
}

/// A home of gpg, whose agent ends with it.
pub(crate) struct GpgHome(pub(crate) TempDir);

impl GpgHome {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn gpg(&self, arguments: &[&str]) -> String {
        let quiet = ["--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase"];
        done("gpg", self.0.path(), &[&quiet, arguments].concat())
    }

    fn exported(&self, passphrase: &str) -> SecretString {
        SecretString::from(self.gpg(&[passphrase, "--armor", "--export-secret-keys"]))
    }
}

impl Drop for GpgHome {
    fn drop(&mut self) {
        let _ended = run("gpgconf", self.0.path(), &["--kill", "gpg-agent"]);
    }
}

fn meta(key: SigningKey, seconds: i64) -> CommitMeta {
    let who = Signature { name: "Windlass".to_owned(), email: "windlass@example.com".to_owned(), seconds };
    let message = "Sign this\n\nWindlass-Job: 7".to_owned();
    CommitMeta { author: who.clone(), committer: who, message, signing_key: Some(Arc::new(key)) }
}

async fn commit(fixture: &Fixture, meta: &CommitMeta) -> Result<Revision, GitError> {
    let changes = [TreeChange::Put { path: "a".to_owned(), content: "a".into(), executable: false }];
    let made = fixture.source().commit(None, &changes, meta, &fixture.cancel).await?;
    Ok(made.expect("something to commit"))
}

/// Pushes a commit that is signed, and has Git judge it.
async fn verified(fixture: &Fixture, home: &Path, meta: &CommitMeta) -> Output {
    let repository = fixture.repository();
    done("git", home, &["init", "--quiet", "--bare", repository.to_str().unwrap()]);
    let made = commit(fixture, meta).await.unwrap();
    fixture.source().push("main", None, &made, &fixture.cancel).await.unwrap();
    done("git", home, &["-C", repository.to_str().unwrap(), "fsck", "--strict"]);
    let allowed = format!("gpg.ssh.allowedSignersFile={}", home.join("allowed").display());
    let format = if home.join("allowed").exists() { "gpg.format=ssh" } else { "gpg.format=openpgp" };
    let repository = repository.to_str().unwrap();
    run("git", home, &["-C", repository, "-c", &allowed, "-c", format, "verify-commit", "-v", made.as_str()])
}

fn refusal(made: Result<SigningKey, GitError>) -> String {
    let error = made.unwrap_err();
    assert_eq!((error.reason(), error.http_code()), ("InvalidSpec", 424));
    error.to_string()
}

#[tokio::test]
async fn git_verifies_what_an_ssh_key_signed() {
    if is_missing("ssh-keygen") {
        return;
    }
    for kind in [&["ed25519"][..], &["ecdsa", "-b", "256"], &["ecdsa", "-b", "384"], &["rsa", "-b", "2048"]] {
        let (fixture, home) = (Fixture::writable().await, tempfile::tempdir().unwrap());
        let text = ssh_key(home.path(), kind, "");
        let meta = meta(SigningKey::ssh(&text).unwrap(), 1_700_000_000);
        let judged = verified(&fixture, home.path(), &meta).await;
        assert!(judged.status.success(), "{kind:?}: {}", said(&judged));
        assert!(
            said(&judged).contains("Good \"git\" signature for windlass@example.com"),
            "{}",
            said(&judged)
        );
        // Somebody else's key is not taken for it.
        ssh_key(home.path(), &["ed25519"], "");
        let repository = fixture.repository();
        let allowed = format!("gpg.ssh.allowedSignersFile={}", home.path().join("allowed").display());
        let by_another = ["-C", repository.to_str().unwrap(), "-c", &allowed, "verify-commit", "main"];
        assert!(!run("git", home.path(), &by_another).status.success());
    }
}

#[tokio::test]
async fn the_same_key_makes_the_same_commit() {
    if is_missing("ssh-keygen") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let text = ssh_key(home.path(), &["ed25519"], "");
    let mut made = Vec::new();
    for _ in 0..2 {
        let meta = meta(SigningKey::ssh(&text).unwrap(), 1_700_000_000);
        made.push(commit(&Fixture::writable().await, &meta).await.unwrap());
    }
    assert_eq!(made[0], made[1]);
}

#[tokio::test]
async fn git_verifies_what_an_openpgp_key_signed() {
    if is_missing("gpg") {
        return;
    }
    for kind in ["ed25519", "rsa2048", "nistp256"] {
        let (fixture, home) = (Fixture::writable().await, GpgHome::new());
        home.gpg(&["", "--quick-gen-key", "Windlass <windlass@example.com>", kind, "sign", "never"]);
        let text = home.exported("");
        let at = now();
        let judged = verified(&fixture, home.0.path(), &meta(SigningKey::open_pgp(&text).unwrap(), at)).await;
        assert!(judged.status.success(), "{kind}: {}", said(&judged));
        assert!(said(&judged).contains("Good signature from \"Windlass"), "{}", said(&judged));
    }
}

#[tokio::test]
async fn a_subkey_signs_where_the_key_itself_only_certifies() {
    if is_missing("gpg") {
        return;
    }
    let (fixture, home) = (Fixture::writable().await, GpgHome::new());
    home.gpg(&["", "--quick-gen-key", "Windlass <windlass@example.com>", "ed25519", "cert", "never"]);
    let text = home.exported("");
    let nothing_signs = commit(&fixture, &meta(SigningKey::open_pgp(&text).unwrap(), now())).await;
    assert!(nothing_signs.unwrap_err().to_string().contains("no part that may sign"));
    let listed = home.gpg(&["", "--list-keys", "--with-colons"]);
    let fingerprint = listed.lines().find(|line| line.starts_with("fpr")).unwrap().split(':').nth(9).unwrap();
    home.gpg(&["", "--quick-add-key", fingerprint, "ed25519", "sign", "1y"]);
    let text = home.exported("");
    let key = SigningKey::open_pgp(&text).unwrap();
    let judged = verified(&fixture, home.0.path(), &meta(key, now())).await;
    assert!(judged.status.success(), "{}", said(&judged));
    let expired = commit(&fixture, &meta(SigningKey::open_pgp(&text).unwrap(), LATER)).await;
    assert!(expired.unwrap_err().to_string().contains("has not expired"));
}

#[test]
fn a_key_that_does_not_fit_is_refused_with_what_to_do() {
    let garbage = SecretString::from("-----BEGIN NONSENSE-----");
    assert!(refusal(SigningKey::ssh(&garbage)).contains("no private SSH key in OpenSSH's format"));
    assert!(refusal(SigningKey::open_pgp(&garbage)).contains("no armoured private OpenPGP key"));
    if !is_missing("ssh-keygen") {
        let home = tempfile::tempdir().unwrap();
        let locked = ssh_key(home.path(), &["ed25519"], "a passphrase");
        assert!(refusal(SigningKey::ssh(&locked)).contains("store it without one"));
        assert!(refusal(SigningKey::open_pgp(&locked)).contains("no armoured private OpenPGP key"));
    }
    if !is_missing("gpg") {
        let home = GpgHome::new();
        home.gpg(&["a passphrase", "--quick-gen-key", "w <w@example.com>", "ed25519", "sign", "never"]);
        let locked = home.exported("a passphrase");
        assert!(refusal(SigningKey::open_pgp(&locked)).contains("store it without one"));
        assert!(refusal(SigningKey::ssh(&locked)).contains("no private SSH key"));
    }
}

pub(crate) fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_secs()).unwrap()
}
