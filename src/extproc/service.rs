//! The gRPC service: a loop of receive, step, send around one [`Exchange`] a stream. It knows clocks and channels; what the
//! messages mean is the exchange's and the pipeline's business.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::time::{Instant, timeout_at};
use tonic::body::Body;
use tonic::server::{Grpc, NamedService, StreamingService};
use tonic::{Code, Request, Response, Status, Streaming};
use tower::Service;

use super::codec::ExtProcCodec;
use super::exchange::{Cut, Exchange, Next, Step};
use super::pace::Pace;
use super::upstream::{self, Upstream};
use crate::encode::reply::{Answer, Reply};
use crate::pipeline::attempt::Attempt;
use crate::pipeline::{Judgement, Pipeline};
use crate::proto::ProcessingRequest;

/// The name of Envoy's service, as health checks ask for it.
pub const SERVICE: &str = "envoy.service.ext_proc.v3.ExternalProcessor";
/// Says which of Envoy's two filters a stream comes from; absent for the one that asks for decisions.
const ROLE_HEADER: &str = "x-cascade-role";
const PROCESS: &str = "/envoy.service.ext_proc.v3.ExternalProcessor/Process";

/// `envoy.service.ext_proc.v3.ExternalProcessor`.
#[derive(Debug, Clone)]
pub struct Processor {
    pipeline: Arc<Pipeline>,
    max_message: usize,
}

impl Processor {
    /// `max_message` bounds one message in bytes, in both directions.
    #[must_use]
    pub fn new(pipeline: Arc<Pipeline>, max_message: usize) -> Self {
        Self { pipeline, max_message }
    }
}

impl NamedService for Processor {
    const NAME: &'static str = SERVICE;
}

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Replies = Pin<Box<dyn Stream<Item = Result<Reply, Status>> + Send>>;

impl<B> Service<http::Request<B>> for Processor
where
    B: http_body::Body + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send + 'static,
    B::Data: Send,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        if request.uri().path() != PROCESS {
            return Box::pin(async { Ok(Status::unimplemented("this service has one method: Process").into_http()) });
        }
        let mut grpc = Grpc::new(ExtProcCodec).apply_max_message_size_config(Some(self.max_message), Some(self.max_message));
        let method = Process(Arc::clone(&self.pipeline));
        Box::pin(async move { Ok(grpc.streaming(method, request).await) })
    }
}

struct Process(Arc<Pipeline>);

impl StreamingService<ProcessingRequest> for Process {
    type Response = Reply;
    type ResponseStream = Replies;
    type Future = std::future::Ready<Result<Response<Replies>, Status>>;

    fn call(&mut self, request: Request<Streaming<ProcessingRequest>>) -> Self::Future {
        if request.metadata().get(ROLE_HEADER).is_some_and(|role| role == upstream::ROLE) {
            return std::future::ready(Ok(Response::new(attempt(self.0.attempt(), request.into_inner()))));
        }
        let conversation = Conversation {
            messages: request.into_inner(),
            exchange: Exchange::default(),
            judgement: self.0.begin(),
            replies: VecDeque::new(),
            body_deadline: Instant::now() + self.0.body_wait(),
        };
        let replies = unfold(conversation, |mut conversation| async {
            let reply = conversation.next().await?;
            Some((reply, conversation))
        });
        std::future::ready(Ok(Response::new(Box::pin(replies))))
    }
}

/// The stream of an attempt: nothing is awaited but Envoy.
fn attempt(attempt: Attempt, messages: Streaming<ProcessingRequest>) -> Replies {
    let state = (Upstream::new(attempt), messages, VecDeque::new());
    Box::pin(unfold(state, |(mut upstream, mut messages, mut replies)| async {
        loop {
            if let Some(reply) = replies.pop_front() {
                return Some((Ok(reply), (upstream, messages, replies)));
            }
            match messages.message().await {
                Ok(Some(message)) => replies.extend(upstream.on(&message)),
                // A reset by Envoy ends the attempt; there is nobody to tell.
                Ok(None) | Err(_) => return None,
            }
        }
    }))
}

struct Conversation {
    messages: Streaming<ProcessingRequest>,
    exchange: Exchange,
    judgement: Judgement,
    replies: VecDeque<Reply>,
    body_deadline: Instant,
}

impl Conversation {
    /// The next reply; `None` ends the stream cleanly, which lets the request go on as it is (fact 25).
    async fn next(&mut self) -> Option<Result<Reply, Status>> {
        loop {
            if let Some(reply) = self.replies.pop_front() {
                return Some(Ok(reply));
            }
            if self.exchange.is_closed() {
                return None;
            }
            let step = match self.receive().await {
                Received::Message(message) => self.exchange.on(*message, &mut self.judgement),
                Received::TooSlow => self.exchange.on_body_wait(&mut self.judgement),
                Received::End => return None,
                Received::Broken(status) => match self.refuse_broken(&status).await {
                    true => continue,
                    false => return Some(Err(status)),
                },
            };
            self.follow(step).await;
        }
    }

    /// Does what a step asks for, up to the next message.
    async fn follow(&mut self, mut step: Step) {
        let mut pace = Pace::start();
        loop {
            self.replies.extend(step.replies);
            match step.next {
                Next::Message => return,
                Next::ReadOn => {
                    pace.breathe().await;
                    step = self.exchange.read_on(&mut self.judgement);
                }
                Next::Decide => {
                    let answer = self.judgement.decide().await;
                    self.replies.extend(self.exchange.answer(&answer));
                    return;
                }
            }
        }
    }

    /// A message that cannot be taken ends the stream, and with it the request would go on (fact 25): where the tenant may not, it is
    /// refused before. True if there is something to send.
    async fn refuse_broken(&mut self, status: &Status) -> bool {
        let why = match status.code() {
            Code::OutOfRange => Cut::TooLarge,
            Code::Internal => Cut::Broken,
            // Envoy has gone: nobody is there to be told.
            _ => return false,
        };
        if self.exchange.on_broken(why, &mut self.judgement).next != Next::Decide {
            return false;
        }
        let answer = self.judgement.decide().await;
        let refused = matches!(answer, Answer::Refuse { .. });
        if refused {
            self.replies.extend(self.exchange.answer(&answer));
        }
        refused
    }

    async fn receive(&mut self) -> Received {
        let message = self.messages.message();
        let received = if self.exchange.waits_for_client() {
            match timeout_at(self.body_deadline, message).await {
                Ok(received) => received,
                Err(_) => return Received::TooSlow,
            }
        } else {
            message.await
        };
        match received {
            Ok(Some(message)) => Received::Message(Box::new(message)),
            Ok(None) => Received::End,
            Err(status) => {
                // A reset by Envoy (its client went away) is everyday business; the message holds no content of the request.
                tracing::debug!(event = "stream_broken", code = ?status.code(), detail = status.message());
                Received::Broken(status)
            }
        }
    }
}

enum Received {
    Message(Box<ProcessingRequest>),
    TooSlow,
    End,
    Broken(Status),
}
