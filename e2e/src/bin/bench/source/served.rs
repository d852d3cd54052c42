//! How fast an artifact comes out of the controller: few readers that go on, and many at once.

use std::cell::RefCell;
use std::io;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use url::Url;

use super::Scene;
use crate::samples::Samples;
use crate::table::{Row, Table, Target, Unit};

/// Readers that go on, and how much they read together.
const FEW: usize = 8;
const BYTES: u64 = 16_000_000_000;
/// Readers at once, each of one artifact.
const MANY: usize = 500;

pub(super) async fn measure(table: &mut Table, scene: &Scene) -> Result<()> {
    let object = scene.objects.get("app-0").await?;
    let artifact = object.status.artifact.context("app-0 has no artifact")?;
    let size = u64::try_from(artifact.size.context("the artifact has no size")?)?;
    let url = Url::parse(&artifact.url)?;
    let note = format!("an artifact of {:.1} MB; readers and server share this machine", size as f64 / 1e6);
    for (readers, target) in [(FEW, Target::AtLeast(2.0)), (MANY, Target::AtLeast(2.0))] {
        let each = if readers == MANY { 1 } else { BYTES / (size * readers as u64) };
        let begun = Instant::now();
        let all = (0..readers).map(|_| tokio::spawn(read(url.clone(), size, each)));
        for reader in futures::future::join_all(all).await {
            reader??;
        }
        let bytes = size * readers as u64 * each;
        let speed = bytes as f64 / 1e9 / begun.elapsed().as_secs_f64();
        let figure = format!("source: an artifact served to {readers} readers at once");
        let row = Row::new(figure, target, Unit::GigabytesPerSecond, Samples::one(speed));
        table.add(row.note(note.as_str()));
    }
    Ok(())
}

/// Bytes that are taken from a socket at a time.
const TAKEN: usize = 256 << 10;

thread_local! {
    /// What readers read into. It is a thread's and not a reader's: five hundred of them would fill the processor's caches
    /// with what nobody looks at, and the readers, and not the server, would be measured.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; TAKEN]);
}

/// Fetches the artifact so many times over one connection.
async fn read(url: Url, size: u64, times: u64) -> Result<()> {
    let (host, port) = (url.host_str().context("no host")?, url.port_or_known_default().context("no port")?);
    let mut stream = TcpStream::connect((host, port)).await?;
    let request = format!("GET {} HTTP/1.1\r\nhost: {host}\r\n\r\n", url.path());
    for _ in 0..times {
        stream.write_all(request.as_bytes()).await?;
        let (mut head, mut left) = (Vec::new(), None::<u64>);
        while left != Some(0) {
            stream.readable().await?;
            let taken = BUFFER.with_borrow_mut(|buffer| {
                let count = stream.try_read(buffer)?;
                if left.is_none() {
                    head.extend_from_slice(&buffer[..count]);
                }
                io::Result::Ok(count)
            });
            let count = match taken {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                taken => taken?,
            };
            ensure!(count > 0, "the controller closed the connection early");
            if let Some(left) = &mut left {
                *left -= count as u64;
                continue;
            }
            if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
                ensure!(head.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&head[..end]));
                left = Some(size - (head.len() - end - 4) as u64);
            }
        }
    }
    Ok(())
}
