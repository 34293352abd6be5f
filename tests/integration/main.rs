//! `cascade serve` from outside: the real binary on free ports, raw HTTP and gRPC on loopback. What Envoy makes of it is tested
//! in `tests/e2e`; here is what an operator, a probe and a gRPC client can see.

#![allow(unreachable_pub, reason = "a test binary has no outside")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test ends where it cannot go on")]

mod catalog;
mod grpc;
mod http;
mod process;

mod admin;
mod admin_token;
mod closed;
mod commands;
mod corpus;
mod drain;
mod entrance;
mod entries;
mod explain;
mod feedback;
mod last_good;
mod learning;
mod logs;
mod metrics;
mod names;
mod reload;
mod remote;
mod room;
mod serving;
mod sessions;
mod settling;
mod sharing;
mod signals;
mod start;
mod streams;
mod torture;
mod undecided;
mod upstream;
