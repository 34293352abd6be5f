//! The life of one ext_proc stream as metrics see it. A guard, so that no way of ending a stream (a reset by Envoy, an error, a
//! panic, a drain that ran out) can leave it uncounted.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;

use super::{DecisionEvent, Metrics, TenantLabel};
use crate::outcome::{Outcome, Reason};

/// Counts a stream as in flight until it is dropped. Dropped while a decision is owed, the stream counts as abandoned: neither
/// as decided nor as well.
#[derive(Debug)]
#[must_use]
pub struct StreamGuard {
    metrics: Arc<Metrics>,
    in_flight: Gauge,
    owed: bool,
    pending: Option<Box<Pending>>,
}

/// A decision that may still be replaced by a refusal: it counts as what it comes to, and once.
#[derive(Debug)]
struct Pending {
    outcome: Outcome,
    reason: Reason,
    model: Option<String>,
    /// `None`: anonymous, or (with `is_unknown`) a claim that the catalog does not know.
    tenant: Option<String>,
    is_unknown: bool,
    elapsed: Duration,
}

impl Pending {
    fn of(event: &DecisionEvent<'_>) -> Self {
        let tenant = if let TenantLabel::Named(name) = event.tenant { Some(name.to_owned()) } else { None };
        Self {
            outcome: event.outcome,
            reason: event.reason,
            model: event.model.map(str::to_owned),
            tenant,
            is_unknown: event.tenant == TenantLabel::Unknown,
            elapsed: event.elapsed,
        }
    }

    fn event(&self) -> DecisionEvent<'_> {
        let stranger = if self.is_unknown { TenantLabel::Unknown } else { TenantLabel::Anonymous };
        DecisionEvent {
            outcome: self.outcome,
            reason: self.reason,
            model: self.model.as_deref(),
            tenant: self.tenant.as_deref().map_or(stranger, TenantLabel::Named),
            elapsed: self.elapsed,
        }
    }
}

impl Metrics {
    /// A stream was opened. Nothing is owed before its first request headers.
    pub fn stream(self: &Arc<Self>) -> StreamGuard {
        self.in_flight.inc();
        StreamGuard { metrics: Arc::clone(self), in_flight: self.in_flight.clone(), owed: false, pending: None }
    }
}

impl StreamGuard {
    /// The headers of a request arrived: from now on a decision is owed.
    pub fn expect_decision(&mut self) {
        self.owed = true;
    }

    /// The decision was made: counts it, and nothing is owed any more. It takes the place of one that was made for the time being.
    pub fn decided(&mut self, event: &DecisionEvent<'_>) {
        self.owed = false;
        self.pending = None;
        self.metrics.decided(event);
    }

    /// A decision was made, and a refusal may still take its place: it counts at [`Self::settle`], or when the stream ends.
    pub fn decided_for_now(&mut self, event: &DecisionEvent<'_>) {
        self.owed = false;
        self.pending = Some(Box::new(Pending::of(event)));
    }

    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Nothing can take the place of the decision any more.
    pub fn settle(&mut self) {
        if let Some(pending) = self.pending.take() {
            self.metrics.decided(&pending.event());
        }
    }

    /// Nothing is owed any more though nothing was decided: the stream carries responses only, or its role decides nothing.
    pub fn excuse(&mut self) {
        self.owed = false;
    }
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        self.settle();
        self.in_flight.dec();
        if self.owed {
            self.metrics.abandoned.inc();
        }
    }
}
