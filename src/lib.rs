//! Cascade: an external processor for Envoy that chooses, request by request, which provider groups the `priority_group` cluster
//! specifier may use and in which order.
//!
//! The core (everything not behind the `server` feature) is pure: bytes and a catalog in, a decision out.

#[cfg(feature = "server")]
pub mod admin;
pub mod catalog;
#[cfg(feature = "server")]
pub mod cli;
#[cfg(feature = "server")]
pub mod demo;
pub mod diagnostic;
#[cfg(feature = "server")]
pub mod directory;
pub mod document;
#[cfg(test)]
mod documented;
#[cfg(feature = "server")]
pub mod encode;
pub mod expectations;
pub mod explain;
#[cfg(feature = "server")]
pub mod extproc;
pub mod extract;
#[cfg(feature = "server")]
pub mod feedback;
pub mod health;
#[cfg(feature = "server")]
pub mod lab;
#[cfg(feature = "server")]
pub mod line;
pub mod metadata;
pub mod names;
pub mod outcome;
#[cfg(feature = "server")]
pub mod pipeline;
#[cfg(feature = "server")]
pub mod proto;
pub mod resolve;
#[cfg(feature = "server")]
pub mod secret;
#[cfg(feature = "server")]
pub mod server;
pub mod session;
#[cfg(feature = "server")]
pub mod settings;
#[cfg(test)]
mod shipped;
#[cfg(feature = "server")]
pub mod telemetry;
#[cfg(test)]
mod walls;
