//! SIGTERM and SIGINT, each as "stop", and SIGHUP as "read again". Registered once at the start: a signal that comes before anyone
//! waits is not lost, and none of them ends the process by itself.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that stop the server.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

/// The signal that has files read again. Several that come at once count as one.
#[derive(Debug)]
pub struct Hangups(Signal);

impl Hangups {
    /// Waits for the next one.
    pub async fn next(&mut self) {
        let _ = self.0.recv().await;
    }
}

impl Signals {
    /// # Errors
    /// The system refuses to register a handler.
    pub fn register() -> io::Result<(Self, Hangups)> {
        let hangups = Hangups(signal(SignalKind::hangup())?);
        Ok((Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? }, hangups))
    }

    /// Waits for the next one.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
