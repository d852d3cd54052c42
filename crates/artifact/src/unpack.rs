//! The files of an artifact that is included in another one.

use std::io;
use std::path::Path;

use flate2::read::GzDecoder;

use crate::{ArchiveError, Content, Member, Node, tar};

/// The files of an artifact that are under `from` (empty: all), with their paths under `to`; at most `max` bytes. None when
/// there is no such directory. Blocking.
pub fn unpack(archive: &Path, from: &str, to: &str, max: u64) -> Result<Option<Vec<Member>>, ArchiveError> {
    let path = archive.display().to_string();
    let failed = |source| ArchiveError::Unpack { path: path.clone(), source };
    let file = std::fs::File::open(archive).map_err(failed)?;
    let (mut members, mut left, mut exists) = (Vec::new(), max, from.is_empty());
    let mut too_large = false;
    let read = tar::read(GzDecoder::new(io::BufReader::new(file)), |name, kind, size, content| {
        let below = if from.is_empty() { Some(name) } else { name.strip_prefix(from) };
        let below = match below {
            Some("") => {
                exists |= kind == tar::Kind::Directory;
                return Ok(());
            }
            Some(rest) if from.is_empty() && rest != "." => rest,
            Some(rest) => match rest.strip_prefix('/') {
                Some(rest) => rest,
                None => return Ok(()),
            },
            None => return Ok(()),
        };
        exists = true;
        let node = match kind {
            tar::Kind::Directory => Node::Directory,
            tar::Kind::File { executable } => {
                too_large |= size > left;
                if too_large {
                    return Err(io::ErrorKind::FileTooLarge.into());
                }
                left -= size;
                let mut bytes = Vec::new();
                content.read_to_end(&mut bytes)?;
                Node::File { executable, content: Content::Bytes(bytes.into()) }
            }
        };
        let path = if to.is_empty() { below.to_owned() } else { format!("{to}/{below}") };
        members.push(Member { path, node });
        Ok(())
    });
    match read {
        Ok(()) => Ok(exists.then_some(members)),
        Err(_) if too_large => Err(ArchiveError::TooLarge { path, max }),
        Err(source) => Err(failed(source)),
    }
}
