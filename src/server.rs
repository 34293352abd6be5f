//! The server: listeners, one worker per core, the admin address, and the way out. It binds, deals connections, moves the phase
//! on and joins what it started; it knows no catalog and decides nothing.

mod connection;
mod dealer;
mod greeting;
mod health;
mod http;
mod listener;
mod listeners;
pub mod phase;
mod room;
mod routes;
mod signal;
mod worker;

use std::fmt;
use std::io;
use std::iter;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tracing::{info, warn};

use self::dealer::Dealer;
pub use self::listener::Listener;
pub use self::listeners::Listeners;
use self::listeners::warn_if_open;
use self::phase::{Phase, Readiness};
pub use self::room::Room;
pub use self::routes::Processor;
use self::routes::{Door, Routes};
pub use self::signal::{Hangups, Signals};
use self::worker::{Shared, Worker};
use crate::admin::{self, Changes, Entrance};
use crate::catalog::store::Store;
use crate::feedback::{AccessLog, Monitor};
use crate::pipeline::affinity::Affinity;
use crate::secret::{AdminTokens, Keys};
use crate::settings::{Address, Settings};
use crate::telemetry::Metrics;

/// How long Cascade goes on serving after it has said that it is leaving, so that health checks notice before connections are
/// refused (fact 32: a processor that is gone fails requests that carry a body). At most a quarter of the drain.
const LAME_DUCK: Duration = Duration::from_secs(1);
/// How long a thread that is to end, or an open admin request, may hold up the exit.
const GRACE: Duration = Duration::from_millis(500);

/// Why the server cannot run, or could not go on.
#[derive(Debug)]
pub enum ServeError {
    Bind {
        setting: &'static str,
        address: Address,
        error: io::Error,
    },
    Start(io::Error),
    /// A listener broke or a thread ended on its own.
    Died(String),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bind { setting, address, error } => write!(f, "cannot listen on {address} ({setting}): {error}"),
            Self::Start(error) => write!(f, "cannot start: {error}"),
            Self::Died(what) => write!(f, "{what}"),
        }
    }
}

/// How a run ended that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    Drained,
    /// Told to stop twice: streams were cut without waiting.
    Cut,
}

/// What is served.
#[derive(Debug)]
pub struct Parts<P> {
    pub settings: Arc<Settings>,
    pub store: Arc<Store>,
    pub metrics: Arc<Metrics>,
    /// Hide session ids in explanations as in decisions.
    pub keys: Keys,
    /// Asks the session directory for explanations, and says how it is.
    pub affinity: Arc<Affinity>,
    pub monitor: Arc<Monitor>,
    /// Whoever wants to change clusters shows one.
    pub admin_tokens: Option<AdminTokens>,
    pub processor: P,
    /// Receives Envoy's access log while feedback is on.
    pub feedback: Option<AccessLog>,
}

/// The admin side of a server, running; the gRPC side can be started.
pub struct Server<P> {
    parts: Parts<P>,
    doors: Vec<(Listener, Door)>,
    phase: watch::Sender<Phase>,
    readiness: Readiness,
    admin: JoinSet<io::Result<()>>,
    /// People and scrapers must not keep anybody else waiting, nor each other's probes.
    rooms: Vec<Room>,
}

impl<P: Processor> Server<P> {
    /// Starts to answer on the admin and probe addresses: not ready, and able to say why.
    ///
    /// # Errors
    /// The system gives no thread or no event queue.
    pub fn start(listeners: Listeners, parts: Parts<P>) -> io::Result<Self> {
        let phase = watch::channel(Phase::Serving).0;
        let readiness = Readiness { store: parts.store.clone(), phase: phase.subscribe() };
        let Parts { settings, keys, metrics, affinity, monitor, admin_tokens, .. } = &parts;
        let (rules, readiness_seen) = (settings.rules(), readiness.clone());
        let state = admin::State::new(rules, keys.clone(), metrics.clone(), affinity.clone(), readiness_seen, monitor.clone());
        let Listeners { listen, log, admin, probe } = listeners;
        let main = if log.is_some() { Door::Requests } else { Door::Both };
        let doors = iter::once((listen, main)).chain(log.map(|log| (log, Door::Log))).collect();
        info!(admin = admin.shown(), "listening for admin on {}", admin.shown());
        let mut tasks = JoinSet::new();
        let changes = match admin_tokens {
            Some(tokens) => Changes::Bearer(tokens.clone()),
            None if admin.is_local() => Changes::Anyone,
            None => Changes::Nobody,
        };
        let entrance = Entrance::new(admin.tcp_address().is_some(), &settings.admin_hosts());
        let routes = admin::routes(state.clone().open_to(changes), entrance);
        let room = Room::open("admin")?;
        tasks.spawn_on(http::serve(admin, routes, phase.subscribe()), room.handle());
        let mut rooms = vec![room];
        if let Some(probe) = probe {
            info!(probe = probe.shown(), "listening for probes on {}", probe.shown());
            let room = Room::open("probe")?;
            tasks.spawn_on(http::serve(probe, admin::probe_routes(state), phase.subscribe()), room.handle());
            rooms.push(room);
        }
        Ok(Self { parts, doors, phase, readiness, admin: tasks, rooms })
    }

    /// Serves gRPC until a signal says to stop or something breaks, then drains and joins all it started.
    ///
    /// # Errors
    /// Threads cannot be started, or a listener or worker died.
    pub async fn run(mut self, signals: &mut Signals) -> Result<Ended, ServeError> {
        let (health, reporter) = health::service().await;
        let health_task = tokio::spawn(health::follow(reporter, self.readiness.clone()));
        let (workers, mut ended) = self.start_workers(&health).map_err(ServeError::Start)?;
        let workers = Arc::new(workers);
        let mut dealing = self.deal(&workers).map_err(ServeError::Start)?;

        let died = tokio::select! {
            () = signals.next() => None,
            Some(result) = dealing.join_next() => Some(format!("the ext_proc listener died: {}", outcome(&result))),
            Some(result) = self.admin.join_next() => Some(format!("the admin listener died: {}", outcome(&result))),
            Some(_) = ended.join_next() => Some("a worker thread ended on its own".to_owned()),
        };
        if let Some(what) = died {
            self.phase.send_replace(Phase::Over);
            return Err(ServeError::Died(what));
        }
        // Nobody sends requests to a server that never was ready: it need not wait for anyone to notice.
        let was_ready = self.readiness.check().is_ok();
        let result = tokio::select! {
            () = drain(&self.phase, &self.parts, was_ready, &mut ended) => Ended::Drained,
            () = signals.next() => Ended::Cut,
        };
        self.phase.send_replace(Phase::Over);
        if result == Ended::Cut {
            warn!("told to stop again: open streams are cut");
            return Ok(result);
        }
        while dealing.join_next().await.is_some() {}
        let _ = health_task.await;
        if timeout(GRACE, async { while ended.join_next().await.is_some() {} }).await.is_ok() {
            for worker in Arc::into_inner(workers).unwrap_or_default() {
                let _ = worker.join();
            }
        }
        let _ = timeout(GRACE, async { while self.admin.join_next().await.is_some() {} }).await;
        drop(self.rooms);
        info!("stopped");
        Ok(result)
    }

    /// Starts to accept. Says who could do so who should not.
    fn deal(&mut self, workers: &Arc<Vec<Worker>>) -> io::Result<JoinSet<io::Result<()>>> {
        let Parts { settings, metrics, feedback, .. } = &self.parts;
        let max_connections = settings.server.max_connections;
        let dealer = Dealer { workers: Arc::clone(workers), metrics: Arc::clone(metrics), max_connections };
        let mut dealing = JoinSet::new();
        for (listener, door) in std::mem::take(&mut self.doors) {
            let (listen, workers) = (listener.shown(), workers.len());
            match door {
                Door::Both | Door::Requests => info!(listen, workers, "listening for ext_proc on {listen}"),
                Door::Log => info!(listen, workers, "listening for the access log on {listen}"),
            }
            warn_if_open(&listener, door, feedback.is_some());
            dealing.spawn(dealer.clone().deal(listener.open()?, door, self.phase.subscribe()));
        }
        Ok(dealing)
    }

    fn start_workers(&self, health: &health::Service) -> io::Result<(Vec<Worker>, JoinSet<()>)> {
        let Settings { server, .. } = &*self.parts.settings;
        let shared = Shared {
            metrics: self.parts.metrics.clone(),
            phase: self.phase.subscribe(),
            max_concurrent_streams: server.max_concurrent_streams,
        };
        let (mut workers, mut ended) = (Vec::new(), JoinSet::new());
        for index in 0..std::thread::available_parallelism()?.get() {
            let Parts { processor, feedback, .. } = &self.parts;
            let routes =
                Routes { door: Door::Both, processor: processor.clone(), feedback: feedback.clone(), health: health.clone() };
            let (worker, end) = Worker::start(index, routes, shared.clone())?;
            workers.push(worker);
            ended.spawn(async {
                let _ = end.await;
            });
        }
        Ok((workers, ended))
    }
}

/// From the first signal to the last stream, or to the deadline.
async fn drain<P>(phase: &watch::Sender<Phase>, parts: &Parts<P>, was_ready: bool, ended: &mut JoinSet<()>) {
    let limit = parts.settings.server.drain;
    let deadline = Instant::now() + limit;
    phase.send_replace(Phase::Leaving);
    info!(limit = ?limit, "draining: not ready any more, open streams may finish");
    if was_ready {
        sleep(LAME_DUCK.min(limit / 4)).await;
    }
    phase.send_replace(Phase::Draining);
    if let Some(feedback) = &parts.feedback {
        feedback.end();
    }
    let all = async { while ended.join_next().await.is_some() {} };
    if timeout_at(deadline, all).await.is_err() {
        warn!(
            streams = parts.metrics.streams_in_flight(),
            "the drain is over: streams that are still open are cut (server.drain)"
        );
    }
}

fn outcome(result: &Result<io::Result<()>, JoinError>) -> String {
    match result {
        Ok(Ok(())) => "it ended".to_owned(),
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    }
}
