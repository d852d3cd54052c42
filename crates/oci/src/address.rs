//! Which addresses are never a registry's.
//!
//! Registries are often on private networks, so those are fine. Link-local addresses are not: there clouds hand
//! credentials to whoever asks, and whoever writes a source must not be able to send the tracker there.

use std::net::IpAddr;

use url::{Host, Url};

/// Why an address is never connected to; nothing if it may be.
pub(crate) fn refused(address: IpAddr) -> Option<&'static str> {
    let (link_local, elsewhere) = match address {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.is_unspecified() || v4.is_multicast() || v4.is_broadcast()),
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => return refused(IpAddr::V4(v4)),
            // fd00:ec2::254 is a cloud's metadata service, too.
            None => (
                v6.is_unicast_link_local() || v6.segments()[..2] == [0xfd00, 0x0ec2],
                v6.is_unspecified() || v6.is_multicast(),
            ),
        },
    };
    if link_local {
        return Some("it is a link-local address, where metadata services are and no registry is");
    }
    elsewhere.then_some("no server has this address")
}

/// The same for a URL whose host is an address: no resolver is asked for those.
pub(crate) fn refused_url(url: &Url) -> Option<&'static str> {
    match url.host() {
        Some(Host::Ipv4(address)) => refused(IpAddr::V4(address)),
        Some(Host::Ipv6(address)) => refused(IpAddr::V6(address)),
        Some(Host::Domain(_)) => None,
        None => Some("it has no host"),
    }
}

#[cfg(test)]
mod tests {
    use super::refused;

    #[test]
    fn private_registries_are_fine_and_metadata_services_are_not() {
        for fine in
            ["10.1.2.3", "192.168.0.1", "127.0.0.1", "93.184.216.34", "::1", "fd12::1", "2606:4700::1"]
        {
            assert_eq!(refused(fine.parse().unwrap()), None, "{fine}");
        }
        for not in [
            "169.254.169.254",
            "0.0.0.0",
            "224.0.0.1",
            "::ffff:169.254.169.254",
            "fe80::1",
            "fd00:ec2::254",
            "::",
        ] {
            assert!(refused(not.parse().unwrap()).is_some(), "{not}");
        }
    }
}
