//! What a success means beside what is known of its session: nothing new, a renewal, a move. It writes nothing.

use std::time::Duration;

use super::Served;
use crate::session::{Answer, Placement};

/// No address is written sooner after another one of its cluster, nor within a sixteenth of its time: where none is heeded, it is
/// another one for every request.
const SETTLED: Duration = Duration::from_secs(10);

/// What a success means beside what is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::directory) enum Verdict {
    /// It says so already.
    Keep,
    /// It says so, but not for much longer.
    Renew,
    /// It says so, but another address of the cluster has served.
    Readdress,
    /// It speaks of another cluster.
    Move,
    /// Nobody knows of the session.
    Learn,
}

impl Verdict {
    /// True if the session was served where nothing said that it lives.
    pub(super) const fn is_move(self) -> bool {
        matches!(self, Self::Move | Self::Learn)
    }
}

/// Judges what is known, which holds for `left`. Somebody else's word stays while it does not speak of another cluster; what was
/// learned is written again when half its time is over, so that a session that goes on stays where it is, and when another address of
/// the cluster has served, so that one that is dead does not cost every request an attempt.
pub(in crate::directory) fn judge(known: &Answer, left: Duration, served: &Served, ttl: Duration) -> Verdict {
    let Answer::Placed(placement) = known else { return Verdict::Learn };
    let backend = placement.backend.as_deref();
    match placement.learned {
        true if backend != Some(&*served.cluster) => Verdict::Move,
        true if left <= ttl / 2 => Verdict::Renew,
        true if has_moved(placement, left, served.endpoint.as_deref(), ttl) => Verdict::Readdress,
        false if backend.is_some_and(|name| !served.names.iter().any(|known| known == name)) => Verdict::Move,
        true | false => Verdict::Keep,
    }
}

/// Another address of the same cluster has served than the one that was learned, and not just now.
pub(super) fn has_moved(placement: &Placement, left: Duration, endpoint: Option<&str>, ttl: Duration) -> bool {
    endpoint.is_some() && placement.endpoint.as_deref() != endpoint && ttl.saturating_sub(left) >= SETTLED.min(ttl / 16)
}
