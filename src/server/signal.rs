//! SIGTERM and SIGINT, each as "stop". Registered once at the start: a signal that comes before anyone waits is not lost.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that stop the server.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// # Errors
    /// The system refuses to register a handler.
    pub fn register() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next one.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
