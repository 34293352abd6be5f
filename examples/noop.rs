//! The floor that Cascade is measured against: an external processor on tonic and envoy-types that does nothing. It answers each
//! message in kind with an empty CommonResponse, on the runtime that `#[tokio::main]` gives a machine with two cores.
//!
//! `cargo run --release --example noop -- [ADDRESS]`; it prints the address that it listens on.

#![allow(clippy::print_stdout, reason = "it is a command")]

use std::pin::Pin;

use envoy_types::pb::envoy::service::ext_proc::v3::external_processor_server::{ExternalProcessor, ExternalProcessorServer};
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response;
use envoy_types::pb::envoy::service::ext_proc::v3::{
    BodyResponse, CommonResponse, HeadersResponse, ProcessingRequest, ProcessingResponse, TrailersResponse,
};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Status, Streaming};

const HELP: &str = "\
An external processor for Envoy that does nothing: the floor that Cascade is measured against.

Usage: noop [ADDRESS]

  ADDRESS  where it listens, 127.0.0.1:50052 if none is given; the address is printed";

/// Lets a body of 20 MB through; tonic's own limit is 4 MiB.
const MAX_MESSAGE: usize = 64 << 20;

struct Noop;

#[tonic::async_trait]
impl ExternalProcessor for Noop {
    type ProcessStream = Pin<Box<dyn Stream<Item = Result<ProcessingResponse, Status>> + Send>>;

    async fn process(
        &self,
        request: tonic::Request<Streaming<ProcessingRequest>>,
    ) -> Result<tonic::Response<Self::ProcessStream>, Status> {
        Ok(tonic::Response::new(Box::pin(request.into_inner().map(|message| message.map(|message| answer(&message))))))
    }
}

fn answer(message: &ProcessingRequest) -> ProcessingResponse {
    let headers = || HeadersResponse { response: Some(CommonResponse::default()) };
    let body = || BodyResponse { response: Some(CommonResponse::default()) };
    let response = message.request.as_ref().map(|request| match request {
        Request::RequestHeaders(_) => Response::RequestHeaders(headers()),
        Request::ResponseHeaders(_) => Response::ResponseHeaders(headers()),
        Request::RequestBody(_) => Response::RequestBody(body()),
        Request::ResponseBody(_) => Response::ResponseBody(body()),
        Request::RequestTrailers(_) => Response::RequestTrailers(TrailersResponse::default()),
        Request::ResponseTrailers(_) => Response::ResponseTrailers(TrailersResponse::default()),
    });
    ProcessingResponse { response, ..Default::default() }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    if std::env::args().any(|argument| argument == "-h" || argument == "--help") {
        println!("{HELP}");
        return Ok(());
    }
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:50052".to_owned());
    let listener = TcpListener::bind(&address).await?;
    eprintln!("listening on {}", listener.local_addr()?);
    let service =
        ExternalProcessorServer::new(Noop).max_decoding_message_size(MAX_MESSAGE).max_encoding_message_size(MAX_MESSAGE);
    tonic::transport::Server::builder().add_service(service).serve_with_incoming(TcpListenerStream::new(listener)).await?;
    Ok(())
}
