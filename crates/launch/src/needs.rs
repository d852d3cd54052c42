//! What an operator needs of its process.

use std::io;

use axum::Router;
use tokio::net::TcpListener;
use windlass_runtime::{BoxError, Supervisor};
use windlass_settings::Settings;

use crate::Context;

/// What an operator needs of its process that others may not.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    /// Its objects are on a Kubernetes API server: it is reached by kubeconfig or as a pod, and never by token exchange.
    pub kubernetes: bool,
    /// Where the process answers scrapes and probes.
    pub listeners: fn(&Settings) -> Listeners,
}

/// Addresses, each with the setting that it comes from; an empty one is off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listeners {
    /// Of `/metrics` and the probes.
    pub metrics: Listener,
    /// Of the probes alone.
    pub health: Option<Listener>,
}

/// An address with the setting that it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// `host:port`, or empty.
    pub address: String,
    /// What to change when it is taken.
    pub setting: &'static str,
}

impl Default for Needs {
    fn default() -> Self {
        Self {
            kubernetes: false,
            listeners: |settings| Listeners {
                metrics: Listener {
                    address: settings.operator().metrics_address.clone(),
                    setting: "[operator] metrics_address, or GF_OPERATOR_METRICS_ADDRESS,",
                },
                health: None,
            },
        }
    }
}

impl Listeners {
    /// Binds, and answers until the supervisor shuts down.
    pub(crate) async fn serve(self, context: &Context) -> Result<(), BoxError> {
        let (health, metrics) = (context.health.clone(), context.metrics.clone());
        let all = windlass_telemetry::router(health.clone(), metrics);
        self.metrics.serve(&context.supervisor, "metrics and health", all).await?;
        if let Some(listener) = self.health {
            listener.serve(&context.supervisor, "health", windlass_telemetry::probes(health)).await?;
        }
        Ok(())
    }
}

/// Connections that may wait to be accepted, where the system allows so many. Of more at once, some are told nothing and try
/// again after a second; the standard library lets 128 wait.
const BACKLOG: i32 = 4_096;

/// Listens on an address; on one of every interface also where there is no IPv6.
///
/// # Errors
/// It cannot be listened on.
pub async fn bind(address: &str) -> io::Result<TcpListener> {
    let listener = match (TcpListener::bind(address).await, address.strip_prefix("[::]")) {
        (Err(error), Some(port)) if error.kind() != io::ErrorKind::AddrInUse => {
            TcpListener::bind(format!("0.0.0.0{port}")).await?
        }
        (bound, _) => bound?,
    };
    // Asked for again, it is changed.
    rustix::net::listen(&listener, BACKLOG)?;
    Ok(listener)
}

impl Listener {
    /// Answers at it, where it is not off, until the supervisor shuts down.
    ///
    /// # Errors
    /// It cannot be listened on.
    pub async fn serve(
        self,
        supervisor: &Supervisor,
        name: &'static str,
        router: Router,
    ) -> Result<(), BoxError> {
        let Self { address, setting } = self;
        if address.is_empty() {
            return Ok(());
        }
        let listener = bind(&address).await.map_err(|error| {
            format!("failed to listen on {address} for {name}: {error}; set {setting} to another address")
        })?;
        tracing::info!(address = %listener.local_addr()?, "serving {name}");
        let stop = supervisor.token().clone();
        supervisor.spawn(name, windlass_auth::plain::serve(listener, router, stop));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn hundreds_who_connect_at_once_are_not_kept_waiting() {
        let listener = bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        // Nobody is accepted: whoever does not fit would try again and again.
        let connect = async {
            let mut all = Vec::new();
            for _ in 0..300 {
                all.push(TcpStream::connect(address).await.unwrap());
            }
            all
        };
        let all = tokio::time::timeout(std::time::Duration::from_secs(30), connect).await;
        assert_eq!(all.expect("all are let in").len(), 300);
    }

    #[tokio::test]
    async fn every_interface_is_of_both_protocols_where_there_are_two() {
        let every = bind("[::]:0").await.unwrap();
        let port = every.local_addr().unwrap().port();
        TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        if TcpListener::bind("[::1]:0").await.is_ok() {
            TcpStream::connect(("::1", port)).await.unwrap();
        }
        assert_eq!(bind(&format!("[::]:{port}")).await.unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }
}
