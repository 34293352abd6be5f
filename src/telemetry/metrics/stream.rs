//! The life of one ext_proc stream as metrics see it. A guard, so that no way of ending a stream (a reset by Envoy, an error, a
//! panic, a drain that ran out) can leave it uncounted.

use std::sync::Arc;

use prometheus_client::metrics::gauge::Gauge;

use super::{DecisionEvent, Metrics};

/// Counts a stream as in flight until it is dropped. Dropped while a decision is owed, the stream counts as abandoned: neither
/// as decided nor as well.
#[derive(Debug)]
#[must_use]
pub struct StreamGuard {
    metrics: Arc<Metrics>,
    in_flight: Gauge,
    owed: bool,
}

impl Metrics {
    /// A stream was opened. Nothing is owed before its first request headers.
    pub fn stream(self: &Arc<Self>) -> StreamGuard {
        self.in_flight.inc();
        StreamGuard { metrics: Arc::clone(self), in_flight: self.in_flight.clone(), owed: false }
    }
}

impl StreamGuard {
    /// The headers of a request arrived: from now on a decision is owed.
    pub fn expect_decision(&mut self) {
        self.owed = true;
    }

    /// The decision was made: counts it, and nothing is owed any more.
    pub fn decided(&mut self, event: &DecisionEvent<'_>) {
        self.owed = false;
        self.metrics.decided(event);
    }

    /// Nothing is owed any more though nothing was decided: the stream carries responses only, or its role decides nothing.
    pub fn excuse(&mut self) {
        self.owed = false;
    }
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        self.in_flight.dec();
        if self.owed {
            self.metrics.abandoned.inc();
        }
    }
}
