//! Cooldowns, and what people say of clusters, between replicas: a stream in Redis that each replica writes to and reads from. All
//! of them, the writer too, take its entries in the order of the stream, so that they agree however cooling and clearing cross. It
//! is best effort: without Redis each replica goes by what it sees itself, and no request ever waits for any of this.

mod entry;
mod status;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, FromRedisValue, RedisError};
use tokio::sync::mpsc;
use tokio::time::sleep;

pub use self::entry::Entry;
pub use self::status::Status;
use super::monitor::Monitor;
use crate::catalog::store::Store;
use crate::health::{Change, Moment, What};
use crate::line::{Line, Patience, asks_elsewhere, code};
use crate::settings;
use crate::telemetry::{Metrics, Shared};

/// Entries that wait to be written. More than that in the time of a write is a flood: what is over the brim is not told.
const QUEUE: usize = 1024;
/// Entries that Redis keeps, give or take: far more than cool at once anywhere.
const KEPT: usize = 10_000;
/// How long Redis keeps the stream after its last entry: nothing in it lasts longer.
const LIFETIME: Duration = crate::health::MAX_BY_HAND;
/// Entries that are read at once, and how long to breathe afterwards: together the most that a flood can cost.
const BATCH: usize = 1_000;
const BREATH: Duration = Duration::from_millis(10);
/// How long Redis may hold back its answer where there is nothing new, and how long any answer may take.
const BLOCK: Duration = Duration::from_secs(5);
const ANSWER: Duration = Duration::from_secs(1);
/// Between tries to reach a Redis that is away.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// An end that moves by less is not told anew: while a provider says 429, each one moves it.
const WORTH_TELLING: Duration = Duration::from_secs(1);

/// Where the monitor puts what others should know.
#[derive(Debug)]
pub struct Outlet {
    entries: mpsc::Sender<Entry>,
    status: Arc<Status>,
    metrics: Arc<Metrics>,
}

impl Outlet {
    /// Never waits.
    pub fn tell(&self, entry: Entry) {
        if self.entries.try_send(entry).is_err() {
            self.metrics.shared(Shared::Lost);
        }
    }

    #[must_use]
    pub fn status(&self) -> &Status {
        &self.status
    }
}

/// The connection to the others, to be run.
pub struct Share {
    key: String,
    /// Waiting for what is new holds up everything else on a connection, so that there are two.
    writing: Line,
    reading: Line,
    entries: mpsc::Receiver<Entry>,
    status: Arc<Status>,
    metrics: Arc<Metrics>,
}

/// Nothing is connected yet.
///
/// # Errors
/// The URL is none of a Redis.
pub fn open(settings: &settings::Share, metrics: &Arc<Metrics>) -> Result<(Outlet, Share), String> {
    let line = |answer, silences| {
        let patience = Patience { connect: ANSWER, answer, silences };
        Line::new(&settings.url, patience).map_err(|error| format!("session.url: {error}"))
    };
    // A wait for what is new ends in time: one that does not has nobody at its other end.
    let (writing, reading) = (line(ANSWER, 2)?, line(BLOCK + ANSWER, 1)?);
    let (sender, entries) = mpsc::channel(QUEUE);
    let status = Arc::new(Status::new(metrics.clone()));
    let outlet = Outlet { entries: sender, status: status.clone(), metrics: metrics.clone() };
    Ok((outlet, Share { key: settings.key.clone(), writing, reading, entries, status, metrics: metrics.clone() }))
}

impl Share {
    /// Reads and writes for as long as it is polled.
    pub async fn run(self, monitor: Arc<Monitor>, store: Arc<Store>) {
        let Self { key, writing, reading, entries, status, metrics } = self;
        let writer = Writer {
            key: key.clone(),
            line: writing,
            reading: reading.clone(),
            status: &status,
            metrics: metrics.clone(),
            told: HashMap::new(),
        };
        let reader = Reader { key, line: reading, monitor: monitor.clone(), store, metrics };
        tokio::join!(writer.run(entries, &monitor), reader.run(&status));
    }
}

async fn ask<T: FromRedisValue>(line: &Line, command: Cmd) -> Result<T, RedisError> {
    let mut commands = redis::pipe();
    commands.add_command(command);
    line.ask::<(T,)>(&commands).await.map(|(answer,)| answer)
}

struct Writer<'s> {
    key: String,
    line: Line,
    /// The reader's: what one of them hears of its server is true of the other's.
    reading: Line,
    status: &'s Status,
    metrics: Arc<Metrics>,
    /// Until when others were last told that something cools.
    told: HashMap<(Box<str>, Option<Box<str>>), Moment>,
}

impl Writer<'_> {
    async fn run(mut self, mut entries: mpsc::Receiver<Entry>, monitor: &Monitor) {
        while let Some(entry) = entries.recv().await {
            if self.is_worth_telling(&entry, monitor.now()) {
                let result = if self.tell(&entry, monitor).await { Shared::Sent } else { Shared::Lost };
                self.metrics.shared(result);
            }
        }
    }

    fn is_worth_telling(&mut self, entry: &Entry, now: Moment) -> bool {
        let Entry::Cools(Change { cluster, model, cooldown, what }) = entry else { return true };
        self.told.retain(|_, until| *until > now);
        let known = self.told.entry((cluster.clone(), model.clone())).or_default();
        if *what == What::Moves && cooldown.until < known.after(WORTH_TELLING) {
            return false;
        }
        *known = cooldown.until;
        true
    }

    /// Tries until it is told or not worth telling any more.
    async fn tell(&mut self, entry: &Entry, monitor: &Monitor) -> bool {
        let mut pause = PAUSES.0;
        while !entry.is_over(monitor.now()) {
            match self.write(entry).await {
                Ok(()) => {
                    self.status.written();
                    return true;
                }
                // That it is away, its reader tells.
                Err(error) if is_away(&error) => {}
                // A primary that was demoted goes on to be read from, and says nothing new.
                Err(error) if asks_elsewhere(&error) => {
                    self.reading.give_up();
                    self.status.refused(&words(&error));
                }
                Err(error) => self.status.refused(&words(&error)),
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
        }
        // Whether the next one would be taken is not known.
        self.status.written();
        false
    }

    async fn write(&mut self, entry: &Entry) -> Result<(), RedisError> {
        let mut add = redis::cmd("XADD");
        add.arg(&self.key).arg("MAXLEN").arg("~").arg(KEPT).arg("*");
        entry.to_fields().iter().for_each(|(name, value)| _ = add.arg(*name).arg(value));
        ask::<()>(&self.line, add).await?;
        // It is told; a key that stays is short.
        let mut expire = redis::cmd("EXPIRE");
        expire.arg(&self.key).arg(LIFETIME.as_secs());
        let _ = ask::<()>(&self.line, expire).await;
        Ok(())
    }
}

/// The stream's id of an entry, and its names and values in turn.
type Raw = (String, Vec<Vec<u8>>);

struct Reader {
    key: String,
    line: Line,
    monitor: Arc<Monitor>,
    store: Arc<Store>,
    metrics: Arc<Metrics>,
}

impl Reader {
    async fn run(mut self, status: &Status) {
        // What no catalog names is passed over, so that there has to be one.
        if self.store.loaded().wait_for(|loaded| *loaded).await.is_err() {
            return;
        }
        let (mut last, mut waits, mut pause) = ("0-0".to_owned(), false, PAUSES.0);
        loop {
            match self.read(&last, waits).await {
                Ok(batch) => {
                    status.up();
                    (waits, pause) = (batch.len() < BATCH, PAUSES.0);
                    if let Some((id, _)) = batch.last() {
                        last.clone_from(id);
                        self.take(&batch);
                        sleep(BREATH).await;
                    } else if self.is_demoted().await {
                        // It can be read, and nobody writes to it any more. Who cannot write either says so.
                        self.line.give_up();
                        waits = false;
                    } else if self.is_another_stream(&last).await {
                        "0-0".clone_into(&mut last);
                        waits = false;
                    }
                }
                Err(error) => {
                    status.down(&words(&error));
                    waits = false;
                    sleep(pause).await;
                    pause = (pause * 2).min(PAUSES.1);
                }
            }
        }
    }

    /// What came after `last`, oldest first.
    async fn read(&mut self, last: &str, waits: bool) -> Result<Vec<Raw>, RedisError> {
        let mut command = redis::cmd("XREAD");
        command.arg("COUNT").arg(BATCH);
        if waits {
            command.arg("BLOCK").arg(u64::try_from(BLOCK.as_millis()).unwrap_or(0));
        }
        command.arg("STREAMS").arg(&self.key).arg(last);
        let streams: Option<Vec<(String, Vec<Raw>)>> = ask(&self.line, command).await?;
        Ok(streams.into_iter().flatten().flat_map(|(_, entries)| entries).collect())
    }

    /// True if the server is a replica by now: the stream goes on elsewhere. One that does not say is believed to be the primary.
    async fn is_demoted(&self) -> bool {
        let role: Result<Vec<redis::Value>, RedisError> = ask(&self.line, redis::cmd("ROLE")).await;
        let word = role.ok().and_then(|role| redis::from_redis_value::<String>(role.into_iter().next()?).ok());
        word.is_some_and(|word| word == "slave")
    }

    /// True if the stream has begun anew with lower ids, as that of another server whose clock is behind: nothing in it would ever come
    /// after what was read last.
    async fn is_another_stream(&mut self, last: &str) -> bool {
        let mut command = redis::cmd("XREVRANGE");
        command.arg(&self.key).arg("+").arg("-").arg("COUNT").arg(1);
        let newest: Result<Vec<Raw>, RedisError> = ask(&self.line, command).await;
        newest.is_ok_and(|newest| newest.first().is_some_and(|(id, _)| number(id) < number(last)))
    }

    fn take(&self, batch: &[Raw]) {
        let Some(snapshot) = self.store.current() else { return };
        let known: Vec<Entry> = batch
            .iter()
            .filter_map(|(_, fields)| Entry::parse(fields))
            .filter(|entry| snapshot.cluster_ids.contains_key(entry.cluster()))
            .filter(|entry| entry.model().is_none_or(|model| snapshot.model_ids.contains_key(model)))
            .collect();
        (known.len()..batch.len()).for_each(|_| self.metrics.shared(Shared::Ignored));
        (0..self.monitor.learn(&known)).for_each(|_| self.metrics.shared(Shared::Learned));
    }
}

/// An id of a stream's entry, to be compared.
fn number(id: &str) -> (u64, u64) {
    let (time, count) = id.split_once('-').unwrap_or((id, ""));
    (time.parse().unwrap_or_default(), count.parse().unwrap_or_default())
}

/// Without the address, which may hold a password.
fn words(error: &RedisError) -> String {
    if error.is_timeout() {
        "no answer in time".to_owned()
    } else if is_away(error) {
        "unreachable".to_owned()
    } else {
        code(error).unwrap_or_else(|| error.category().to_owned())
    }
}

fn is_away(error: &RedisError) -> bool {
    error.is_timeout() || error.is_io_error() || error.is_connection_dropped() || error.is_connection_refusal()
}
