//! `cascade serve`: puts the parts together and runs them. What each part does is its own business; here is the order in which
//! they start, and what each failure means for the exit code.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;
use tracing::{error, warn};

use super::again::read_again;
use super::arguments::Serve;
use super::{EX_CONFIG, complain, report, source};
use crate::catalog::load::SourceFile;
use crate::catalog::store::Store;
use crate::catalog::watch::{First, Following, Loader};
use crate::diagnostic::Diagnostic;
use crate::directory::Sessions;
use crate::extproc::service::Processor;
use crate::feedback::{AccessLog, Monitor, share};
use crate::pipeline::Pipeline;
use crate::pipeline::affinity::Affinity;
use crate::secret::{AdminTokens, BadSecret, Keys};
use crate::server::{Ended, Listeners, Parts, Room, Server, Signals};
use crate::settings::Settings;
use crate::telemetry::Metrics;
use crate::telemetry::log;

/// How long the first load may take before addresses are bound without it, beside `catalog.settle`. Files are faster: a bad one is
/// refused before any address is taken. A slow URL must not keep the probes unanswered.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long the exit waits for the last log lines to be read.
const FLUSH: Duration = Duration::from_millis(500);

pub(super) fn run(arguments: &Serve) -> ExitCode {
    let read = source::settings(&arguments.common, arguments.listen.as_ref(), arguments.admin.as_ref());
    let source::Read { settings, warnings, files } = match read {
        Ok(read) => read,
        Err(source::Refused { diagnostics, files }) => return refuse("the settings are invalid", &diagnostics, &files),
    };
    let lines = match log::start(&settings.telemetry) {
        Ok(lines) => lines,
        Err(error) => {
            complain(&error);
            return ExitCode::from(EX_CONFIG);
        }
    };
    for Diagnostic { code, place, message, hint, .. } in warnings {
        warn!(code, %place, hint = hint.as_deref().unwrap_or_default(), "settings: {message}");
    }
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            error!(%error, "cannot start");
            return ExitCode::FAILURE;
        }
    };
    let code = runtime.block_on(serve(settings, files.into_iter().next(), Metrics::beside(lines.lost())));
    lines.flush(FLUSH);
    // A blocked read of the catalog must not hold up the exit.
    runtime.shutdown_background();
    code
}

fn refuse(what: &str, diagnostics: &[Diagnostic], files: &[SourceFile]) -> ExitCode {
    report::complain_of(diagnostics, files);
    complain(what);
    ExitCode::from(EX_CONFIG)
}

async fn serve(settings: Settings, file: Option<SourceFile>, metrics: Metrics) -> ExitCode {
    let (settings, metrics) = (Arc::new(settings), Arc::new(metrics));
    let (signals, hangups) = match Signals::register() {
        Ok(registered) => registered,
        Err(error) => return cannot_start(&error),
    };
    let secrets = match Secrets::read(&settings) {
        Ok(secrets) => secrets,
        Err(error) => {
            complain(&error.0);
            return ExitCode::from(EX_CONFIG);
        }
    };
    let (loader, store) = match Loader::new(&settings.catalog, settings.rules(), metrics.clone()) {
        Ok(made) => made,
        Err(error) => {
            complain(&format!("catalog.source: {error}"));
            return ExitCode::from(EX_CONFIG);
        }
    };
    let (mut following, rooms) = match loader.start().and_then(|following| Ok((following, Rooms::open()?))) {
        Ok(started) => started,
        Err(error) => return cannot_start(&error),
    };
    let again = watch::Sender::new(0);
    let secrets_again = again.subscribe();
    tokio::spawn(read_again(hangups, file, again, following.read_again()));
    let first = timeout(PATIENCE + settings.catalog.settle, following.first()).await;
    if let Ok(First::Invalid { diagnostics, files }) = &first {
        return refuse("the catalog is invalid", diagnostics, files);
    }
    let secrets = secrets.follow(&settings, &secrets_again);
    let server = match open(&settings, store, metrics, secrets, &rooms).await {
        Ok(server) => server,
        Err(code) => return code,
    };
    go(server, following, signals, first.is_err()).await
}

/// Binds the addresses and answers on those for people.
async fn open(
    settings: &Arc<Settings>,
    store: Arc<Store>,
    metrics: Arc<Metrics>,
    secrets: Secrets,
    rooms: &Rooms,
) -> Result<Server<Processor>, ExitCode> {
    let parts = parts(settings.clone(), store, metrics, secrets, rooms).map_err(|error| {
        complain(&error);
        ExitCode::from(EX_CONFIG)
    })?;
    let listeners = Listeners::bind(settings).await.map_err(|error| {
        error!("{error}");
        ExitCode::FAILURE
    })?;
    Server::start(listeners, parts).map_err(|error| cannot_start(&error))
}

fn cannot_start(error: &io::Error) -> ExitCode {
    error!(%error, "cannot start");
    ExitCode::FAILURE
}

/// Where things run that no request, no accept and none of each other may wait for; `server` has more of them.
struct Rooms {
    sessions: Room,
    sharing: Room,
}

impl Rooms {
    fn open() -> io::Result<Self> {
        Ok(Self { sessions: Room::open("sessions")?, sharing: Room::open("sharing")? })
    }
}

/// What the files of secrets hold.
struct Secrets {
    keys: Keys,
    admin_tokens: Option<AdminTokens>,
}

impl Secrets {
    fn read(settings: &Settings) -> Result<Self, BadSecret> {
        let keys = Keys::of(settings.secret_file.as_deref())?;
        Ok(Self { keys, admin_tokens: settings.admin_token_file.as_deref().map(AdminTokens::of).transpose()? })
    }

    /// Follows the files from now on.
    fn follow(self, settings: &Settings, again: &watch::Receiver<u64>) -> Self {
        if let Some(path) = settings.secret_file.clone() {
            tokio::spawn(self.keys.clone().follow(path, again.clone()));
        }
        if let (Some(tokens), Some(path)) = (self.admin_tokens.clone(), settings.admin_token_file.clone()) {
            tokio::spawn(tokens.follow(path, again.clone()));
        }
        self
    }
}

/// What is served. Must be called inside the runtime, where health is followed.
fn parts(
    settings: Arc<Settings>,
    store: Arc<Store>,
    metrics: Arc<Metrics>,
    Secrets { keys, admin_tokens }: Secrets,
    rooms: &Rooms,
) -> Result<Parts<Processor>, String> {
    let sessions = {
        let _inside = rooms.sessions.enter();
        Sessions::open(&settings.session, &metrics)?.map(Arc::new)
    };
    let affinity = Arc::new(Affinity::new(&settings, sessions.clone(), keys.clone()));
    let shared = settings.feedback.share.as_ref().map(|settings| share::open(settings, &metrics)).transpose()?;
    let (outlet, share) = shared.unzip();
    let monitor = Arc::new(Monitor::new(settings.feedback.cooling).telling(outlet));
    tokio::spawn(Arc::clone(&monitor).follow());
    if let Some(share) = share {
        rooms.sharing.handle().spawn(share.run(monitor.clone(), store.clone()));
    }
    let feedback = settings
        .feedback
        .enabled
        .then(|| AccessLog::new(&settings, store.clone(), monitor.clone(), metrics.clone(), keys.clone(), sessions));
    let pipeline = Pipeline::new(&settings, store.clone(), metrics.clone(), keys.clone(), monitor.clone(), affinity.clone());
    let max_message = usize::try_from(settings.server.max_message).unwrap_or(usize::MAX);
    let processor = Processor::new(Arc::new(pipeline), max_message);
    Ok(Parts { settings, store, metrics, keys, affinity, monitor, admin_tokens, processor, feedback })
}

/// Serves, also while the first load is still under way: streams must be told that nothing can be decided, and not hang.
async fn go(server: Server<Processor>, mut following: Following, mut signals: Signals, is_loading: bool) -> ExitCode {
    let trouble = async {
        if is_loading && let First::Invalid { diagnostics, files } = following.first().await {
            return Some((diagnostics, files));
        }
        following.ended().await;
        None
    };
    let ended = tokio::select! {
        ended = server.run(&mut signals) => ended,
        refused = trouble => {
            if let Some((diagnostics, files)) = refused {
                return refuse("the catalog is invalid", &diagnostics, &files);
            }
            error!("the thread that follows the catalog ended on its own");
            return ExitCode::FAILURE;
        }
    };
    match ended {
        Ok(Ended::Drained) => ExitCode::SUCCESS,
        Ok(Ended::Cut) => ExitCode::FAILURE,
        Err(error) => {
            error!("{error}");
            ExitCode::FAILURE
        }
    }
}
