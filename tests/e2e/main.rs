//! End to end on a real Envoy 1.40: what it does with the answers of an external processor (one test per fact, the fact's number
//! beside it), and that Cascade's answers send each request where its catalog says.
//!
//! Envoy is found through `ENVOY_BIN` or `PATH`, or installed into the cache directory on first use.

#![allow(unreachable_pub, reason = "a test binary has no outside")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends where it cannot go on")]

mod answer;
mod attempts;
mod case;
mod gateway;
mod processor;
mod scene;
mod street;
mod town;
mod wire;

mod attempt_shapes;
mod body_modes;
mod cases;
mod clients;
mod closed;
mod demo;
mod differentials;
mod encodings;
mod endings;
mod endpoints;
mod examples;
mod failures;
mod framing;
mod headers_only;
mod learning;
mod life;
mod limits;
mod names;
mod overrides;
mod paths;
mod picks;
mod protocol;
mod reading;
mod retries;
mod route_cache;
mod sessions;
mod sharing;
mod shipped;
mod spoofing;
mod sticky;
