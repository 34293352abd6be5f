//! `grpc.health.v1`: what Envoy's health checks of this cluster see. It only repeats [`Readiness`].

use tokio::sync::watch;
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::HealthServer;
use tonic_health::server::{HealthReporter, HealthService};

use super::phase::{Phase, Readiness};

pub(super) type Service = HealthServer<HealthService>;

/// The whole server, and the one service that matters.
const SERVICES: [&str; 2] = ["", "envoy.service.ext_proc.v3.ExternalProcessor"];

/// The service, not serving yet, and what keeps it up to date.
pub(super) async fn service() -> (Service, HealthReporter) {
    let reporter = HealthReporter::new();
    report(&reporter, ServingStatus::NotServing).await;
    (HealthServer::new(HealthService::from_health_reporter(reporter.clone())), reporter)
}

/// Repeats readiness until the server drains; then ends the watches, which would keep their connections open for ever.
pub(super) async fn follow(mut reporter: HealthReporter, readiness: Readiness) {
    let mut phase = readiness.phase.clone();
    let mut loaded: watch::Receiver<bool> = readiness.store.loaded();
    loop {
        let status = if readiness.check().is_ok() { ServingStatus::Serving } else { ServingStatus::NotServing };
        report(&reporter, status).await;
        tokio::select! {
            changed = phase.changed() => if changed.is_err() { break },
            Ok(()) = loaded.changed() => {},
        }
        if *phase.borrow() >= Phase::Draining {
            break;
        }
    }
    for service in SERVICES {
        reporter.clear_service_status(service).await;
    }
}

async fn report(reporter: &HealthReporter, status: ServingStatus) {
    for service in SERVICES {
        reporter.set_service_status(service, status).await;
    }
}
