//! A session directory to try Cascade with: `PUT` remembers the body, `GET` gives it back or says 404, `DELETE` forgets it. It
//! keeps everything in memory and asks nobody who they are. With ports after its address it also plays the endpoints of the
//! configurations in `examples/envoy`: each answers everything with its own port.
//!
//!   cargo run --example session_directory [ADDRESS [PORT...]]

#![allow(clippy::print_stdout, reason = "it is a command")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use tokio::net::TcpListener;

const HELP: &str = "\
A session directory to try Cascade with: PUT remembers the body under its path, GET gives it back or says
404, DELETE forgets it. Everything is kept in memory.

Usage: session_directory [ADDRESS [PORT...]]

  ADDRESS  where it listens, 127.0.0.1:8099 if none is given
  PORT     it also plays the providers of examples/envoy/*.yaml at these ports";

type Placements = Arc<Mutex<HashMap<String, Vec<u8>>>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    if std::env::args().any(|argument| argument == "-h" || argument == "--help") {
        println!("{HELP}");
        return Ok(());
    }
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:8099".to_owned());
    let listener = TcpListener::bind(address).await?;
    for port in arguments {
        let endpoint = TcpListener::bind(format!("127.0.0.1:{port}")).await?;
        let served = format!("served by {}\n", endpoint.local_addr()?);
        tokio::spawn(async move { axum::serve(endpoint, Router::new().fallback(async || served)).await });
    }
    println!("a session directory listens on http://{}", listener.local_addr()?);
    axum::serve(listener, Router::new().fallback(answer).with_state(Placements::default())).await
}

async fn answer(State(placements): State<Placements>, request: Request) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let Ok(body) = axum::body::to_bytes(request.into_body(), 64 * 1024).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let mut placements = placements.lock().unwrap_or_else(PoisonError::into_inner);
    match method {
        Method::GET => match placements.get(&path) {
            Some(placement) => ([("content-type", "application/json")], placement.clone()).into_response(),
            None => StatusCode::NOT_FOUND.into_response(),
        },
        Method::PUT => {
            placements.insert(path, body.to_vec());
            StatusCode::NO_CONTENT.into_response()
        }
        Method::DELETE => {
            placements.remove(&path);
            StatusCode::NO_CONTENT.into_response()
        }
        _ => StatusCode::METHOD_NOT_ALLOWED.into_response(),
    }
}
