//! Tar headers: ustar, and a pax record where a name does not fit. What is written says nothing of time, user or machine.

use std::io::{self, Read, Write};

/// Bytes of a header, and what contents are padded to.
const BLOCK: usize = 512;
const NAME: std::ops::Range<usize> = 0..100;
const LINK: std::ops::Range<usize> = 157..257;
const PREFIX: std::ops::Range<usize> = 345..500;
/// The most bytes of a pax header that is read.
const MAX_PAX: u64 = 64 << 10;

/// What kind of thing an entry of an archive is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Directory,
    File { executable: bool },
}

impl Kind {
    fn mode(self) -> u64 {
        match self {
            Self::Directory => 0o750,
            Self::File { executable: true } => 0o700,
            Self::File { executable: false } => 0o600,
        }
    }

    fn flag(self) -> u8 {
        match self {
            Self::Directory => b'5',
            Self::File { .. } => b'0',
        }
    }
}

/// Writes the header of an entry. Its content follows, and then [`pad`].
pub(crate) fn header(out: &mut impl Write, path: &str, kind: Kind, size: u64) -> io::Result<()> {
    if let Some((prefix, name)) = split(path) {
        return out.write_all(&block(prefix, name, "", kind.mode(), size, kind.flag())?);
    }
    pax(out, &pax_record("path", path))?;
    out.write_all(&block("", "long-name", "", kind.mode(), size, kind.flag())?)
}

/// Writes a symbolic link, which has no content.
pub(crate) fn link(out: &mut impl Write, path: &str, target: &str) -> io::Result<()> {
    let fits = target.is_ascii() && target.len() <= LINK.len();
    if let Some((prefix, name)) = split(path).filter(|_| fits) {
        return out.write_all(&block(prefix, name, target, 0o777, 0, b'2')?);
    }
    pax(out, &(pax_record("path", path) + &pax_record("linkpath", target)))?;
    out.write_all(&block("", "long-name", "", 0o777, 0, b'2')?)
}

/// Writes what the header after it has no room for.
fn pax(out: &mut impl Write, records: &str) -> io::Result<()> {
    out.write_all(&block("", "pax", "", 0o600, records.len() as u64, b'x')?)?;
    out.write_all(records.as_bytes())?;
    pad(out, records.len() as u64)
}

/// Fills up the last block of a content of `size` bytes.
pub(crate) fn pad(out: &mut impl Write, size: u64) -> io::Result<()> {
    let over = usize::try_from(size % BLOCK as u64).unwrap_or_default();
    if over == 0 { Ok(()) } else { out.write_all(&[0; BLOCK][over..]) }
}

/// Ends an archive.
pub(crate) fn end(out: &mut impl Write) -> io::Result<()> {
    out.write_all(&[0; 2 * BLOCK])
}

/// A path as the two fields of a header hold it; nothing if they cannot.
fn split(path: &str) -> Option<(&str, &str)> {
    if !path.is_ascii() {
        return None;
    }
    if path.len() <= NAME.len() {
        return Some(("", path));
    }
    let mut slashes = path.match_indices('/').map(|(at, _)| at);
    let at = slashes.find(|at| path.len() - at - 1 <= NAME.len() && *at > 0)?;
    (at <= PREFIX.len()).then(|| (&path[..at], &path[at + 1..])).filter(|(_, name)| !name.is_empty())
}

/// `<length> <key>=<value>\n`, where the length counts itself.
fn pax_record(key: &str, value: &str) -> String {
    let rest = format!(" {key}={value}\n");
    let mut length = rest.len();
    loop {
        let record = format!("{length}{rest}");
        if record.len() == length {
            return record;
        }
        length = record.len();
    }
}

/// The value of a record.
fn pax_value<'a>(mut records: &'a str, key: &str) -> Option<&'a str> {
    while let Some((digits, _)) = records.split_once(' ') {
        let length: usize = digits.parse().ok()?;
        let record = records.get(digits.len() + 1..length)?.strip_suffix('\n')?;
        if let Some((_, value)) = record.split_once('=').filter(|(known, _)| *known == key) {
            return Some(value);
        }
        records = records.get(length..)?;
    }
    None
}

fn block(prefix: &str, name: &str, target: &str, mode: u64, size: u64, flag: u8) -> io::Result<[u8; BLOCK]> {
    let mut block = [0; BLOCK];
    block[NAME][..name.len()].copy_from_slice(name.as_bytes());
    block[LINK][..target.len()].copy_from_slice(target.as_bytes());
    block[PREFIX][..prefix.len()].copy_from_slice(prefix.as_bytes());
    octal(&mut block[100..108], mode)?;
    octal(&mut block[108..116], 0)?;
    octal(&mut block[116..124], 0)?;
    octal(&mut block[124..136], size)?;
    octal(&mut block[136..148], 0)?;
    block[156] = flag;
    block[257..265].copy_from_slice(b"ustar\x0000");
    octal(&mut block[329..337], 0)?;
    octal(&mut block[337..345], 0)?;
    let sum = checksum(&block);
    octal(&mut block[148..155], sum)?;
    block[155] = b' ';
    Ok(block)
}

/// Of a header whose own field counts as spaces.
fn checksum(block: &[u8; BLOCK]) -> u64 {
    let spaces = 8 * u64::from(b' ');
    block[..148].iter().chain(&block[156..]).map(|byte| u64::from(*byte)).sum::<u64>() + spaces
}

fn octal(field: &mut [u8], value: u64) -> io::Result<()> {
    let digits = field.len() - 1;
    let text = format!("{value:0digits$o}");
    if text.len() > digits {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "too large for an archive"));
    }
    field[..digits].copy_from_slice(text.as_bytes());
    Ok(())
}

/// Reads an archive that this crate wrote, without its links. `found` gets each entry's path, kind, size and content, which it may leave
/// unread. Anything that this crate does not write is an error.
pub(crate) fn read<R: Read>(
    mut from: R,
    mut found: impl FnMut(&str, Kind, u64, &mut dyn Read) -> io::Result<()>,
) -> io::Result<()> {
    let mut long_name: Option<String> = None;
    loop {
        let mut block = [0; BLOCK];
        from.read_exact(&mut block)?;
        if block.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        if parse_octal(&block[148..156])? != checksum(&block) {
            return Err(malformed("a header's sum is wrong"));
        }
        let size = parse_octal(&block[124..136])?;
        let mut content = (&mut from).take(size);
        match block[156] {
            b'x' if size <= MAX_PAX => {
                let mut text = String::new();
                content.read_to_string(&mut text)?;
                let path = pax_value(&text, "path");
                long_name = Some(path.ok_or_else(|| malformed("a pax header names no path"))?.to_owned());
            }
            // Nobody who reads follows a link.
            b'2' => long_name = None,
            flag @ (b'0' | b'5') => {
                let executable = parse_octal(&block[100..108])? & 0o100 != 0;
                let kind = if flag == b'5' { Kind::Directory } else { Kind::File { executable } };
                let path = match long_name.take() {
                    Some(path) => path,
                    None => match (text(&block[PREFIX])?, text(&block[NAME])?) {
                        ("", name) => name.to_owned(),
                        (prefix, name) => format!("{prefix}/{name}"),
                    },
                };
                found(&path, kind, size, &mut content)?;
            }
            _ => return Err(malformed("an entry is of a kind that is not written")),
        }
        io::copy(&mut content, &mut io::sink())?;
        if content.limit() > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let padding = (BLOCK as u64 - size % BLOCK as u64) % BLOCK as u64;
        io::copy(&mut (&mut from).take(padding), &mut io::sink())?;
    }
}

fn text(field: &[u8]) -> io::Result<&str> {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    std::str::from_utf8(&field[..end]).map_err(|_| malformed("a name is not UTF-8"))
}

fn parse_octal(field: &[u8]) -> io::Result<u64> {
    let digits = text(field)?.trim();
    u64::from_str_radix(digits, 8).map_err(|_| malformed("a number is none"))
}

fn malformed(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_any_length_and_script_are_read_back() {
        let long = format!("{}/{}", "d".repeat(150), "n".repeat(99));
        let longer = format!("{}/{}", "d".repeat(200), "n".repeat(120));
        let names = [".", "a", "ä/☺", long.as_str(), longer.as_str()];
        let mut archive = Vec::new();
        for (index, name) in names.iter().enumerate() {
            let content = vec![b'x'; index * 300];
            header(&mut archive, name, Kind::File { executable: index % 2 == 0 }, content.len() as u64)
                .unwrap();
            archive.write_all(&content).unwrap();
            pad(&mut archive, content.len() as u64).unwrap();
        }
        end(&mut archive).unwrap();
        let mut seen = Vec::new();
        read(&archive[..], |path, kind, size, content| {
            let mut all = Vec::new();
            content.read_to_end(&mut all)?;
            assert_eq!(all.len() as u64, size);
            seen.push((path.to_owned(), kind));
            Ok(())
        })
        .unwrap();
        for (index, name) in names.iter().enumerate() {
            assert_eq!(seen[index], ((*name).to_owned(), Kind::File { executable: index % 2 == 0 }));
        }
        assert!(read(&archive[..700], |_, _, _, _| Ok(())).is_err(), "one that is cut off is no archive");
    }
}
