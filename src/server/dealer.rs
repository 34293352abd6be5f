//! Accepts connections and deals them to the workers: to the one with the fewest open ones, in turn where several have as few.
//! Envoy keeps a few long connections; SO_REUSEPORT would hash them unevenly (fact 34).

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tracing::warn;

use super::connection::Connection;
use super::listener::{Accepting, is_fatal};
use super::phase::{Phase, reached};
use super::routes::Door;
use super::worker::Worker;
use crate::telemetry::Metrics;

/// How long to wait when the system has no more file descriptors to give.
pub(super) const BREATHER: Duration = Duration::from_millis(100);

/// How often it is said that there are too many connections.
const PAUSE: Duration = Duration::from_secs(60);

/// Who serves the connections of an address, and how many there may be.
#[derive(Debug, Clone)]
pub(super) struct Dealer {
    pub(super) workers: Arc<Vec<Worker>>,
    pub(super) metrics: Arc<Metrics>,
    /// Of all addresses together. Whatever is over it is closed at once, so that Envoy need not wait to be told.
    pub(super) max_connections: usize,
}

impl Dealer {
    /// Deals until the server drains; dropping the listener then closes the address.
    pub(super) async fn deal(self, listener: Accepting, door: Door, mut phase: watch::Receiver<Phase>) -> io::Result<()> {
        let (mut turn, mut said) = (0, None);
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = reached(&mut phase, Phase::Draining) => return Ok(()),
            };
            match accepted {
                Ok(connection) if self.is_full() => {
                    self.metrics.connection_refused();
                    drop(connection);
                    if said.is_none_or(|said: Instant| said.elapsed() >= PAUSE) {
                        said = Some(Instant::now());
                        warn!(
                            max_connections = self.max_connections,
                            "too many gRPC connections are open: new ones are closed at once (server.max_connections)"
                        );
                    }
                }
                Ok(connection) => {
                    turn = next(&self.workers, turn);
                    hand_over(connection, door, &self.workers[turn]);
                }
                Err(error) if is_fatal(&error) => return Err(error),
                Err(error) => {
                    warn!(%error, "a connection could not be accepted");
                    sleep(BREATHER).await;
                }
            }
        }
    }

    fn is_full(&self) -> bool {
        self.workers.iter().map(Worker::open).sum::<usize>() >= self.max_connections
    }
}

fn hand_over(connection: Connection, door: Door, worker: &Worker) {
    match connection.park() {
        // A worker that is gone ends the run; the connection is closed with it.
        Ok(parked) => worker.deal(parked, door),
        Err(error) => warn!(%error, "a connection could not be handed to its worker"),
    }
}

fn next(workers: &[Worker], last: usize) -> usize {
    let turns = (1..=workers.len()).map(|step| (last + step) % workers.len());
    turns.min_by_key(|index| workers[*index].open()).unwrap_or(0)
}
