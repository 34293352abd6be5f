//! A connection to Redis or Valkey that is made anew when it cannot be trusted any more: it broke, it has fallen silent, or who
//! answers says that others are to be asked (a primary that was demoted, a password that was changed). It knows no key and no value.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ErrorKind, FromRedisValue, Pipeline, RedisError};
use tokio::sync::watch;
use tokio::time::timeout;

/// A connection lives at least this long before an answer or its lack ends it: a server whose every answer says "not me" must not be
/// connected to for each question.
const LEAST: Duration = Duration::from_secs(1);

/// Between two tries to connect.
const PAUSE: Duration = Duration::from_millis(100);

/// Codes of errors that are not of the question but of the server that got it.
const ELSEWHERE: [&str; 10] =
    ["READONLY", "MOVED", "ASK", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "NOAUTH", "WRONGPASS", "NOPERM", "EXECABORT"];

/// How long things may take.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// To connect.
    pub connect: Duration,
    /// For one answer.
    pub answer: Duration,
    /// So many answers in a row that do not come, over as many times `answer`, make a connection a dead one.
    pub silences: u32,
}

/// The connection; clones share it. Nothing is connected before the first question.
#[derive(Clone)]
pub struct Line(Arc<Shared>);

struct Shared {
    client: Client,
    patience: Patience,
    state: Mutex<State>,
    serial: AtomicU64,
}

enum State {
    /// Why the last connection could not be made, and when that was.
    Down(Option<(RedisError, Instant)>),
    Connecting(watch::Receiver<Option<Result<Wire, RedisError>>>),
    Up(Wire),
}

/// One connection.
#[derive(Clone)]
struct Wire {
    connection: MultiplexedConnection,
    serial: u64,
    made: Instant,
    heard: Arc<Heard>,
}

/// What a connection has let hear of itself.
struct Heard {
    silences: AtomicU32,
    last: Mutex<Instant>,
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Line")
    }
}

impl Line {
    /// # Errors
    /// The URL is none of a Redis.
    pub fn new(url: &str, patience: Patience) -> Result<Self, RedisError> {
        let (client, state) = (Client::open(url)?, Mutex::new(State::Down(None)));
        Ok(Self(Arc::new(Shared { client, patience, state, serial: AtomicU64::new(0) })))
    }

    /// Sends commands and reads their answers. It must be called inside a runtime, which the connection then lives on. Dropped, the
    /// question is forgotten, and counted as unanswered if it was old enough.
    ///
    /// # Errors
    /// There is no connection, no answer, or one that is an error.
    pub async fn ask<T: FromRedisValue>(&self, commands: &Pipeline) -> Result<T, RedisError> {
        let (asked, serial) = self.once(commands).await?;
        match asked {
            // Redis, or something on the way, closes what is idle for long, and that is only noticed now.
            Err(error) if error.is_connection_dropped() && self.is_replaced(serial) => self.once(commands).await?.0,
            asked => asked,
        }
    }

    /// The next question makes a new connection.
    pub fn give_up(&self) {
        let mut state = self.0.lock();
        if matches!(&*state, State::Up(_)) {
            *state = State::Down(None);
        }
    }

    async fn once<T: FromRedisValue>(&self, commands: &Pipeline) -> Result<(Result<T, RedisError>, u64), RedisError> {
        let mut wire = self.wire().await?;
        let mut question = Question { line: self, wire: wire.clone(), since: Instant::now(), is_over: false };
        let asked = commands.query_async::<T>(&mut wire.connection).await;
        question.is_over = true;
        match &asked {
            Err(error) if error.is_timeout() => self.unanswered(&wire),
            Err(error) if is_broken(error) => self.replace(&wire),
            Err(error) if asks_elsewhere(error) => {
                wire.heard.answered();
                if wire.made.elapsed() >= LEAST {
                    self.replace(&wire);
                }
            }
            Ok(_) | Err(_) => wire.heard.answered(),
        }
        Ok((asked, wire.serial))
    }

    /// The connection there is, or the one that is being made.
    async fn wire(&self) -> Result<Wire, RedisError> {
        let mut making = {
            let mut state = self.0.lock();
            match &*state {
                State::Up(wire) => return Ok(wire.clone()),
                // One whose task is gone never comes.
                State::Connecting(making) if making.borrow().is_some() || making.has_changed().is_ok() => making.clone(),
                // Who refuses, or is not there, must not be asked for each request.
                State::Down(Some((error, at))) if at.elapsed() < PAUSE => return Err(error.clone()),
                State::Down(_) | State::Connecting(_) => {
                    let making = self.connect();
                    *state = State::Connecting(making.clone());
                    making
                }
            }
        };
        let made = making.wait_for(Option::is_some).await.ok().and_then(|made| made.clone());
        made.unwrap_or_else(|| Err(RedisError::from((ErrorKind::Io, "the connection was given up"))))
    }

    /// Connects beside whoever asks: a question may be given up long before a handshake is over.
    fn connect(&self) -> watch::Receiver<Option<Result<Wire, RedisError>>> {
        let (sender, making) = watch::channel(None);
        let shared = Arc::clone(&self.0);
        tokio::spawn(async move {
            let Patience { connect, answer, .. } = shared.patience;
            let config = AsyncConnectionConfig::new().set_connection_timeout(Some(connect)).set_response_timeout(Some(answer));
            let connected = timeout(connect, shared.client.get_multiplexed_async_connection_with_config(&config)).await;
            let connected =
                connected.unwrap_or_else(|_| Err(RedisError::from(std::io::Error::from(std::io::ErrorKind::TimedOut))));
            let made = connected.map(|connection| Wire {
                connection,
                serial: shared.serial.fetch_add(1, Ordering::Relaxed),
                made: Instant::now(),
                heard: Arc::new(Heard { silences: AtomicU32::new(0), last: Mutex::new(Instant::now()) }),
            });
            *shared.lock() = match &made {
                Ok(wire) => State::Up(wire.clone()),
                Err(error) => State::Down(Some((error.clone(), Instant::now()))),
            };
            sender.send_replace(Some(made));
        });
        making
    }

    fn unanswered(&self, wire: &Wire) {
        let Patience { answer, silences, .. } = self.0.patience;
        if wire.heard.is_silent(silences, answer) && wire.made.elapsed() >= LEAST {
            self.replace(wire);
        }
    }

    fn replace(&self, wire: &Wire) {
        let mut state = self.0.lock();
        if matches!(&*state, State::Up(now) if now.serial == wire.serial) {
            *state = State::Down(None);
        }
    }

    fn is_replaced(&self, serial: u64) -> bool {
        !matches!(&*self.0.lock(), State::Up(wire) if wire.serial == serial)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Heard {
    fn answered(&self) {
        self.silences.store(0, Ordering::Relaxed);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// One more answer has not come. True if so many have not come, for so long, that none will.
    fn is_silent(&self, silences: u32, answer: Duration) -> bool {
        let missing = self.silences.fetch_add(1, Ordering::Relaxed) + 1;
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        missing >= silences && last.elapsed() >= answer * silences
    }
}

/// A question under way. Whoever asks may stop waiting a moment before the connection itself would.
struct Question<'l> {
    line: &'l Line,
    wire: Wire,
    since: Instant,
    is_over: bool,
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        if !self.is_over && self.since.elapsed() >= self.line.0.patience.answer / 2 {
            self.line.unanswered(&self.wire);
        }
    }
}

fn is_broken(error: &RedisError) -> bool {
    error.is_io_error() || error.is_connection_dropped() || error.is_connection_refusal() || error.is_unrecoverable_error()
}

/// What the server called its error, the first one if there are several.
#[must_use]
pub fn code(error: &RedisError) -> Option<String> {
    match error.clone().into_server_errors() {
        Some(errors) => errors.first().map(|(_, error)| error.code().to_owned()),
        None => error.code().map(str::to_owned),
    }
}

/// True if the server says that it is not the one to ask, or not with this password.
#[must_use]
pub fn asks_elsewhere(error: &RedisError) -> bool {
    if matches!(error.kind(), ErrorKind::AuthenticationFailed) {
        return true;
    }
    // Older servers wrap what a script ran into in an error of their own.
    let is_elsewhere =
        |code: &str, detail: Option<&str>| ELSEWHERE.contains(&code) || detail.is_some_and(|detail| detail.contains("-READONLY"));
    match error.clone().into_server_errors() {
        Some(errors) => errors.iter().any(|(_, error)| is_elsewhere(error.code(), error.details())),
        None => error.code().is_some_and(|code| is_elsewhere(code, error.detail())),
    }
}
