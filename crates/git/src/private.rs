//! Files and folders that only the process's own user may read, whatever its umask says.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

/// Permissions of a file.
pub(crate) const FILE: u32 = 0o600;

/// Makes a folder; an error if it is there.
pub(crate) fn create_dir(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Makes a folder with those above it, and takes everybody else's permissions away from it if it was there. One that
/// belongs to somebody else, or that everybody may put something into, stays as it is: what is made in it is private.
pub(crate) fn create_dir_all(path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    match create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
        result => return result,
    }
    let metadata = fs::metadata(path)?;
    if is_shared(&metadata) {
        return Ok(());
    }
    match restrict(path, &metadata) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        result => result,
    }
}

/// Creates a file for writing, or empties it.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    open(OpenOptions::new().create(true).write(true).truncate(true), path)
}

/// Opens a file with `options`, made for this user alone if it is made.
pub(crate) fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, FILE);
    options.open(path)
}

/// Takes everybody else's permissions away from `path` and all that is in it; links are not followed.
pub(crate) fn tighten(path: &Path) -> io::Result<()> {
    let metadata = fs::symlink_metadata(path)?;
    restrict(path, &metadata)?;
    if metadata.is_dir() {
        for entry in fs::read_dir(path)? {
            match tighten(&entry?.path()) {
                // Another process's, gone since.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                result => result?,
            }
        }
    }
    Ok(())
}

/// Whether it is a folder like `/tmp`.
#[cfg(unix)]
fn is_shared(metadata: &fs::Metadata) -> bool {
    std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o1000 != 0
}

#[cfg(not(unix))]
fn is_shared(_: &fs::Metadata) -> bool {
    false
}

#[cfg(unix)]
fn restrict(path: &Path, metadata: &fs::Metadata) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = metadata.permissions().mode();
    let own = if metadata.is_dir() { 0o700 } else { FILE };
    if metadata.is_symlink() || mode & 0o777 & !own == 0 {
        return Ok(());
    }
    fs::set_permissions(path, fs::Permissions::from_mode(own))
}

#[cfg(not(unix))]
fn restrict(_: &Path, _: &fs::Metadata) -> io::Result<()> {
    Ok(())
}
