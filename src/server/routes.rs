//! Which gRPC service a request is for. A table of three; a router would cost more than the decision it leads to.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;

use http::{Request, Response};
use hyper::body::Incoming;
use tonic::Status;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic_health::pb::health_server::SERVICE_NAME as HEALTH;
use tower::Service;

use super::health;
use crate::feedback::AccessLog;

pub(super) type Answer = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

/// The external processor as the server sees it: a gRPC service that each worker has a clone of.
pub trait Processor:
    Service<Request<Incoming>, Response = Response<Body>, Error = Infallible, Future = Answer>
    + NamedService
    + Clone
    + Send
    + Sync
    + 'static
{
}

impl<T> Processor for T where
    T: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible, Future = Answer>
        + NamedService
        + Clone
        + Send
        + Sync
        + 'static
{
}

/// Which services an address offers, beside health.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Door {
    /// ext_proc and the access log.
    Both,
    /// ext_proc alone: the access log has an address of its own.
    Requests,
    /// The access log alone.
    Log,
}

/// The services of one worker.
#[derive(Debug, Clone)]
pub(super) struct Routes<P> {
    pub(super) door: Door,
    pub(super) processor: P,
    pub(super) feedback: Option<AccessLog>,
    pub(super) health: health::Service,
}

impl<P: Processor> hyper::service::Service<Request<Incoming>> for Routes<P> {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answer;

    fn call(&self, request: Request<Incoming>) -> Answer {
        let service = service_of(request.uri().path());
        if service == HEALTH {
            self.health.clone().call(request)
        } else if service == P::NAME {
            match self.door {
                Door::Both | Door::Requests => self.processor.clone().call(request),
                Door::Log => refuse("ext_proc is not served here: this is feedback.listen, use listen"),
            }
        } else if service == AccessLog::NAME {
            match (self.door, &self.feedback) {
                (_, None) => refuse("set feedback.enabled to receive the access log"),
                (Door::Requests, Some(_)) => refuse("the access log is received at feedback.listen only"),
                (Door::Both | Door::Log, Some(feedback)) => feedback.clone().call(request),
            }
        } else {
            refuse("no such service; there are ext_proc and grpc.health.v1")
        }
    }
}

fn refuse(why: &'static str) -> Answer {
    Box::pin(async move { Ok(Status::unimplemented(why).into_http()) })
}

/// `/package.Service/Method` → `package.Service`.
fn service_of(path: &str) -> &str {
    path.strip_prefix('/').and_then(|path| path.split_once('/')).map_or("", |(service, _)| service)
}
