//! A directory in Redis or Valkey: `GET` of the key, whose value is the answer's JSON. One connection serves every lookup and is
//! made anew in the background when it breaks.

use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, RedisError};

use super::{Directory, Lookup};
use crate::session::{Answer, Fault, parse};

/// The shortest time in which a connection can be made: a lookup's own limit may be shorter than a handshake.
const CONNECT: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub struct Redis {
    connection: ConnectionManager,
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
    pub fn new(url: &str, timeout: Duration) -> Result<Self, String> {
        let said = |error: RedisError| format!("session.url: {error}");
        let config = ConnectionManagerConfig::new()
            .set_response_timeout(Some(timeout))
            .set_connection_timeout(Some(timeout.max(CONNECT)))
            // The next lookup tries again.
            .set_number_of_retries(0);
        let client = Client::open(url).map_err(said)?;
        let connection = ConnectionManager::new_lazy_with_config(client, config).map_err(said)?;
        Ok(Self { connection })
    }
}

fn fault(error: &RedisError) -> Fault {
    if error.is_timeout() {
        Fault::Timeout
    } else if error.is_io_error() || error.is_connection_dropped() || error.is_connection_refusal() {
        Fault::Unreachable
    } else {
        Fault::Refused
    }
}

impl Directory for Redis {
    fn look_up(&self, key: &str) -> Lookup {
        let (mut connection, key) = (self.connection.clone(), key.to_owned());
        Lookup::Pending(Box::pin(async move {
            let command = redis::cmd("GET").arg(key).to_owned();
            match command.query_async::<Option<Vec<u8>>>(&mut connection).await {
                Ok(Some(value)) => parse(&value),
                Ok(None) => Answer::Unknown,
                Err(error) => Answer::Unavailable(fault(&error)),
            }
        }))
    }
}
