//! What a normal client notices while somebody at another address attacks the API server, and what that takes of memory.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use windlass_e2e::Server;

use crate::api::{Api, DASHBOARDS};
use crate::samples::Samples;
use crate::server::{Peak, memory};
use crate::table::{Row, Table, Target, Unit};

/// How long each attack lasts.
const LASTS: Duration = Duration::from_secs(5);
/// Where the attacker is.
const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// Connections that never finish a request.
const SLOW: usize = 500;
/// Connections that begin requests and take them back.
const RESETTING: usize = 8;
const IDLE: usize = 2_000;
const WATCHES: usize = 150;
/// Megabytes of objects that each watch is told of and does not read.
const WATCHED: usize = 15;
const FINALIZERS: usize = 20_000;
/// How many handshakes are under way at a time.
const AT_ONCE: usize = 32;
/// A normal client is answered within this time, nearly always.
const ANSWERED: f64 = 1_000.0;
const NORMAL: &str = "/apis/dashboard.grafana.app/v1beta1/namespaces/default/dashboards/normal";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

pub(crate) async fn measure(table: &mut Table) -> Result<()> {
    windlass_auth::install_crypto_provider()?;
    let server = Server::start(&[]).await?;
    let normal = Api::of(&server).await?;
    normal.post(DASHBOARDS, dashboard("normal", 10)).await?;
    let attacker = Attacker::new(&server).await?;
    let scene = Scene { process: server.process.id().context("the server is gone")?, normal };
    scene.meanwhile(table, "nothing", async { Ok(()) }).await?;
    scene.meanwhile(table, &format!("{SLOW} requests that do not end"), attacker.slow()).await?;
    scene.meanwhile(table, "HTTP/2 streams begun and reset", attacker.resets()).await?;
    scene.meanwhile(table, &format!("{IDLE} connections"), attacker.connections()).await?;
    let patches = format!("patches of {FINALIZERS} finalizers");
    scene.meanwhile(table, &patches, attacker.finalizers()).await?;
    attacker.prepare_watches().await?;
    let watches = format!("{WATCHES} watches of {WATCHED} MB that nobody reads");
    scene.meanwhile(table, &watches, attacker.watches()).await
}

struct Scene {
    process: u32,
    normal: Api,
}

impl Scene {
    /// Lets a normal client read and write while an attack goes on.
    async fn meanwhile(
        &self,
        table: &mut Table,
        attack: &str,
        attacking: impl Future<Output = Result<()>> + Send,
    ) -> Result<()> {
        let before = memory(&[self.process])?;
        let peak = Peak::of(vec![self.process]);
        let normal = self.normal();
        tokio::pin!(attacking, normal);
        let times = tokio::select! {
            times = &mut normal => times?,
            ended = &mut attacking => {
                ended.with_context(|| format!("the attack of {attack}"))?;
                normal.await?
            }
        };
        let peak = peak.end().await;
        let note = format!(
            "{} requests, at most {:.0} ms; memory at most {peak:.0} MB, {before:.0} MB before",
            times.len(),
            times.max()
        );
        let target = Target::AtMost(ANSWERED);
        let p99 = Samples::one(times.percentile(99));
        let figure = format!("p99 of a normal client during: {attack}");
        table.add(Row::new(figure, target, Unit::Millis, p99).note(note));
        Ok(())
    }

    async fn normal(&self) -> Result<Samples> {
        let (started, mut times) = (Instant::now(), Vec::new());
        for turn in 0_u64.. {
            if started.elapsed() >= LASTS {
                break;
            }
            let begun = Instant::now();
            if turn % 4 == 0 {
                self.normal.merge(NORMAL, &json!({ "spec": { "turn": turn } })).await?;
            } else {
                self.normal.get(NORMAL).await?;
            }
            times.push(begun.elapsed());
        }
        Ok(Samples::millis(times))
    }
}

struct Attacker {
    api: Api,
    address: SocketAddr,
    tls: TlsConnector,
}

impl Attacker {
    async fn new(server: &Server) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(server.ca_file())?)?;
        let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self {
            api: Api::from(server, IpAddr::V4(ATTACKER)).await?,
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, server.api)),
            tls: TlsConnector::from(Arc::new(config)),
        })
    }

    async fn connect(&self) -> Result<TlsStream<TcpStream>> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from((ATTACKER, 0)))?;
        let stream = socket.connect(self.address).await?;
        Ok(self.tls.connect(ServerName::try_from("localhost")?.to_owned(), stream).await?)
    }

    async fn many(&self, count: usize) -> Result<Vec<TlsStream<TcpStream>>> {
        let connecting = futures::stream::iter(0..count).map(|_| self.connect());
        connecting.buffer_unordered(AT_ONCE).try_collect().await
    }

    /// Half a request on each connection, which grows by a byte now and then.
    async fn slow(&self) -> Result<()> {
        let mut streams = self.many(SLOW).await?;
        for stream in &mut streams {
            stream.write_all(PREFACE).await?;
        }
        loop {
            for stream in &mut streams {
                // Some are closed by now.
                let _ = stream.write_all(&[0]).await;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    async fn connections(&self) -> Result<()> {
        let _held = self.many(IDLE).await?;
        std::future::pending().await
    }

    async fn resets(&self) -> Result<()> {
        let attacks = (0..RESETTING).map(|_| async {
            loop {
                // The server closes a connection of this kind, and gets another one.
                let _ = reset(self.connect().await?).await;
            }
        });
        futures::future::try_join_all(attacks).await.map(|_: Vec<()>| ())
    }

    async fn finalizers(&self) -> Result<()> {
        let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "final" } });
        self.api.post(MAPS, map.to_string()).await?;
        let names: Vec<String> = (0..FINALIZERS).map(|number| format!("example.com/f{number}")).collect();
        let change = json!({ "metadata": { "finalizers": names } }).to_string();
        let mut tasks = JoinSet::new();
        for _ in 0..2 {
            let (api, change) = (self.api.clone(), change.clone());
            tasks.spawn(async move {
                loop {
                    let kind = "application/strategic-merge-patch+json";
                    api.patch(&format!("{MAPS}/final"), kind, change.clone()).await?;
                }
            });
        }
        tasks.join_next().await.context("there are tasks")??
    }

    async fn prepare_watches(&self) -> Result<()> {
        for number in 0..WATCHED {
            self.api.post(DASHBOARDS, dashboard(&format!("large-{number}"), 1_000_000)).await?;
        }
        Ok(())
    }

    async fn watches(&self) -> Result<()> {
        let path = format!("{DASHBOARDS}?watch=1&resourceVersion=0");
        let opening = futures::stream::iter(0..WATCHES).map(|_| self.api.open(&path));
        let _held: Vec<reqwest::Response> = opening.buffer_unordered(AT_ONCE).try_collect().await?;
        std::future::pending().await
    }
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The head of `GET /` on `localhost`: static entries of HPACK, and one literal.
const HEAD: &[u8] = b"\x82\x87\x84\x41\x09localhost";

/// Begins requests and takes each back at once, until the server has enough of it.
async fn reset(stream: TlsStream<TcpStream>) -> Result<()> {
    let (mut reading, mut writing) = tokio::io::split(stream);
    let attack = async {
        writing.write_all(PREFACE).await?;
        writing.write_all(&frame(4, 0, 0, b"")).await?;
        for batch in 0_u32.. {
            let mut frames = Vec::new();
            for number in batch * 100..(batch + 1) * 100 {
                let stream = number * 2 + 1;
                frames.extend(frame(1, 0x5, stream, HEAD));
                frames.extend(frame(3, 0, stream, &8_u32.to_be_bytes()));
            }
            writing.write_all(&frames).await?;
        }
        anyhow::Ok(())
    };
    let answers = async {
        let mut answer = vec![0; 16 << 10];
        while reading.read(&mut answer).await? > 0 {}
        anyhow::Ok(())
    };
    tokio::select! {
        ended = attack => ended,
        ended = answers => ended,
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or_default().to_be_bytes();
    let mut out = length[1..].to_vec();
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend_from_slice(payload);
    out
}

fn dashboard(name: &str, size: usize) -> String {
    json!({ "apiVersion": "dashboard.grafana.app/v1beta1", "kind": "Dashboard",
        "metadata": { "name": name }, "spec": { "title": "x".repeat(size) } })
    .to_string()
}
