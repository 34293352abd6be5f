//! Counts gRPC connections: those that are open, by a guard, and those that found no room.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::Metrics;

#[derive(Debug, Default)]
pub(super) struct Connections {
    open: Gauge,
    refused: Counter,
}

impl Connections {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let connections = Self::default();
        registry.register("cascade_connections_open", "Open gRPC connections", connections.open.clone());
        let refused = "gRPC connections that were closed at once: server.max_connections were open";
        registry.register("cascade_connections_refused", refused, connections.refused.clone());
        connections
    }
}

impl Metrics {
    /// Counts a connection until it is dropped.
    #[must_use]
    pub fn connection(&self) -> ConnectionGuard {
        self.connections.open.inc();
        ConnectionGuard(self.connections.open.clone())
    }

    /// A connection was closed at once: too many are open.
    pub fn connection_refused(&self) {
        self.connections.refused.inc();
    }
}

/// An open connection.
#[derive(Debug)]
pub struct ConnectionGuard(Gauge);

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}
