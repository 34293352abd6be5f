//! A directory in Redis or Valkey: the key's value is the answer's JSON, read up to the longest answer there is. What is learned is
//! written here too, but never over somebody else's word that the session lives where it was served: a value is replaced only while it
//! is the one that was judged.

use std::sync::Arc;
use std::time::Duration;

use redis::RedisError;

use super::learning::{News, Outcome, Verdict, judge};
use super::{Asking, Failure, Remote};
use crate::line::{Line, Patience};
use crate::session::{Answer, Fault, MAX_ANSWER, Placement, read};

/// The shortest time in which a connection can be made: a lookup's own limit may be shorter than a handshake.
const CONNECT: Duration = Duration::from_secs(1);
/// So many answers in a row that do not come make a connection a dead one.
const SILENCES: u32 = 3;
/// How often a write is tried while others write the same key.
const TRIES: usize = 3;
/// Replaces a value while it is what it was. One round, and nobody comes between.
const REPLACE: &str = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end \
                       redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) return 1";

#[derive(Debug, Clone)]
pub struct Redis {
    line: Line,
    /// How long a placement holds that does not say so itself.
    ttl: Duration,
}

/// What a key holds.
struct Found {
    /// `None`: nothing.
    value: Option<Vec<u8>>,
    answer: Answer,
    /// How long Redis still keeps it; `None`: for ever.
    left: Option<Duration>,
}

impl Redis {
    /// Nothing is connected before the first lookup.
    ///
    /// # Errors
    /// The URL is none of a Redis.
    pub fn new(url: &str, timeout: Duration, ttl: Duration) -> Result<Self, String> {
        let patience = Patience { connect: timeout.max(CONNECT), answer: timeout, silences: SILENCES };
        let line = Line::new(url, patience).map_err(|error: RedisError| format!("session.url: {error}"))?;
        Ok(Self { line, ttl })
    }

    async fn get(&self, key: &str) -> Result<Found, Failure> {
        let mut both = redis::pipe();
        // Together, so that nothing is written between them. One byte more than an answer may have shows one that is longer, however
        // long: its rest would hold up everybody's.
        both.atomic().cmd("GETRANGE").arg(key).arg(0).arg(MAX_ANSWER).cmd("PTTL").arg(key);
        let (value, left): (Vec<u8>, i64) = self.line.ask(&both).await.map_err(|error| Failure::of_redis(&error))?;
        // -1: it does not expire; -2: there is nothing, or not any more.
        if left == -2 {
            return Ok(Found { value: None, answer: Answer::Unknown, left: Some(Duration::ZERO) });
        }
        let left = (left != -1).then(|| Duration::from_millis(u64::try_from(left).unwrap_or_default()));
        let answer = read(&value).map_err(|why| Failure::new(Fault::Garbage, why))?;
        Ok(Found { value: Some(value), answer: self.at_most(answer, left), left })
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

    /// Remembers what served the session, unless what is there is as good, newer or of somebody else.
    ///
    /// # Errors
    /// Redis does not answer.
    pub(super) async fn learn(&self, key: &str, news: &News) -> Result<Outcome, Failure> {
        match self.write(key, news).await {
            // Whatever it is and whoever wrote it, it is not Cascade's.
            Err(failure) if failure.fault == Fault::Garbage => Ok(Outcome::LeftAlone),
            written => written,
        }
    }

    async fn write(&self, key: &str, News { served, is_move }: &News) -> Result<Outcome, Failure> {
        let value = served.placement(self.ttl).to_json().to_string();
        for _ in 0..TRIES {
            let found = self.get(key).await?;
            // One that does not expire has all its time left.
            let verdict = judge(&found.answer, found.left.unwrap_or(Duration::MAX), served, self.ttl);
            if verdict == Verdict::Keep || verdict == Verdict::Move && !is_move {
                return Ok(Outcome::Kept(found.answer));
            }
            if self.replace(key, found.value.as_deref(), &value).await? {
                return Ok(verdict.into());
            }
        }
        // Others write it faster than we read: theirs is newer.
        Ok(Outcome::Kept(self.get(key).await?.answer))
    }

    /// False if the key does not hold `known` any more.
    async fn replace(&self, key: &str, known: Option<&[u8]>, value: &str) -> Result<bool, Failure> {
        let ttl = u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX).max(1);
        let mut set = redis::pipe();
        let written = match known {
            None => {
                set.cmd("SET").arg(key).arg(value).arg("PX").arg(ttl).arg("NX");
                self.line.ask::<(Option<String>,)>(&set).await.map(|(set,)| set.is_some())
            }
            Some(known) => {
                set.cmd("EVAL").arg(REPLACE).arg(1).arg(key).arg(known).arg(value).arg(ttl);
                self.line.ask::<(bool,)>(&set).await.map(|(replaced,)| replaced)
            }
        };
        written.map_err(|error| Failure::of_redis(&error))
    }
}

impl Remote for Redis {
    fn ask(&self, key: &str) -> Asking {
        let (this, key) = (self.clone(), key.to_owned());
        Box::pin(async move { Ok(this.get(&key).await?.answer) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::Served;
    use crate::lab::RedisServer;

    const TTL: Duration = Duration::from_secs(600);
    const WORD: &str = r#"{"selected_backend":"b"}"#;

    async fn redis() -> (RedisServer, Redis) {
        let server = RedisServer::start().await.unwrap();
        let redis = Redis::new(&server.url(), Duration::from_secs(20), TTL).unwrap();
        (server, redis)
    }

    fn news() -> News {
        let served = Served { tenant: None, cluster: "a".to_owned(), endpoint: None, names: vec!["a".to_owned()] };
        News { served, is_move: true }
    }

    #[tokio::test]
    async fn what_was_written_between_reading_and_writing_stays() {
        let (server, redis) = redis().await;
        assert!(redis.replace("new", None, WORD).await.unwrap());
        assert!(!redis.replace("new", None, "mine").await.unwrap(), "it is there by now");
        assert!(!redis.replace("new", Some(b"old"), "mine").await.unwrap(), "it is another one by now");
        assert!(!redis.replace("gone", Some(b"old"), "mine").await.unwrap(), "it is gone by now");
        assert!(redis.replace("new", Some(WORD.as_bytes()), "mine").await.unwrap());
        assert_eq!(server.ask::<String>(&["GET", "new"]).await.unwrap(), "mine");
        assert!(server.ask::<i64>(&["PTTL", "new"]).await.unwrap() > 0);
        assert!(!server.ask::<bool>(&["EXISTS", "gone"]).await.unwrap());
    }

    #[tokio::test]
    async fn a_word_that_comes_while_we_write_is_never_lost() {
        let (server, redis) = redis().await;
        for _ in 0..200 {
            let old = news().served.placement(TTL).to_json().to_string();
            server.ask::<()>(&["SET", "s", &old, "PX", "1000"]).await.unwrap();
            // A renewal: where it reads the word first, it leaves it.
            let news = News { is_move: false, ..news() };
            let (learned, said) = tokio::join!(redis.learn("s", &news), server.ask::<()>(&["SET", "s", WORD]));
            learned.unwrap();
            said.unwrap();
            assert_eq!(server.ask::<String>(&["GET", "s"]).await.unwrap(), WORD);
        }
    }

    #[tokio::test]
    async fn a_key_that_comes_and_goes_is_never_garbage() {
        let (server, redis) = redis().await;
        for _ in 0..300 {
            let all = tokio::join!(
                redis.get("s"),
                server.ask::<()>(&["SET", "s", WORD]),
                redis.get("s"),
                server.ask::<()>(&["DEL", "s"]),
                redis.get("s"),
            );
            for found in [all.0, all.2, all.4] {
                assert!(matches!(found.unwrap().answer, Answer::Placed(_) | Answer::Unknown));
            }
        }
    }
}
