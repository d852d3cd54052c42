//! `windlass store`: what can be done with a store, mostly while no server has it open.
#![expect(clippy::print_stdout, reason = "its answer goes to standard output")]

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Subcommand;
use futures::AsyncReadExt as _;
use windlass_apiserver::store::{self, BackupError, Copied, Key, OpenError, Stored};
use windlass_auth::ApiClients;

/// How many bytes are read from a server at a time.
const PIECE: usize = 64 << 10;

/// Options of `windlass store`.
#[derive(clap::Args)]
pub(crate) struct StoreArgs {
    #[command(subcommand)]
    command: StoreCommand,
}

#[derive(Subcommand)]
enum StoreCommand {
    /// Read every object and its checksum, and name those that are damaged: 1 if there are any.
    Check {
        /// The folder that `windlass serve` was given as `--data-dir`, or the store's file in it.
        #[arg(value_name = "PATH")]
        path: PathBuf,
    },
    /// Print one object as it is stored, also one that a server cannot read: 1 if it is damaged. No server may run on it.
    Get {
        /// The folder that `windlass serve` was given as `--data-dir`, or the store's file in it.
        #[arg(value_name = "PATH")]
        path: PathBuf,
        /// Its resource, and the group if it has one.
        #[arg(value_name = "PLURAL[.GROUP]")]
        resource: String,
        /// Its name, and the namespace if it has one, as `check` says them.
        #[arg(value_name = "[NAMESPACE/]NAME")]
        name: String,
    },
    /// Copy all objects as they are at one moment; a server that runs on the store goes on. The keys are not part of it.
    Backup {
        /// The folder that `windlass serve` was given as `--data-dir`, or the store's file in it.
        #[arg(value_name = "PATH")]
        path: PathBuf,
        /// The file to write. One that is there is replaced once the copy is whole.
        #[arg(value_name = "COPY")]
        copy: PathBuf,
        /// The kubeconfig to reach a server that runs [default: kubeconfig in the data folder].
        #[arg(long, value_name = "FILE")]
        kubeconfig: Option<PathBuf>,
    },
    /// Make a store of a copy, where there is none.
    Restore {
        /// What `windlass store backup` wrote.
        #[arg(value_name = "COPY")]
        copy: PathBuf,
        /// The folder that `windlass serve` is given as `--data-dir`, or the store's file in it.
        #[arg(value_name = "PATH")]
        path: PathBuf,
    },
    /// Give back to the system what is free in the store's file. No server may run on it.
    Compact {
        /// The folder that `windlass serve` was given as `--data-dir`, or the store's file in it.
        #[arg(value_name = "PATH")]
        path: PathBuf,
    },
}

/// Does what was asked for.
pub(crate) async fn run(args: StoreArgs) -> Result<ExitCode> {
    match args.command {
        StoreCommand::Check { path } => check(&file_of(&path)),
        StoreCommand::Get { path, resource, name } => get(&file_of(&path), &resource, &name),
        StoreCommand::Backup { path, copy, kubeconfig } => backup(&path, &copy, kubeconfig).await,
        StoreCommand::Restore { copy, path } => restore(&copy, &path),
        StoreCommand::Compact { path } => {
            let done = store::compact_file(&file_of(&path))?;
            println!("{} bytes before, {} bytes now", done.before, done.after);
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The store's file in a data folder.
fn file_of(path: &Path) -> PathBuf {
    if path.is_dir() { path.join("store.redb") } else { path.to_owned() }
}

fn check(file: &Path) -> Result<ExitCode> {
    let checked = store::check_file(file)?;
    println!("{} objects can be read", checked.objects);
    for problem in &checked.damaged {
        println!("{problem}");
    }
    if checked.damaged.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    println!("{} are damaged: restore the store from a copy", checked.damaged.len());
    Ok(ExitCode::FAILURE)
}

fn get(file: &Path, resource: &str, name: &str) -> Result<ExitCode> {
    let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    let key = Key::new(group, plural, namespace, name)?;
    let Some(stored) = store::read_object(file, &key)? else { bail!("there is no {key}") };
    let (Stored::Whole(value) | Stored::Damaged(value)) = &stored;
    io::stdout().write_all(value).context("failed to write the object")?;
    if matches!(stored, Stored::Damaged(_)) {
        bail!("{key} is damaged: this is what is left of it");
    }
    Ok(ExitCode::SUCCESS)
}

async fn backup(path: &Path, copy: &Path, kubeconfig: Option<PathBuf>) -> Result<ExitCode> {
    let partial = copy.with_added_extension("partial");
    let written = write_copy(path, &partial, kubeconfig).await.and_then(|copied| {
        fs::rename(&partial, copy).with_context(|| format!("failed to write {}", copy.display()))?;
        Ok(copied)
    });
    if written.is_err() {
        let _ = fs::remove_file(&partial);
    }
    Ok(tell(written?))
}

/// Writes a whole copy, from the file or, where a server has it open, from the server.
async fn write_copy(path: &Path, partial: &Path, kubeconfig: Option<PathBuf>) -> Result<Copied> {
    let failed = || format!("failed to write {}", partial.display());
    let mut options = File::options();
    let mut file =
        options.create(true).truncate(true).write(true).mode(0o600).open(partial).with_context(failed)?;
    let copied = store::backup_file(&file_of(path), &mut io::BufWriter::new(&file));
    if let Err(BackupError::Open(OpenError::Locked { .. })) = &copied {
        let beside = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
        let kubeconfig = kubeconfig.unwrap_or_else(|| beside.join("kubeconfig"));
        let clients = ApiClients::from_kubeconfig(&kubeconfig, None).await;
        let client = clients
            .context("a server has the store open, and there is no connection to it: give --kubeconfig FILE")?
            .core;
        let request = http::Request::get("/store/backup").body(Vec::new())?;
        let mut answer = Box::pin(client.request_stream(request).await.context("failed to ask the server")?);
        let mut piece = vec![0; PIECE];
        loop {
            let read = answer.read(&mut piece).await.context("the server broke its answer off")?;
            if read == 0 {
                break;
            }
            file.write_all(&piece[..read]).with_context(failed)?;
        }
    } else {
        copied?;
    }
    file.sync_all().with_context(failed)?;
    // Read back: what was written is known to be whole.
    let mut written = io::BufReader::new(File::open(partial).with_context(failed)?);
    Ok(store::check_copy(&mut written)?)
}

fn restore(copy: &Path, path: &Path) -> Result<ExitCode> {
    let from = File::open(copy).with_context(|| format!("failed to read {}", copy.display()))?;
    if !path.exists() && path.extension().is_none() {
        bail!("there is no folder {}", path.display());
    }
    Ok(tell(store::restore(&mut io::BufReader::new(from), &file_of(path))?))
}

fn tell(copied: Copied) -> ExitCode {
    println!("{} objects at revision {}", copied.objects, copied.revision);
    if copied.damaged == 0 {
        return ExitCode::SUCCESS;
    }
    println!("{} are damaged and not in the copy: `windlass store check` names them", copied.damaged);
    ExitCode::FAILURE
}
