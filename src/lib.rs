//! Cascade: an external processor for Envoy that chooses, request by request, which provider groups the `priority_group` cluster
//! specifier may use and in which order.
//!
//! The core (everything not behind the `server` feature) is pure: bytes and a catalog in, a decision out.

pub mod catalog;
pub mod diagnostic;
#[cfg(feature = "server")]
pub mod encode;
#[cfg(feature = "server")]
pub mod extproc;
pub mod extract;
pub mod names;
pub mod outcome;
#[cfg(feature = "server")]
pub mod proto;
pub mod resolve;
#[cfg(feature = "server")]
pub mod settings;
#[cfg(feature = "server")]
pub mod telemetry;
