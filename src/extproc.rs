//! Envoy's external processing protocol: the order of messages on a stream and the service that speaks it. What a request means
//! and what is decided about it happens elsewhere.

mod arriving;
pub mod codec;
pub mod exchange;
pub mod intake;
mod pace;
pub mod service;
pub mod upstream;
