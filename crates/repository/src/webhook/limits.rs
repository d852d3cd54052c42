//! How much is taken in: deliveries of an address, deliveries to a repository, bytes of all bodies.
//!
//! An address is counted whatever it sends, and a wrong signature counts more, since it costs us requests. A repository is
//! counted only once a signature holds, so that nobody else can use up what its provider may send.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use bytes::Buf;
use http_body::Body;
use http_body_util::BodyExt as _;
use tokio::time::Instant;

/// The largest body that is read, in bytes: as much as GitHub sends.
pub const LARGEST_BODY: usize = 25 << 20;
/// Deliveries of one address: at once, and a second. Providers send for many repositories from few addresses.
const OF_ADDRESS: Rate = Rate { burst: 2_000.0, per_second: 1_000.0 };
/// What a wrong signature counts more.
const BLAME: f64 = 20.0;
/// Deliveries to one repository: at once, and a second.
const OF_REPOSITORY: Rate = Rate { burst: 100.0, per_second: 10.0 };
/// Addresses, or repositories, that are told apart.
const MOST: usize = 10_000;
/// Bytes of all bodies that are being read or worked on.
const BYTES: usize = 128 << 20;

/// What is being taken in.
#[derive(Default)]
pub struct Reception {
    addresses: Buckets<Option<IpAddr>>,
    repositories: Buckets<(String, String)>,
    bytes: AtomicUsize,
}

impl Reception {
    /// Whether another delivery of this address is looked at; of none for those whose address is not known.
    pub fn admits(&self, peer: Option<IpAddr>) -> bool {
        self.addresses.take(network(peer), OF_ADDRESS, 1.0)
    }

    /// The address sent a wrong signature.
    pub fn blame(&self, peer: Option<IpAddr>) {
        self.addresses.take(network(peer), OF_ADDRESS, BLAME);
    }

    /// Whether another delivery of the repository's provider is worked on.
    pub fn admits_from(&self, namespace: &str, name: &str) -> bool {
        self.repositories.take((namespace.to_owned(), name.to_owned()), OF_REPOSITORY, 1.0)
    }

    /// The whole body, within its own limit and that of all bodies together.
    pub async fn read<B>(&self, mut body: B) -> Result<(Vec<u8>, Reserved<'_>), BodyError>
    where
        B: Body + Unpin,
    {
        let mut reserved = self.reserve();
        let mut whole = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_broken| BodyError::Broken)?;
            let Ok(mut data) = frame.into_data() else { continue };
            if whole.len() + data.remaining() > LARGEST_BODY {
                return Err(BodyError::TooLarge);
            }
            if !reserved.grow(data.remaining()) {
                return Err(BodyError::Busy);
            }
            whole.extend_from_slice(&data.copy_to_bytes(data.remaining()));
        }
        Ok((whole, reserved))
    }

    /// Room for a body, nothing at first.
    fn reserve(&self) -> Reserved<'_> {
        Reserved { reception: self, bytes: 0 }
    }
}

/// Why a body was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// It ended early.
    #[error("the request's body ended early")]
    Broken,
    /// It is larger than [`LARGEST_BODY`].
    #[error("the request's body is larger than {LARGEST_BODY} bytes")]
    TooLarge,
    /// Too many are being read.
    #[error("too many deliveries at a time; send it again later")]
    Busy,
}

/// Room for a body; given back when it is dropped.
pub struct Reserved<'a> {
    reception: &'a Reception,
    bytes: usize,
}

impl Reserved<'_> {
    /// Whether there is room for that many bytes more.
    fn grow(&mut self, bytes: usize) -> bool {
        let before = self.reception.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
        before + bytes <= BYTES
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.reception.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// An IPv6 host has a whole network to send from.
fn network(peer: Option<IpAddr>) -> Option<IpAddr> {
    match peer {
        Some(IpAddr::V6(address)) if address.to_ipv4_mapped().is_none() => {
            let [a, b, c, d, ..] = address.segments();
            Some(IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0)))
        }
        other => other.map(|address| address.to_canonical()),
    }
}

#[derive(Clone, Copy)]
struct Rate {
    burst: f64,
    per_second: f64,
}

/// What is left of a rate for each key.
struct Buckets<K> {
    left: Mutex<HashMap<K, (f64, Instant)>>,
}

impl<K> Default for Buckets<K> {
    fn default() -> Self {
        Self { left: Mutex::default() }
    }
}

impl<K: Eq + Hash> Buckets<K> {
    /// Takes so much, and answers whether there was any left.
    fn take(&self, key: K, rate: Rate, cost: f64) -> bool {
        let now = Instant::now();
        let refilled =
            |(left, at): (f64, Instant)| (left + (now - at).as_secs_f64() * rate.per_second).min(rate.burst);
        let mut all = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST && !all.contains_key(&key) {
            all.retain(|_, bucket| refilled(*bucket) < rate.burst);
            if all.len() >= MOST {
                return false;
            }
        }
        let bucket = all.entry(key).or_insert((rate.burst, now));
        let left = refilled(*bucket);
        let admitted = left >= 1.0;
        // Debts are bounded, so that an address is not shut out for long after it stopped.
        *bucket = ((left - cost).max(-rate.burst), now);
        admitted
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_address_that_sends_too_much_is_refused_for_a_while_and_no_other() {
        let reception = Reception::default();
        let one = Some(IpAddr::from([192, 0, 2, 1]));
        let admitted = (0..3_000).filter(|_| reception.admits(one)).count();
        assert_eq!(admitted, 2_000);
        assert!(reception.admits(Some(IpAddr::from([192, 0, 2, 2]))));
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert!(reception.admits(one));
    }

    #[tokio::test(start_paused = true)]
    async fn a_wrong_signature_counts_more_and_costs_the_repository_nothing() {
        let reception = Reception::default();
        let one = Some(IpAddr::from([192, 0, 2, 1]));
        let mut tried = 0;
        while reception.admits(one) {
            reception.blame(one);
            tried += 1;
        }
        assert!(tried < 100, "{tried}");
        assert!(reception.admits_from("team", "dash"));
    }

    #[tokio::test(start_paused = true)]
    async fn one_repository_uses_up_nothing_of_another() {
        let reception = Reception::default();
        assert_eq!((0..200).filter(|_| reception.admits_from("team", "dash")).count(), 100);
        assert!(reception.admits_from("team", "other") && reception.admits_from("other", "dash"));
    }

    #[test]
    fn a_network_is_one_sender() {
        let address = |text: &str| network(Some(text.parse().unwrap()));
        assert_eq!(address("2001:db8::1"), address("2001:db8::ffff:2"));
        assert_ne!(address("2001:db8::1"), address("2001:db8:1::1"));
        assert_eq!(address("::ffff:192.0.2.1"), address("192.0.2.1"));
    }

    #[tokio::test(start_paused = true)]
    async fn more_addresses_than_are_told_apart_take_no_more_memory() {
        let reception = Reception::default();
        for number in 0..10_500_u32 {
            reception.admits(Some(IpAddr::from(number.to_be_bytes())));
        }
        assert!(reception.addresses.left.lock().unwrap().len() <= MOST);
    }

    #[test]
    fn bodies_share_what_there_is_and_give_it_back() {
        let reception = Reception::default();
        let mut first = reception.reserve();
        assert!(first.grow(BYTES));
        assert!(!reception.reserve().grow(1));
        drop(first);
        assert!(reception.reserve().grow(BYTES));
    }
}
