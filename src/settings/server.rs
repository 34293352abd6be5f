//! What the gRPC server may take on, and how long it may take to leave.

use std::time::Duration;

use super::MIB;

#[derive(Debug, Clone)]
pub struct Server {
    /// How long streams may go on after SIGTERM.
    pub drain: Duration,
    /// gRPC connections of all addresses together.
    pub max_connections: usize,
    pub max_concurrent_streams: u32,
    pub max_message: u64,
}

impl Default for Server {
    fn default() -> Self {
        Self { drain: Duration::from_secs(10), max_connections: 10_000, max_concurrent_streams: 1024, max_message: 64 * MIB }
    }
}
