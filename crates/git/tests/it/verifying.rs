//! Signatures that `git`, `gpg` and `ssh-keygen` made, judged by us.

use std::path::Path;

use windlass_git::{ObjectId, VerifyError, VerifyingKeys};
use windlass_git_server::seed::Edit;

use crate::fixture::Fixture;
use windlass_git_server::is_missing;

use crate::signing::{GpgHome, done, now, ssh_key};

/// Git in the fixture's repository, with a key that signs.
fn git(fixture: &Fixture, home: &Path, key: &str, arguments: &[&str]) -> String {
    let repository = fixture.repository();
    let format = if home.join("allowed").exists() { "ssh" } else { "openpgp" };
    let (format, key) = (format!("gpg.format={format}"), format!("user.signingkey={key}"));
    let first = ["-C", repository.to_str().unwrap(), "-c", &format, "-c", &key];
    let who = ["-c", "user.name=A", "-c", "user.email=windlass@example.com"];
    done("git", home, &[&first[..], &who, arguments].concat()).trim().to_owned()
}

fn signed_commit(fixture: &Fixture, home: &Path, key: &str) -> ObjectId {
    fixture.commit([Edit::put("a", "1")]);
    let commit = git(fixture, home, key, &["commit-tree", "-S", "main^{tree}", "-m", "signed"]);
    git(fixture, home, key, &["update-ref", "refs/heads/main", &commit]);
    commit.parse().unwrap()
}

async fn judge(fixture: &Fixture, commit: ObjectId, keys: &VerifyingKeys, at: i64) -> Result<String, String> {
    let judged = fixture.source().verify_commit(commit, keys, at, &fixture.cancel).await;
    judged.map_err(|error| error.to_string())
}

fn fingerprint(home: &GpgHome) -> String {
    let listed = home.gpg(&["", "--list-keys", "--with-colons"]);
    listed.lines().find(|line| line.starts_with("fpr")).unwrap().split(':').nth(9).unwrap().to_owned()
}

fn ring(home: &GpgHome) -> VerifyingKeys {
    let mut keys = VerifyingKeys::default();
    keys.add_open_pgp(&home.gpg(&["", "--armor", "--export"])).unwrap();
    keys
}

fn ssh_ring(home: &Path) -> VerifyingKeys {
    let mut keys = VerifyingKeys::default();
    keys.add_ssh(&std::fs::read_to_string(home.join("key.pub")).unwrap()).unwrap();
    keys
}

#[tokio::test]
async fn commits_that_git_signs_with_ssh_are_known_by_their_keys_alone() {
    if is_missing("ssh-keygen") {
        return;
    }
    for kind in [&["ed25519"][..], &["ecdsa", "-b", "521"], &["rsa", "-b", "2048"]] {
        let (fixture, home) = (Fixture::new().await, tempfile::tempdir().unwrap());
        let text = ssh_key(home.path(), kind, "");
        let file = home.path().join("key");
        std::fs::write(&file, secrecy::ExposeSecret::expose_secret(&text)).unwrap();
        done("chmod", home.path(), &["600", file.to_str().unwrap()]);
        let commit = signed_commit(&fixture, home.path(), file.to_str().unwrap());
        let keys = ssh_ring(home.path());
        let by = judge(&fixture, commit, &keys, now()).await.unwrap();
        assert!(by.starts_with("SHA256:"), "{by}");
        let other = tempfile::tempdir().unwrap();
        ssh_key(other.path(), &["ed25519"], "");
        let refused = judge(&fixture, commit, &ssh_ring(other.path()), now()).await.unwrap_err();
        assert!(refused.contains("none of the keys made it"), "{refused}");
        // The same signature on another commit.
        let raw = git(&fixture, home.path(), "", &["cat-file", "commit", &commit.to_string()]);
        let forged = home.path().join("forged");
        std::fs::write(&forged, format!("{}\n", raw.replace("\n\nsigned", "\n\nforged"))).unwrap();
        let forged =
            git(&fixture, home.path(), "", &["hash-object", "-t", "commit", "-w", forged.to_str().unwrap()]);
        git(&fixture, home.path(), "", &["update-ref", "refs/heads/forged", &forged]);
        let refused = judge(&fixture, forged.parse().unwrap(), &keys, now()).await.unwrap_err();
        assert!(refused.contains("not one of what is signed"), "{refused}");
        let unsigned: ObjectId = fixture.commit([Edit::put("b", "1")]).as_str().parse().unwrap();
        let judged = fixture.source().verify_commit(unsigned, &keys, now(), &fixture.cancel).await;
        assert!(matches!(judged, Err(VerifyError::Unsigned(_))), "{judged:?}");
    }
}

#[tokio::test]
async fn commits_that_git_signs_with_gpg_are_known_while_their_keys_are_good() {
    if is_missing("gpg") {
        return;
    }
    for kind in ["ed25519", "rsa2048", "nistp256"] {
        let (fixture, home) = (Fixture::new().await, GpgHome::new());
        home.gpg(&["", "--quick-gen-key", "Windlass <windlass@example.com>", kind, "sign", "1y"]);
        let id = fingerprint(&home);
        let commit = signed_commit(&fixture, home.0.path(), &id);
        let keys = ring(&home);
        assert!(id.ends_with(&judge(&fixture, commit, &keys, now()).await.unwrap()), "{kind}");
        let late = judge(&fixture, commit, &keys, now() + 400 * 86_400).await.unwrap_err();
        assert!(late.contains("has expired"), "{late}");
        let other = GpgHome::new();
        other.gpg(&["", "--quick-gen-key", "Other <other@example.com>", kind, "sign", "never"]);
        let refused = judge(&fixture, commit, &ring(&other), now()).await.unwrap_err();
        assert!(refused.contains("none of the keys made it"), "{refused}");
        // A key that others vouch for is the same key.
        other.gpg(&["", "--allow-secret-key-import", "--import", export(&home, &other).as_str()]);
        other.gpg(&["", "--yes", "--quick-sign-key", &id]);
        judge(&fixture, commit, &ring(&other), now()).await.unwrap();
    }
}

fn export(home: &GpgHome, into: &GpgHome) -> String {
    let file = into.0.path().join("public.asc");
    std::fs::write(&file, home.gpg(&["", "--armor", "--export"])).unwrap();
    file.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_subkey_speaks_for_its_key_until_either_is_revoked() {
    if is_missing("gpg") {
        return;
    }
    let (fixture, home) = (Fixture::new().await, GpgHome::new());
    home.gpg(&["", "--quick-gen-key", "Windlass <windlass@example.com>", "ed25519", "cert", "never"]);
    let id = fingerprint(&home);
    home.gpg(&["", "--quick-add-key", &id, "ed25519", "sign", "1y"]);
    let commit = signed_commit(&fixture, home.0.path(), &id);
    assert!(id.ends_with(&judge(&fixture, commit, &ring(&home), now()).await.unwrap()));
    let late = judge(&fixture, commit, &ring(&home), now() + 400 * 86_400).await.unwrap_err();
    assert!(late.contains("subkey that made it and has expired"), "{late}");
    let path = home.0.path().join("openpgp-revocs.d").join(format!("{id}.rev"));
    let revocation = std::fs::read_to_string(&path).unwrap().replace(":-----BEGIN", "-----BEGIN");
    std::fs::write(&path, revocation).unwrap();
    home.gpg(&["", "--import", path.to_str().unwrap()]);
    let revoked = judge(&fixture, commit, &ring(&home), now()).await.unwrap_err();
    assert!(revoked.contains("is revoked"), "{revoked}");
}
