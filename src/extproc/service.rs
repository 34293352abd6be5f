//! The gRPC service: a loop of receive, step, send around one [`Exchange`] a stream. It knows clocks and channels; what the
//! messages mean is the exchange's and the pipeline's business.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::stream::unfold;
use futures_util::{FutureExt, Stream};
use tokio::time::{Instant, timeout_at};
use tonic::body::Body;
use tonic::server::{Grpc, NamedService, StreamingService};
use tonic::{Code, Request, Response, Status, Streaming};
use tower::Service;

use super::arriving::Arriving;
use super::codec::ExtProcCodec;
use super::exchange::{Cut, Exchange, Next, Step};
use super::pace::Pace;
use super::upstream::{self, Upstream};
use crate::encode::reply::{self, Answer, Kind, Reply};
use crate::pipeline::attempt::Attempt;
use crate::pipeline::held::{Holder, Holding};
use crate::pipeline::{Judgement, Pipeline, Word};
use crate::proto::ProcessingRequest;

/// The name of Envoy's service, as health checks ask for it.
pub const SERVICE: &str = "envoy.service.ext_proc.v3.ExternalProcessor";
/// Says which of Envoy's two filters a stream comes from; absent for the one that asks for decisions.
const ROLE_HEADER: &str = "x-cascade-role";
/// What the first message of a stream may take where there is no room: headers, attributes and metadata, in bytes.
const LARGEST_HEAD: u64 = 1024 * 1024;
const PROCESS: &str = "/envoy.service.ext_proc.v3.ExternalProcessor/Process";

/// `envoy.service.ext_proc.v3.ExternalProcessor`.
#[derive(Debug, Clone)]
pub struct Processor {
    pipeline: Arc<Pipeline>,
    max_message: usize,
}

impl Processor {
    /// `max_message` bounds one message of Envoy's, in bytes. Answers have no limit: one that is not sent would end the stream, and
    /// the request would go on without it.
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
        let mut grpc = Grpc::new(ExtProcCodec).apply_max_message_size_config(Some(self.max_message), None);
        let method = Process(Arc::clone(&self.pipeline));
        let holding = self.pipeline.held().open();
        let mut request = request.map(|body| Arriving::new(body, Arc::clone(&holding)));
        request.extensions_mut().insert(holding);
        Box::pin(async move { Ok(grpc.streaming(method, request).await) })
    }
}

struct Process(Arc<Pipeline>);

impl StreamingService<ProcessingRequest> for Process {
    type Response = Reply;
    type ResponseStream = Replies;
    type Future = std::future::Ready<Result<Response<Replies>, Status>>;

    fn call(&mut self, mut request: Request<Streaming<ProcessingRequest>>) -> Self::Future {
        let holding = request.extensions_mut().remove().unwrap_or_else(|| self.0.held().open());
        if request.metadata().get(ROLE_HEADER).is_some_and(|role| role == upstream::ROLE) {
            return std::future::ready(Ok(Response::new(attempt(self.0.attempt(), holding, request.into_inner()))));
        }
        let conversation = Conversation {
            messages: request.into_inner(),
            exchange: Exchange::default(),
            judgement: self.0.begin(),
            replies: VecDeque::new(),
            holding,
            queued: 0,
            is_cut: false,
            body_deadline: Instant::now() + self.0.body_wait(),
        };
        let replies = unfold(conversation, |mut conversation| async {
            let reply = conversation.next_safely().await?;
            Some((reply, conversation))
        });
        std::future::ready(Ok(Response::new(Box::pin(replies))))
    }
}

/// The stream of an attempt: nothing is awaited but Envoy.
fn attempt(attempt: Attempt, holding: Arc<Holding>, messages: Streaming<ProcessingRequest>) -> Replies {
    // Whose attempt it is was judged before, and there is nobody to refuse.
    holding.belongs_to(Holder::Everybody);
    let state = (Upstream::new(attempt), messages, VecDeque::new(), holding);
    Box::pin(unfold(state, |(mut upstream, mut messages, mut replies, holding)| async {
        loop {
            if let Some(reply) = replies.pop_front() {
                return Some((Ok(reply), (upstream, messages, replies, holding)));
            }
            let Ok(Some(message)) = messages.message().await else {
                // A reset by Envoy ends the attempt; there is nobody to tell. Where there is no room for its body it goes on as it is.
                return None;
            };
            if let Err(Failed) = follow_attempt(&mut upstream, message, &mut replies).await {
                return None;
            }
            holding.keep(0);
        }
    }))
}

/// An attempt failed inside.
struct Failed;

/// Does all that follows from a message of an attempt. A fault of ours ends its stream and lets it go on as it is.
async fn follow_attempt(
    upstream: &mut Upstream,
    message: ProcessingRequest,
    replies: &mut VecDeque<Reply>,
) -> Result<(), Failed> {
    let guarded = |work: &mut dyn FnMut() -> Vec<Reply>| {
        catch_unwind(AssertUnwindSafe(work)).map_err(|_| {
            tracing::error!(event = "fault", stage = "attempt", "an attempt failed inside; it goes on as it is");
            Failed
        })
    };
    let mut message = Some(message);
    replies.extend(guarded(&mut || message.take().map(|message| upstream.on(message)).unwrap_or_default())?);
    let mut pace = Pace::start();
    while upstream.reads_on() {
        pace.breathe().await;
        replies.extend(guarded(&mut || upstream.read_on())?);
    }
    Ok(())
}

struct Conversation {
    messages: Streaming<ProcessingRequest>,
    exchange: Exchange,
    judgement: Judgement,
    replies: VecDeque<Reply>,
    /// What this stream holds, as the process counts it, and how much of that is in `replies`.
    holding: Arc<Holding>,
    queued: u64,
    /// Envoy's messages have broken off, and what is still to be sent is all there is.
    is_cut: bool,
    body_deadline: Instant,
}

impl Conversation {
    /// The next reply. A fault of ours that nothing else has caught ends this stream and no other, and not before who may not go on
    /// without a decision is refused.
    async fn next_safely(&mut self) -> Option<Result<Reply, Status>> {
        if let Ok(reply) = AssertUnwindSafe(self.next()).catch_unwind().await {
            return reply;
        }
        tracing::error!(event = "fault", stage = "exchange", "a stream failed inside and ends");
        self.replies.clear();
        if self.exchange.on_fault()
            && let Some(refusal) = self.judgement.refusal_after_fault()
        {
            return Some(Ok(reply::deciding(Kind::RequestHeaders, &refusal, None)));
        }
        Some(Err(Status::internal("a fault inside Cascade")))
    }

    /// The next reply; `None` ends the stream cleanly, which lets the request go on as it is (fact 25).
    async fn next(&mut self) -> Option<Result<Reply, Status>> {
        loop {
            if let Some(reply) = self.replies.pop_front() {
                self.queued = self.queued.saturating_sub(reply.room() as u64);
                return Some(Ok(reply));
            }
            if self.exchange.is_over() || self.is_cut {
                return None;
            }
            let step = match self.receive().await {
                Received::Message(message) if self.exchange.is_fresh() && message.asks() && !self.judgement.has_catalog() => {
                    return Some(Err(Status::unavailable("no catalog has been loaded: nothing can be decided")));
                }
                Received::Message(message) => self.exchange.on(*message, &mut self.judgement),
                Received::TooSlow if self.exchange.is_fresh() => {
                    return Some(Err(Status::deadline_exceeded("nothing came within limits.body_wait")));
                }
                Received::TooSlow => self.exchange.on_body_wait(&mut self.judgement),
                Received::End => return None,
                Received::Overloaded if self.exchange.is_fresh() && !self.judgement.has_catalog() => {
                    return Some(Err(Status::unavailable("no catalog has been loaded: nothing can be decided")));
                }
                Received::Overloaded => {
                    self.is_cut = true;
                    self.exchange.on_overload(&mut self.judgement)
                }
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
            self.send(step.replies);
            // Where a decision is due anyway, what is held goes with it.
            if !self.has_room() && step.next != Next::Decide {
                step = self.exchange.on_overload(&mut self.judgement);
                self.send(step.replies);
            }
            match step.next {
                Next::Message => return,
                Next::ReadOn => {
                    pace.breathe().await;
                    step = self.exchange.read_on(&mut self.judgement);
                }
                Next::Decide => {
                    let answer = self.decide().await;
                    let replies = self.exchange.answer(&answer);
                    self.send(replies);
                    self.has_room();
                    return;
                }
            }
        }
    }

    fn send(&mut self, replies: Vec<Reply>) {
        self.queued += replies.iter().map(|reply| reply.room() as u64).sum::<u64>();
        self.replies.extend(replies);
    }

    /// Counts what the stream holds between two messages. False: it has become more, and there is no room for it.
    fn has_room(&self) -> bool {
        self.holding.keep(self.exchange.kept() + self.judgement.memory() + self.queued)
    }

    /// How much of the next message may come though there is no room: all of it where what is under way has to go back, nothing where
    /// Envoy keeps the body itself, and of a first message what a head may take.
    fn prepare_for_more(&self) {
        if self.exchange.awaits_whole_body() {
            self.holding.be_patient(0);
        } else if self.exchange.is_undecided() || self.exchange.is_decided() {
            self.holding.be_patient(u64::MAX);
        } else {
            self.holding.be_patient(LARGEST_HEAD);
        }
        if self.exchange.is_undecided() && self.holding.is_unknown() {
            self.holding.belongs_to(self.judgement.holder());
        }
    }

    async fn decide(&mut self) -> Answer {
        let word = if self.exchange.has_last_word() { Word::Last } else { Word::First };
        self.judgement.decide(word).await
    }

    /// A message that cannot be taken ends the stream, and with it the request would go on (fact 25): where the tenant may not, it is
    /// refused before. True if there is something to send.
    async fn refuse_broken(&mut self, status: &Status) -> bool {
        let why = match status.code() {
            Code::OutOfRange | Code::ResourceExhausted => Cut::TooLarge,
            Code::Internal => Cut::Broken,
            // Envoy has gone: nobody is there to be told.
            _ => return false,
        };
        if self.exchange.is_fresh() && !self.judgement.has_catalog() {
            return false;
        }
        if self.exchange.on_broken(why, &mut self.judgement).next != Next::Decide {
            return false;
        }
        let answer = self.decide().await;
        let refused = matches!(answer, Answer::Refuse { .. });
        if refused {
            self.replies.extend(self.exchange.answer(&answer));
        }
        refused
    }

    async fn receive(&mut self) -> Received {
        self.prepare_for_more();
        let message = self.messages.message();
        let received = if self.exchange.waits_for_client() || self.exchange.is_fresh() {
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
            Err(status) if status.code() == Code::ResourceExhausted && self.exchange.is_undecided() => Received::Overloaded,
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
    /// There is no room for the message that is under way.
    Overloaded,
    Broken(Status),
}
