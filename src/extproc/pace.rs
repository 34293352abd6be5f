//! How long one stream may work before the others of its worker have their turn. It knows no stream: whoever works in slices asks
//! between two of them.

use std::time::{Duration, Instant};

/// Slices are at most about as long, so that a turn takes well under a millisecond.
const TURN: Duration = Duration::from_micros(250);

/// One turn of work.
#[derive(Debug)]
pub(super) struct Pace {
    since: Instant,
}

impl Pace {
    /// A turn begins.
    pub(super) fn start() -> Self {
        Self { since: Instant::now() }
    }

    /// Between two slices: lets the worker's other tasks run if this turn has been long enough.
    pub(super) async fn breathe(&mut self) {
        if self.since.elapsed() >= TURN {
            tokio::task::yield_now().await;
            self.since = Instant::now();
        }
    }
}
