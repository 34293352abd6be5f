//! What the outside sees of a running Cascade: log lines and metrics. Nothing here decides anything, and nothing here ever sees
//! a body, a key or a session id.

pub mod log;
pub mod metrics;
pub mod time;

pub use metrics::{DecisionEvent, Ignored, Learned, Metrics, Shared, StreamGuard, TenantLabel};
