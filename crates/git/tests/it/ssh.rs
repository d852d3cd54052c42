//! Repositories over SSH, with OpenSSH's `sshd` as the peer.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use windlass_git::{
    CommitMeta, Credentials, Deadlines, Git, GitConfig, GitError, Limits, Remote, RemoteRepository, Revision,
    Signature, SshAlgorithms, SshIdentity, TreeChange, UrlPolicy, init_process,
};
use windlass_git_server::seed::{self, Edit};
use windlass_git_server::{SshServer, ssh_key};

use crate::fixture::{generous, paths};

/// A server that knows one key, and a repository on it.
struct World {
    folder: TempDir,
    server: SshServer,
    private: String,
    cancel: CancellationToken,
}

const V2: &str = "AcceptEnv GIT_PROTOCOL";

impl World {
    fn new(host_key: &str, kind: &[&str], passphrase: &str, more: &[&str]) -> Option<Self> {
        init_process().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (private, public) = ssh_key(&folder.path().join("identity"), kind, passphrase).unwrap();
        let server = SshServer::start(&folder.path().join("sshd"), host_key, &public, more).unwrap()?;
        Some(Self { folder, server, private, cancel: CancellationToken::new() })
    }

    fn repository(&self) -> PathBuf {
        self.folder.path().join("sample.git")
    }

    fn commit(&self, edits: impl IntoIterator<Item = Edit>) -> Revision {
        Revision::new(seed::commit(&self.repository(), "main", edits, "change").unwrap())
    }

    fn git(&self, ssh: SshAlgorithms) -> Git {
        let mut config = GitConfig::new(self.folder.path().join("cache"));
        config.policy = UrlPolicy::default().allow_origin(&self.server.origin()).unwrap();
        config.deadlines = generous();
        config.ssh = ssh;
        Git::new(config).unwrap()
    }

    fn identity(&self, passphrase: Option<&str>, known_hosts: &str) -> Credentials {
        let passphrase = passphrase.map(SecretString::from);
        Credentials::Ssh(SshIdentity::new(self.private.clone().into(), passphrase, known_hosts))
    }

    fn source_as(&self, git: &Git, credentials: Credentials) -> Arc<RemoteRepository> {
        let (url, credentials) = (self.server.url(&self.repository()), Some(credentials));
        git.remote(Remote { url, credentials, ..Remote::default() }).unwrap()
    }

    fn source(&self) -> Arc<RemoteRepository> {
        let credentials = self.identity(None, self.server.known_hosts());
        self.source_as(&self.git(SshAlgorithms::default()), credentials)
    }

    async fn refused(&self, git: &Git, credentials: Credentials) -> GitError {
        self.source_as(git, credentials).resolve("main", &self.cancel).await.unwrap_err()
    }
}

#[tokio::test]
async fn a_repository_is_read_and_written_over_ssh_with_v2_and_with_v0() {
    for more in [&[V2][..], &[]] {
        let Some(world) = World::new("ed25519", &["ed25519"], "", more) else { return };
        let first = world.commit([Edit::put("a", "1"), Edit::put("d/b", "2")]);
        let source = world.source();
        assert_eq!(source.resolve("main", &world.cancel).await.unwrap(), first);
        let tree = source.tree(&first, "", &world.cancel).await.unwrap();
        assert_eq!(paths(&tree), ["a", "d/b"]);
        // What is new comes on top of what is there.
        let second = world.commit([Edit::put("a", "3".repeat(200_000))]);
        assert_eq!(source.resolve("", &world.cancel).await.unwrap(), second);
        let tree = source.tree(&second, "", &world.cancel).await.unwrap();
        let id = tree.entries.iter().find(|entry| entry.path == "a").unwrap().id;
        assert_eq!(source.blobs(&[id], &world.cancel).await.unwrap()[0].len(), 200_000);
        let who = Signature { name: "A".to_owned(), email: "a@localhost".to_owned(), seconds: 1_700_000_000 };
        let meta =
            CommitMeta { author: who.clone(), committer: who, message: "Push".to_owned(), signing_key: None };
        let content = "pushed".repeat(100_000).into();
        let change = TreeChange::Put { path: "c".to_owned(), content, executable: false };
        let made = source.commit(Some(&second), &[change], &meta, &world.cancel).await.unwrap().unwrap();
        source.push("main", Some(&second), &made, &world.cancel).await.unwrap();
        assert_eq!(world.source().resolve("main", &world.cancel).await.unwrap(), made);
    }
}

#[tokio::test]
async fn what_no_branch_points_at_is_had_from_a_server_of_v0_too() {
    for more in [&[V2][..], &[]] {
        let Some(world) = World::new("ed25519", &["ed25519"], "", more) else { return };
        let oldest = world.commit([Edit::put("a", "1")]);
        let tagged = world.commit([Edit::put("a", "2")]);
        let git = ["-C", world.repository().to_str().unwrap(), "-c", "user.name=A", "-c", "user.email=a@b"]
            .map(str::to_owned);
        let tag = ["tag", "-a", "-m", "tagged", "v1", tagged.as_str()];
        let done = std::process::Command::new("git").args(git).args(tag).status().unwrap();
        assert!(done.success());
        world.commit([Edit::put("a", "3")]);
        for wanted in [&tagged, &oldest] {
            // Another cache each time.
            let known_hosts = format!("{}\n# {wanted}", world.server.known_hosts());
            let source =
                world.source_as(&world.git(SshAlgorithms::default()), world.identity(None, &known_hosts));
            let tree = source.tree(wanted, "", &world.cancel).await.unwrap();
            assert_eq!(paths(&tree), ["a"], "{more:?}");
        }
        let nowhere = Revision::new("1".repeat(40));
        let error = world.source().tree(&nowhere, "", &world.cancel).await.unwrap_err();
        assert!(matches!(error, GitError::RevisionMissing { .. }), "{more:?}: {error}");
    }
}

#[tokio::test]
async fn keys_of_every_common_type_are_taken_for_users_and_for_servers() {
    for (host_key, kind, passphrase) in [
        ("rsa", &["ed25519"][..], "a passphrase"),
        ("ecdsa", &["rsa", "-b", "2048"], ""),
        ("ed25519", &["ecdsa", "-b", "384"], "a passphrase"),
        ("ed25519", &["rsa", "-b", "2048", "-m", "PEM"], ""),
    ] {
        let Some(world) = World::new(host_key, kind, passphrase, &[]) else { return };
        let tip = world.commit([Edit::put("a", "1")]);
        let passphrase = Some(passphrase).filter(|it| !it.is_empty());
        let git = world.git(SshAlgorithms::default());
        let source = world.source_as(&git, world.identity(passphrase, world.server.known_hosts()));
        assert_eq!(source.resolve("main", &world.cancel).await.unwrap(), tip, "{host_key} {kind:?}");
    }
}

#[tokio::test]
async fn nobody_is_trusted_or_let_in_who_is_not_known() {
    let Some(world) = World::new("ed25519", &["ed25519"], "a passphrase", &[V2]) else { return };
    world.commit([Edit::put("a", "1")]);
    let git = world.git(SshAlgorithms::default());
    let known = world.server.known_hosts();
    let locked = world.refused(&git, world.identity(None, known)).await;
    assert!(locked.to_string().contains("protected by a passphrase, and none is given"), "{locked}");
    let wrong = world.refused(&git, world.identity(Some("another"), known)).await;
    assert!(wrong.to_string().contains("cannot be read with the passphrase"), "{wrong}");
    assert_eq!((locked.reason(), wrong.reason()), ("AuthenticationFailed", "AuthenticationFailed"));
    let pass = Some("a passphrase");
    let elsewhere = known.replace("127.0.0.1", "127.0.0.2");
    let unknown = world.refused(&git, world.identity(pass, &elsewhere)).await;
    assert!(unknown.to_string().contains("known_hosts has no key of it"), "{unknown}");
    let (_, other) = ssh_key(&world.folder.path().join("other"), &["ed25519"], "").unwrap();
    let name = known.split_once(' ').unwrap().0;
    let changed = world.refused(&git, world.identity(pass, &format!("{name} {other}"))).await;
    assert!(changed.to_string().contains("it shows another key"), "{changed}");
    let revoked = world.refused(&git, world.identity(pass, &format!("{known}\n@revoked {known}"))).await;
    assert!(revoked.to_string().contains("known_hosts has no key of it"), "{revoked}");
    assert_eq!(unknown.reason(), "InvalidSpec");
    let empty = world.refused(&git, world.identity(pass, "nonsense")).await;
    assert!(empty.to_string().contains("known_hosts has no line"), "{empty}");
    let (stranger, _) = ssh_key(&world.folder.path().join("stranger"), &["ed25519"], "").unwrap();
    let stranger = Credentials::Ssh(SshIdentity::new(stranger.into(), None, known));
    let refused = world.refused(&git, stranger).await;
    assert!(matches!(refused, GitError::SshKeyRefused { .. }), "{refused}");
    let gone = Remote {
        url: world.server.url(&world.folder.path().join("gone.git")),
        credentials: Some(world.identity(pass, known)),
        ..Remote::default()
    };
    let gone = git.remote(gone).unwrap().resolve("main", &world.cancel).await.unwrap_err();
    assert!(matches!(gone, GitError::NotFound { .. }), "{gone}");
}

#[tokio::test]
async fn only_the_algorithms_that_are_named_are_offered() {
    let Some(world) = World::new("ed25519", &["ed25519"], "", &["KexAlgorithms ecdh-sha2-nistp256"]) else {
        return;
    };
    let tip = world.commit([Edit::put("a", "1")]);
    let with = |kex: &str, key: &str| SshAlgorithms {
        key_exchange: vec![kex.to_owned()],
        host_keys: vec![key.to_owned()],
    };
    let known = || world.identity(None, world.server.known_hosts());
    let git = world.git(with("ecdh-sha2-nistp256", "ssh-ed25519"));
    assert_eq!(world.source_as(&git, known()).resolve("main", &world.cancel).await.unwrap(), tip);
    let none = world.refused(&world.git(with("ecdh-sha2-nistp384", "ssh-ed25519")), known()).await;
    assert!(matches!(none, GitError::Unreachable { .. }), "{none}");
    let none = world.refused(&world.git(with("ecdh-sha2-nistp256", "rsa-sha2-256")), known()).await;
    assert!(none.to_string().contains("other types than are allowed"), "{none}");
}

#[tokio::test]
async fn a_server_that_is_silent_or_speaks_nonsense_is_given_up() {
    for (command, words) in [
        ("sleep 600", "within 1s"),
        ("yes", "a frame begins with"),
        ("echo This account has no shell; exit 1", "a frame begins with"),
        ("echo permission denied >&2; exit 1", "permission denied"),
        ("printf '0030ERR access to this repository is not for you'; sleep 600", "not for you"),
        ("exit 0", "ended in the middle"),
    ] {
        let force = format!("ForceCommand {command}");
        let Some(world) = World::new("ed25519", &["ed25519"], "", &[&force]) else { return };
        let mut config = GitConfig::new(world.folder.path().join("cache"));
        config.policy = UrlPolicy::default().allow_origin(&world.server.origin()).unwrap();
        // The others answer as soon as the machine lets them.
        let read = if words == "within 1s" { Duration::from_secs(1) } else { generous().read };
        config.deadlines = Deadlines { read, ..generous() };
        let git = Git::new(config).unwrap();
        let error = world.refused(&git, world.identity(None, world.server.known_hosts())).await;
        assert!(error.to_string().contains(words), "{command}: {error}");
    }
}

#[tokio::test]
async fn what_is_too_much_or_too_private_is_not_taken_over_ssh() {
    let Some(world) = World::new("ed25519", &["ed25519"], "", &[V2]) else { return };
    let mut state = 7_u64;
    let mut letter = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        char::from(b'a' + u8::try_from((state >> 33) % 26).unwrap())
    };
    let noise: String = (0..400_000).map(&mut letter).collect();
    let tip = world.commit([Edit::put("a", noise)]);
    let limits = Limits { pack_bytes: 10_000, ..Limits::default() };
    let mut config = GitConfig::new(world.folder.path().join("cache-2"));
    config.policy = UrlPolicy::default().allow_origin(&world.server.origin()).unwrap();
    (config.limits, config.deadlines) = (limits, generous());
    let known = || world.identity(None, world.server.known_hosts());
    let source = world.source_as(&Git::new(config).unwrap(), known());
    let error = source.tree(&tip, "", &world.cancel).await.unwrap_err();
    assert!(matches!(error, GitError::LimitExceeded { limit: "pack_bytes", .. }), "{error}");
    let private = Git::new(GitConfig::new(world.folder.path().join("cache-3"))).unwrap();
    let url = world.server.url(&world.repository());
    let refused =
        |url: String, credentials| match private.remote(Remote { url, credentials, ..Remote::default() }) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("it is taken"),
        };
    assert!(refused(url.clone(), Some(known())).contains("not a public address"));
    assert!(refused(url, None).contains("ssh: is not supported"));
    for bad in
        ["ssh://git:pw@example.org/a", "ssh://-oProxyCommand=x/a", "ssh://a;b/c", "git@example.org:a/b"]
    {
        refused(bad.to_owned(), Some(known()));
    }
    // A name that only the resolver knows to be this machine's.
    let named = Remote {
        url: format!("ssh://localhost:{}/a", world.server.origin().rsplit_once(':').unwrap().1),
        credentials: Some(
            world.identity(None, &world.server.known_hosts().replace("127.0.0.1", "localhost")),
        ),
        ..Remote::default()
    };
    let error = private.remote(named).unwrap().resolve("main", &world.cancel).await.unwrap_err();
    assert!(
        matches!(&error, GitError::PolicyRefused { detail, .. } if detail.contains("localhost resolves to")),
        "{error}"
    );
}
