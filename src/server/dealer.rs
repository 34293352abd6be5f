//! Accepts connections and deals them to the workers: to the one with the fewest open ones, in turn where several have as few.
//! Envoy keeps a few long connections; SO_REUSEPORT would hash them unevenly (fact 34).

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;
use tracing::warn;

use super::connection::Connection;
use super::listener::{Listener, is_fatal};
use super::phase::{Phase, reached};
use super::worker::Worker;

/// How long to wait when the system has no more file descriptors to give.
pub(super) const BREATHER: Duration = Duration::from_millis(100);

/// Deals until the server drains; dropping the listener then closes the address.
pub(super) async fn deal_connections(
    listener: Listener,
    workers: Arc<Vec<Worker>>,
    mut phase: watch::Receiver<Phase>,
) -> io::Result<()> {
    let mut turn = 0;
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = reached(&mut phase, Phase::Draining) => return Ok(()),
        };
        match accepted {
            Ok(connection) => {
                turn = next(&workers, turn);
                deal(connection, &workers[turn]);
            }
            Err(error) if is_fatal(&error) => return Err(error),
            Err(error) => {
                warn!(%error, "a connection could not be accepted");
                sleep(BREATHER).await;
            }
        }
    }
}

fn deal(connection: Connection, worker: &Worker) {
    match connection.park() {
        // A worker that is gone ends the run; the connection is closed with it.
        Ok(parked) => worker.deal(parked),
        Err(error) => warn!(%error, "a connection could not be handed to its worker"),
    }
}

fn next(workers: &[Worker], last: usize) -> usize {
    let turns = (1..=workers.len()).map(|step| (last + step) % workers.len());
    turns.min_by_key(|index| workers[*index].open()).unwrap_or(0)
}
