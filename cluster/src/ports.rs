//! Ports for programs that are told which one to listen at.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, bail};
use rand::Rng as _;

/// The ports that this process was given: one is not given twice before its program listens.
static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// So many free ports, below those that the system gives to outgoing connections: a client that connects to a server
/// that is down for a moment can otherwise take the server's port, or reach itself.
pub fn free_ports<const N: usize>() -> Result<[u16; N]> {
    const ATTEMPTS: usize = 1000;
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut ports = [0; N];
    let mut found = 0;
    for _ in 0..ATTEMPTS {
        let Some(place) = ports.get_mut(found) else { return Ok(ports) };
        let port = rand::rng().random_range(20_000..32_000);
        if !given.contains(&port) && TcpListener::bind(("127.0.0.1", port)).is_ok() {
            given.insert(port);
            *place = port;
            found += 1;
        }
    }
    bail!("no {N} ports between 20000 and 32000 are free")
}
