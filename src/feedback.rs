//! What Envoy tells of attempts: its access log, received on the gRPC port and off every request's path, classified, and turned
//! into health, and into sessions that come back to what served them. Decisions read both; nothing here decides about a request.

pub mod classify;
mod clock;
mod codec;
mod entry;
mod ignored;
mod learn;
pub mod monitor;
mod reader;
mod repeated;
mod retry_after;
mod room;
pub mod service;
pub mod share;
pub mod token;

pub use classify::Class;
pub use monitor::Monitor;
pub use service::AccessLog;
