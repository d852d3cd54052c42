//! The same repositories over SSH: OpenSSH's own `sshd`, as a process that lives as long as its value.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take to come up.
const DEADLINE: Duration = Duration::from_secs(20);

/// A running `sshd` on this machine, of this process's user. It serves every repository that the user may read.
pub struct SshServer {
    child: Child,
    port: u16,
    user: String,
    known_hosts: String,
}

impl SshServer {
    /// Starts one whose files are in `folder`, which is made. It has a host key of the type `host_key` (as `ssh-keygen -t` has
    /// it) and lets the owner of `authorized` in, a line of `authorized_keys`; `more` are lines of its configuration.
    ///
    /// `None`: `sshd` or `ssh-keygen` is missing, which [`is_missing`] has judged.
    pub fn start(folder: &Path, host_key: &str, authorized: &str, more: &[&str]) -> io::Result<Option<Self>> {
        if is_missing("sshd") || is_missing("ssh-keygen") {
            return Ok(None);
        }
        let sshd = find("sshd").unwrap_or_default();
        std::fs::create_dir_all(folder)?;
        let (_, public) = ssh_key(&folder.join("host_key"), &[host_key], "")?;
        std::fs::write(folder.join("authorized_keys"), authorized)?;
        let user = said(Command::new("id").arg("-un"))?.trim().to_owned();
        if user == "root" {
            // As root it wants a folder for the processes that it gives up its rights in.
            let _there_already = std::fs::create_dir("/run/sshd");
        }
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let path = |name: &str| folder.join(name).display().to_string();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\n\
             UsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n{}\n",
            path("host_key"),
            path("authorized_keys"),
            more.join("\n"),
        );
        std::fs::write(folder.join("sshd_config"), config)?;
        let log = std::fs::File::create(folder.join("log"))?;
        let mut command = Command::new(sshd);
        command.args(["-D", "-e", "-f"]).arg(folder.join("sshd_config"));
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn()?;
        let known_hosts = format!("[127.0.0.1]:{port} {public}");
        let server = Self { child, port, user, known_hosts };
        let until = Instant::now() + DEADLINE;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if Instant::now() > until {
                let log = std::fs::read_to_string(folder.join("log"))?;
                return Err(io::Error::other(format!("sshd does not listen: {log}")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(Some(server))
    }

    /// `ssh://127.0.0.1:<port>`.
    pub fn origin(&self) -> String {
        format!("ssh://127.0.0.1:{}", self.port)
    }

    /// The repository in this folder.
    pub fn url(&self, repository: &Path) -> String {
        format!("ssh://{}@127.0.0.1:{}{}", self.user, self.port, repository.display())
    }

    /// What it is known by, as a line of `known_hosts`.
    pub fn known_hosts(&self) -> &str {
        &self.known_hosts
    }
}

impl Drop for SshServer {
    fn drop(&mut self) {
        let _ended_before = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes a key with `ssh-keygen` (`-t` and what follows as in `kind`) in `file`, and answers its private and its public half.
pub fn ssh_key(file: &Path, kind: &[&str], passphrase: &str) -> io::Result<(String, String)> {
    let mut command = Command::new("ssh-keygen");
    command.args(["-q", "-N", passphrase, "-C", "", "-f"]).arg(file).arg("-t").args(kind);
    said(&mut command)?;
    let private = std::fs::read_to_string(file)?;
    Ok((private, std::fs::read_to_string(file.with_extension("pub"))?.trim().to_owned()))
}

fn said(command: &mut Command) -> io::Result<String> {
    let output = command.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        return Err(io::Error::other(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr))));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A program of the search path, or of the folders where servers are.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Whether a library can stand before the system's.
fn is_library(name: &str) -> bool {
    let tried = Command::new("true").env("LD_PRELOAD", name).output();
    Path::new(name).extension().is_some_and(|it| it == "so")
        && tried.is_ok_and(|tried| tried.stderr.is_empty())
}

/// Whether a program or a library (`….so`) that a test needs is missing, so that the test is skipped, which is said. With `CI=true`, where
/// `cargo xtask ci` installs it, that is a failure.
///
/// # Panics
/// It is missing, with `CI=true`.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
pub fn is_missing(program: &str) -> bool {
    if find(program).is_some() || is_library(program) {
        return false;
    }
    let in_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    assert!(!in_ci, "{program} is missing; `cargo xtask peers` installs it");
    eprintln!("skipped: {program} is missing; install it with your system's packages");
    true
}
