//! Proxies that others wrote, squid and dante, which ask who comes: processes that live as long as their values.

use std::fs::Permissions;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::is_missing;

/// How long one may take to come up.
const DEADLINE: Duration = Duration::from_secs(20);
/// What dante is told of users by, in place of the machine's own: a library that stands before the system's.
const NSS_WRAPPER: &str = "libnss_wrapper.so";
/// `PASSWORD` as `/etc/shadow` has it: `openssl passwd -6`.
const SHADOW: &str = "$6$jEVCwsmdKhFbKde.$fmvERnnKQ.JSCEOVlQYDkRjtMPyov9UaPEd53Z/ucRbbDC4uzqqp4u4TMwhfA/0/2cQ5VRlpwhMb9H0tYK4tm/";

/// A running proxy on a free port of 127.0.0.1 that lets [`PeerProxy::USER`] through.
pub struct PeerProxy {
    child: Child,
    address: String,
    folder: PathBuf,
    /// Where it says whom it let through, in lines with this word.
    said: (PathBuf, &'static str),
}

impl PeerProxy {
    /// Who is let through.
    pub const USER: &'static str = "me";
    /// With which password.
    pub const PASSWORD: &'static str = "p@ss:word";

    /// squid, for HTTP and `CONNECT`. `None`: it is missing, which [`is_missing`] has judged.
    pub fn squid() -> io::Result<Option<Self>> {
        if is_missing("squid") {
            return Ok(None);
        }
        let (folder, port) = place("squid")?;
        let path = |name: &str| folder.join(name).display().to_string();
        // Its helper for logins, which speaks by lines.
        let login = format!(
            "while read -r login; do\n  if [ \"$login\" = '{} {}' ]; then echo let in >> {}; echo OK; else echo ERR; fi\ndone\n",
            Self::USER,
            Self::PASSWORD,
            path("said"),
        );
        std::fs::write(folder.join("login.sh"), login)?;
        let config = format!(
            "http_port 127.0.0.1:{port}\npid_filename none\ncache deny all\naccess_log none\ncache_log {}\n\
             coredump_dir {}\nnetdb_filename none\npinger_enable off\nauth_param basic program /bin/sh {}\n\
             auth_param basic children 1\nacl known proxy_auth REQUIRED\nhttp_access allow known\n\
             http_access deny all\n",
            path("cache.log"),
            folder.display(),
            path("login.sh"),
        );
        std::fs::write(folder.join("config"), config)?;
        let mut command = Command::new(crate::ssh_server::find("squid").unwrap_or_default());
        command.arg("-N").arg("-f").arg(folder.join("config"));
        let said = (folder.join("said"), "let in");
        Self::run(command, format!("http://127.0.0.1:{port}"), folder, said).map(Some)
    }

    /// dante, for SOCKS5. `None`: it is missing, which [`is_missing`] has judged.
    pub fn dante() -> io::Result<Option<Self>> {
        if is_missing("danted") || is_missing(NSS_WRAPPER) {
            return Ok(None);
        }
        let (folder, port) = place("dante")?;
        let output = Command::new("id").arg("-un").output()?;
        let own = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let id = |flag: &str| -> io::Result<String> {
            Ok(String::from_utf8_lossy(&Command::new("id").arg(flag).output()?.stdout).trim().to_owned())
        };
        let (uid, gid) = (id("-u")?, id("-g")?);
        let user = Self::USER;
        let users = format!("{own}:x:{uid}:{gid}::/:/bin/false\n{user}:x:65533:65533::/:/bin/false\n");
        std::fs::write(folder.join("passwd"), users)?;
        std::fs::write(folder.join("group"), format!("{own}:x:{gid}:\n{user}:x:65533:\n"))?;
        std::fs::write(folder.join("shadow"), format!("{user}:{SHADOW}:19000:0:99999:7:::\n"))?;
        let config = format!(
            "logoutput: {}\ninternal: 127.0.0.1 port = {port}\nexternal: 127.0.0.1\nclientmethod: none\n\
             socksmethod: username\nuser.privileged: {own}\nuser.unprivileged: {own}\n\
             client pass {{ from: 127.0.0.0/8 to: 0.0.0.0/0 }}\n\
             socks pass {{ from: 127.0.0.0/8 to: 0.0.0.0/0 log: connect }}\n",
            folder.join("said").display(),
        );
        std::fs::write(folder.join("config"), config)?;
        let mut command = Command::new(crate::ssh_server::find("danted").unwrap_or_default());
        command.arg("-f").arg(folder.join("config")).args(["-N", "1"]);
        command.env("LD_PRELOAD", NSS_WRAPPER);
        for (variable, file) in [("PASSWD", "passwd"), ("GROUP", "group"), ("SHADOW", "shadow")] {
            command.env(format!("NSS_WRAPPER_{variable}"), folder.join(file));
        }
        let said = (folder.join("said"), "pass(1): tcp/connect");
        Self::run(command, format!("socks5://127.0.0.1:{port}"), folder, said).map(Some)
    }

    fn run(
        mut command: Command,
        address: String,
        folder: PathBuf,
        said: (PathBuf, &'static str),
    ) -> io::Result<Self> {
        let log = std::fs::File::create(folder.join("log"))?;
        let child = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?;
        let proxy = Self { child, address, folder, said };
        let listens = proxy.address.rsplit_once('/').map_or("", |(_, listens)| listens).to_owned();
        let until = Instant::now() + DEADLINE;
        while TcpStream::connect(&listens).is_err() {
            if Instant::now() > until {
                let log = std::fs::read_to_string(proxy.folder.join("log"))?;
                return Err(io::Error::other(format!("{command:?} does not listen: {log}")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(proxy)
    }

    /// `http://127.0.0.1:<port>` or `socks5://…`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// How often somebody was let through, as far as it has said so. squid asks for a login once, and remembers it.
    pub fn passed(&self) -> u64 {
        let (file, word) = &self.said;
        let said = std::fs::read_to_string(file).unwrap_or_default();
        said.lines().filter(|line| line.contains(word)).count() as u64
    }
}

impl Drop for PeerProxy {
    fn drop(&mut self) {
        // Asked first: dante's other processes end with it then.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let until = Instant::now() + Duration::from_secs(2);
        while !matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ended_before = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A folder, and a port that is free now. Started by root, squid gives up its rights, and must be able to write all the same.
fn place(name: &str) -> io::Result<(PathBuf, u16)> {
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let folder = std::env::temp_dir().join(format!("windlass-{name}-{}-{port}", std::process::id()));
    std::fs::create_dir(&folder)?;
    std::fs::set_permissions(&folder, Permissions::from_mode(0o777))?;
    Ok((folder, port))
}
