//! How fast an artifact comes out of the controller: few readers that go on, and many at once.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
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
    for (readers, target) in [(FEW, Target::AtLeast(2.0)), (MANY, Target::None)] {
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

/// Fetches the artifact so many times over one connection.
async fn read(url: Url, size: u64, times: u64) -> Result<()> {
    let (host, port) = (url.host_str().context("no host")?, url.port_or_known_default().context("no port")?);
    let mut stream = TcpStream::connect((host, port)).await?;
    let mut buffer = vec![0; 1 << 20];
    let request = format!("GET {} HTTP/1.1\r\nhost: {host}\r\n\r\n", url.path());
    for _ in 0..times {
        stream.write_all(request.as_bytes()).await?;
        let (mut head, mut left) = (Vec::new(), None);
        while left != Some(0) {
            let count = stream.read(&mut buffer).await?;
            ensure!(count > 0, "the controller closed the connection early");
            if let Some(left) = &mut left {
                *left -= count as u64;
                continue;
            }
            head.extend_from_slice(&buffer[..count]);
            if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
                ensure!(head.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&head[..end]));
                left = Some(size - (head.len() - end - 4) as u64);
            }
        }
    }
    Ok(())
}
