//! Addresses, judged when they are connected to.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

/// Whether the server is on this machine.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        None => false,
    }
}

/// Says why an address is not connected to; nothing if it may be.
pub type AddressPolicy = fn(IpAddr) -> Option<&'static str>;

/// Resolves names and has each address judged by `refused`, which says why one may not be connected to. One refused
/// address refuses the name: a mixed answer is somebody's trick.
///
/// No resolver is asked for a URL whose host is an address: whoever sends there judges that one.
pub fn judging_resolver(refused: AddressPolicy) -> Arc<impl Resolve> {
    Arc::new(JudgingResolver(refused))
}

struct JudgingResolver(AddressPolicy);

impl Resolve for JudgingResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let refused = self.0;
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            for address in found.iter().map(SocketAddr::ip) {
                if let Some(why) = refused(address) {
                    return Err(AddressRefused { host: name.as_str().to_owned(), address, why }.into());
                }
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// A name that resolves to an address which is not connected to.
#[derive(Debug, thiserror::Error)]
#[error("{host} resolves to {address}: {why}")]
pub(crate) struct AddressRefused {
    host: String,
    address: IpAddr,
    why: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_told_from_others() {
        for url in [
            "http://127.0.0.1:1",
            "http://127.9.9.9",
            "https://[::1]/a",
            "http://localhost",
            "http://a.localhost",
        ] {
            assert!(is_loopback(&url.parse().unwrap()), "{url}");
        }
        for url in ["http://10.0.0.1", "https://localhost.example.org", "https://notlocalhost", "file:///a"] {
            assert!(!is_loopback(&url.parse().unwrap()), "{url}");
        }
    }

    #[tokio::test]
    async fn a_name_with_a_refused_address_is_refused_as_a_whole() {
        let resolver = judging_resolver(|address| address.is_loopback().then_some("it is this machine"));
        let Err(error) = resolver.resolve("localhost".parse().unwrap()).await else {
            panic!("localhost is this machine");
        };
        assert!(error.downcast_ref::<AddressRefused>().is_some(), "{error}");
        assert!(error.to_string().contains("it is this machine"), "{error}");
        assert!(judging_resolver(|_| None).resolve("localhost".parse().unwrap()).await.is_ok());
    }
}
