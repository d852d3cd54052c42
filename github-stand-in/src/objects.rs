//! Git's objects: what is hashed, and how.

use std::collections::BTreeMap;

use jiff::Timestamp;
use sha1::{Digest as _, Sha1};

/// The author and committer of every commit here.
pub(crate) const PERSON: (&str, &str) = ("A. Writer", "a.writer@example.org");

/// A commit.
#[derive(Clone, Debug)]
pub(crate) struct Commit {
    pub(crate) sha: String,
    pub(crate) tree: String,
    pub(crate) parents: Vec<String>,
    pub(crate) committed: Timestamp,
    pub(crate) message: String,
    /// Hashes of the files by path.
    pub(crate) files: BTreeMap<String, String>,
}

impl Commit {
    pub(crate) fn new(
        parents: Vec<String>,
        committed: Timestamp,
        message: &str,
        files: BTreeMap<String, String>,
    ) -> Self {
        let tree = hex::encode(tree(&files, ""));
        let mut text = format!("tree {tree}\n");
        for parent in &parents {
            text = text + "parent " + parent + "\n";
        }
        let (name, email) = PERSON;
        let at = committed.as_second();
        let person = format!("{name} <{email}> {at} +0000");
        text = text + "author " + &person + "\ncommitter " + &person + "\n\n" + message + "\n";
        let sha = hex::encode(hash("commit", text.as_bytes()));
        Self { sha, tree, parents, committed, message: message.to_owned(), files }
    }
}

/// The name of a file's content.
pub(crate) fn blob(bytes: &[u8]) -> String {
    hex::encode(hash("blob", bytes))
}

fn hash(kind: &str, bytes: &[u8]) -> [u8; 20] {
    Sha1::new().chain_update(format!("{kind} {}\0", bytes.len())).chain_update(bytes).finalize().into()
}

/// The tree of the files below `folder` (empty, or with a slash at its end).
fn tree(files: &BTreeMap<String, String>, folder: &str) -> [u8; 20] {
    // Git sorts folders as if their names ended with a slash.
    let mut entries: BTreeMap<String, (&str, [u8; 20])> = BTreeMap::new();
    for (path, sha) in files {
        let Some(below) = path.strip_prefix(folder) else { continue };
        match below.split_once('/') {
            None => {
                entries.insert(below.to_owned(), ("100644", unhex(sha)));
            }
            Some((name, _)) => {
                let key = format!("{name}/");
                let inner = format!("{folder}{key}");
                entries.entry(key).or_insert_with(|| ("40000", tree(files, &inner)));
            }
        }
    }
    let mut bytes = Vec::new();
    for (name, (mode, sha)) in entries {
        bytes.extend_from_slice(format!("{mode} {}\0", name.trim_end_matches('/')).as_bytes());
        bytes.extend_from_slice(&sha);
    }
    hash("tree", &bytes)
}

/// The bytes of a hash that this module made.
fn unhex(text: &str) -> [u8; 20] {
    let mut bytes = [0; 20];
    let _ = hex::decode_to_slice(text, &mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_have_the_names_that_git_gives_them() {
        // git init; printf 'hello\n' > a; mkdir -p d/e; printf 'hello\n' > d/e/f; printf 'hello\n' > d.txt; git add .
        // GIT_{AUTHOR,COMMITTER}_{NAME,EMAIL,DATE}=… git commit -m first
        let hello = blob(b"hello\n");
        let files = ["a", "d/e/f", "d.txt"].map(|path| (path.to_owned(), hello.clone()));
        let at = "2026-03-04T09:15:00Z".parse().expect("a time");
        let commit = Commit::new(Vec::new(), at, "first", files.into());
        assert_eq!(hello, "ce013625030ba8dba906f756967f9e9ca394464a");
        assert_eq!(commit.tree, "a55215ade736c6cf97d04f9a4c4d6815f40c8334");
        assert_eq!(commit.sha, "be60b4251e49ef973ed746d9be7874d743d4fae4");
    }
}
