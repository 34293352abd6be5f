//! The scripted processor: a gRPC server that says to each message what the test wrote down, right or wrong, and keeps what it
//! heard.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use envoy_types::pb::envoy::service::ext_proc::v3::external_processor_server::{ExternalProcessor, ExternalProcessorServer};
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
use envoy_types::pb::envoy::service::ext_proc::v3::{HttpBody, ProcessingRequest, ProcessingResponse};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_stream::wrappers::{TcpListenerStream, UnboundedReceiverStream};
use tonic::{Status, Streaming};

use crate::answer::{Answer, echo, trailers};

/// What the processor does upon a message.
#[derive(Debug, Clone)]
pub enum Step {
    Say(Box<ProcessingResponse>),
    /// Ends the stream well.
    Close,
    /// Ends it with an error.
    Fail,
}

impl From<ProcessingResponse> for Step {
    fn from(response: ProcessingResponse) -> Self {
        Self::Say(Box::new(response))
    }
}

/// One stream's part: called for every message, says what to do. No steps: silence.
pub type Part = Box<dyn FnMut(&Request) -> Vec<Step> + Send>;
/// Makes the part of a new stream.
pub type Script = Arc<dyn Fn() -> Part + Send + Sync>;

/// A script without memory: what to say depends on the message alone.
pub fn script(steps: impl Fn(&Request) -> Vec<Step> + Send + Sync + 'static) -> Script {
    let steps = Arc::new(steps);
    Arc::new(move || {
        let steps = Arc::clone(&steps);
        Box::new(move |message| steps(message))
    })
}

/// Gives this answer to the headers, and an empty one to a body.
pub fn at_headers(answer: Answer) -> Script {
    script(move |message| match message {
        Request::RequestHeaders(_) => vec![answer.to_headers().into()],
        Request::RequestBody(_) => vec![Answer::empty().to_body().into()],
        _ => vec![trailers().into()],
    })
}

/// Lets the headers pass and gives this answer to the body, or to the headers if no body follows (fact 8).
pub fn at_body(answer: Answer) -> Script {
    script(move |message| match message {
        Request::RequestHeaders(headers) if headers.end_of_stream => vec![answer.to_headers().into()],
        Request::RequestHeaders(_) => vec![Answer::empty().to_headers().into()],
        Request::RequestBody(_) => vec![answer.to_body().into()],
        _ => vec![trailers().into()],
    })
}

/// FULL_DUPLEX_STREAMED as fact 7 has it: holds the answer to the headers until `enough` body bytes are there or the body has
/// ended, then gives it and returns every chunk.
pub fn hold_headers(answer: Answer, enough: usize) -> Script {
    Arc::new(move || {
        let answer = answer.clone();
        let mut held: Option<Vec<HttpBody>> = Some(Vec::new());
        Box::new(move |message| match message {
            Request::RequestHeaders(headers) if headers.end_of_stream => vec![answer.to_headers().into()],
            Request::RequestHeaders(_) => Vec::new(),
            Request::RequestBody(chunk) => {
                let Some(chunks) = &mut held else { return vec![echo(chunk).into()] };
                chunks.push(chunk.clone());
                if !chunk.end_of_stream && chunks.iter().map(|chunk| chunk.body.len()).sum::<usize>() < enough {
                    return Vec::new();
                }
                let chunks = held.take().unwrap_or_default();
                std::iter::once(answer.to_headers().into()).chain(chunks.iter().map(|chunk| echo(chunk).into())).collect()
            }
            _ => vec![trailers().into()],
        })
    })
}

/// A running scripted processor.
pub struct Processor {
    address: SocketAddr,
    desk: Arc<Desk>,
    /// A runtime of its own, whose end takes every task and connection with it. `None` once stopped.
    runtime: Option<Runtime>,
}

struct Desk {
    script: Mutex<Script>,
    heard: Mutex<Vec<ProcessingRequest>>,
}

impl Processor {
    pub async fn start(script: Script) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let desk = Arc::new(Desk { script: Mutex::new(script), heard: Mutex::default() });
        let service = ExternalProcessorServer::new(Scripted(Arc::clone(&desk)))
            .max_decoding_message_size(64 << 20)
            .max_encoding_message_size(64 << 20);
        let (health, health_service) = tonic_health::server::health_reporter();
        health.set_serving::<ExternalProcessorServer<Scripted>>().await;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.spawn(async move {
            let incoming = TcpListenerStream::new(TcpListener::from_std(listener).unwrap());
            tonic::transport::Server::builder()
                .add_service(service)
                .add_service(health_service)
                .serve_with_incoming(incoming)
                .await
                .unwrap();
        });
        Self { address, desk, runtime: Some(runtime) }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Streams that begin from now on follow this script.
    pub fn follow(&self, script: Script) {
        *self.desk.script.lock().unwrap() = script;
    }

    /// Every message so far.
    pub fn heard(&self) -> Vec<ProcessingRequest> {
        self.desk.heard.lock().unwrap().clone()
    }

    /// The body messages so far.
    pub fn bodies(&self) -> Vec<HttpBody> {
        self.heard()
            .into_iter()
            .filter_map(|message| match message.request {
                Some(Request::RequestBody(body)) => Some(body),
                _ => None,
            })
            .collect()
    }

    /// Closes the port and every connection, as a killed process does.
    pub fn stop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Processor {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Scripted(Arc<Desk>);

#[tonic::async_trait]
impl ExternalProcessor for Scripted {
    type ProcessStream = Pin<Box<UnboundedReceiverStream<Result<ProcessingResponse, Status>>>>;

    async fn process(
        &self,
        request: tonic::Request<Streaming<ProcessingRequest>>,
    ) -> Result<tonic::Response<Self::ProcessStream>, Status> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let part = (self.0.script.lock().unwrap())();
        tokio::spawn(perform(request.into_inner(), part, Arc::clone(&self.0), sender));
        Ok(tonic::Response::new(Box::pin(UnboundedReceiverStream::new(receiver))))
    }
}

type Sender = mpsc::UnboundedSender<Result<ProcessingResponse, Status>>;

async fn perform(mut messages: Streaming<ProcessingRequest>, mut part: Part, desk: Arc<Desk>, sender: Sender) {
    while let Ok(Some(message)) = messages.message().await {
        desk.heard.lock().unwrap().push(message.clone());
        let Some(request) = &message.request else { continue };
        for step in part(request) {
            let said = match step {
                Step::Say(response) => sender.send(Ok(*response)),
                Step::Fail => sender.send(Err(Status::internal("as the script says"))),
                Step::Close => return,
            };
            if said.is_err() {
                return;
            }
        }
    }
}
