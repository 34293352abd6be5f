//! A directory in Redis or Valkey: the key's value is the answer's JSON, read up to the longest answer there is. One connection serves
//! every lookup and is made anew in the background when it breaks. What is learned is written here too, but never over somebody
//! else's word that the session lives where it was served.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, RedisError};

use super::learning::{News, Outcome, Verdict, judge};
use super::{Asking, Failure, Remote};
use crate::session::{Answer, Fault, MAX_ANSWER, Placement, read};

/// The shortest time in which a connection can be made: a lookup's own limit may be shorter than a handshake.
const CONNECT: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub struct Redis {
    connection: ConnectionManager,
    /// How long a placement holds that does not say so itself.
    ttl: Duration,
}

impl std::fmt::Debug for Redis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Redis")
    }
}

impl Redis {
    /// Nothing is connected before the first lookup. Must be called inside a runtime.
    ///
    /// # Errors
    /// The URL is none of a Redis.
    pub fn new(url: &str, timeout: Duration, ttl: Duration) -> Result<Self, String> {
        let said = |error: RedisError| format!("session.url: {error}");
        let config = ConnectionManagerConfig::new()
            .set_response_timeout(Some(timeout))
            .set_connection_timeout(Some(timeout.max(CONNECT)))
            // The next lookup tries again.
            .set_number_of_retries(0);
        let client = Client::open(url).map_err(said)?;
        let connection = ConnectionManager::new_lazy_with_config(client, config).map_err(said)?;
        Ok(Self { connection, ttl })
    }

    /// The answer, and how long Redis still keeps it: not at all if nothing is there. `None`: for ever.
    async fn get(&self, key: &str) -> Result<(Answer, Option<Duration>), Failure> {
        let mut connection = self.connection.clone();
        let mut both = redis::pipe();
        // One byte more than an answer may have shows one that is longer, however long: its rest would hold up everybody's.
        both.cmd("GETRANGE").arg(key).arg(0).arg(MAX_ANSWER).cmd("PTTL").arg(key);
        let mut asked: Result<(Vec<u8>, i64), RedisError> = both.query_async(&mut connection).await;
        if asked.as_ref().is_err_and(RedisError::is_connection_dropped) {
            // Redis, or something on the way, closes what is idle for long, and that is only noticed now.
            asked = both.query_async(&mut connection).await;
        }
        let (value, left) = asked.map_err(|error| Failure::of_redis(&error))?;
        // -1: it does not expire; -2: there is nothing, or not any more.
        if value.is_empty() && left == -2 {
            return Ok((Answer::Unknown, Some(Duration::ZERO)));
        }
        let left = (left != -1).then(|| Duration::from_millis(u64::try_from(left).unwrap_or_default()));
        let answer = read(&value).map_err(|why| Failure::new(Fault::Garbage, why))?;
        Ok((self.at_most(answer, left), left))
    }

    /// No answer is remembered longer than Redis keeps it.
    fn at_most(&self, answer: Answer, left: Option<Duration>) -> Answer {
        match (answer, left) {
            (Answer::Placed(placement), Some(left)) => {
                let ttl = placement.ttl.unwrap_or(self.ttl).min(left);
                Answer::Placed(Arc::new(Placement { ttl: Some(ttl), ..Arc::unwrap_or_clone(placement) }))
            }
            (answer, _) => answer,
        }
    }

    /// Remembers what served the session, unless what stands there is as good, newer or of somebody else.
    ///
    /// # Errors
    /// Redis does not answer.
    pub(super) async fn learn(&self, key: &str, news: &News) -> Result<Outcome, Failure> {
        match self.write(key, news).await {
            // Whatever it is and whoever wrote it, it is none of ours.
            Err(failure) if failure.fault == Fault::Garbage => Ok(Outcome::LeftAlone),
            written => written,
        }
    }

    async fn write(&self, key: &str, News { served, is_move }: &News) -> Result<Outcome, Failure> {
        let (known, left) = self.get(key).await?;
        // One that does not expire has all its time left.
        let verdict = judge(&known, left.unwrap_or(Duration::MAX), served, self.ttl);
        if verdict == Verdict::Keep || verdict == Verdict::Move && !is_move {
            return Ok(Outcome::Kept(known));
        }
        let value = served.placement(self.ttl).to_json().to_string();
        let mut set = redis::cmd("SET");
        set.arg(key).arg(value).arg("PX").arg(u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX).max(1));
        if left == Some(Duration::ZERO) {
            // Who writes first in this moment is right.
            set.arg("NX");
        }
        let set: Result<Option<String>, RedisError> = set.query_async(&mut self.connection.clone()).await;
        match set.map_err(|error| Failure::of_redis(&error))? {
            Some(_) => Ok(verdict.into()),
            None => Ok(Outcome::Kept(self.get(key).await?.0)),
        }
    }
}

impl Remote for Redis {
    fn ask(&self, key: &str) -> Asking {
        let (this, key) = (self.clone(), key.to_owned());
        Box::pin(async move { Ok(this.get(&key).await?.0) })
    }
}
