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

/// The services of one worker.
#[derive(Debug, Clone)]
pub(super) struct Routes<P> {
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
        if service == P::NAME {
            self.processor.clone().call(request)
        } else if service == HEALTH {
            self.health.clone().call(request)
        } else if let (AccessLog::NAME, Some(feedback)) = (service, &self.feedback) {
            feedback.clone().call(request)
        } else if service == AccessLog::NAME {
            Box::pin(async { Ok(Status::unimplemented("set feedback.enabled to receive the access log").into_http()) })
        } else {
            Box::pin(async { Ok(Status::unimplemented("no such service; there are ext_proc and grpc.health.v1").into_http()) })
        }
    }
}

/// `/package.Service/Method` → `package.Service`.
fn service_of(path: &str) -> &str {
    path.strip_prefix('/').and_then(|path| path.split_once('/')).map_or("", |(service, _)| service)
}
