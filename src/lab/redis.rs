//! A real `redis-server` on a socket in a directory of its own: it can be away, come, and go and come back empty, at one
//! address. It refuses to know what is kept in it.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ::redis::{Client, Cmd, FromRedisValue, Value, aio::MultiplexedConnection};
use tokio::net::UnixStream;

use super::{Result, Scratch, Trouble, eventually};

/// It listens after some milliseconds; the machine may be busy.
const START_LIMIT: Duration = Duration::from_secs(20);

/// A server, or the place where one will be. It is killed on drop.
#[derive(Debug)]
pub struct RedisServer {
    child: Option<Child>,
    scratch: Scratch,
}

impl RedisServer {
    /// Starts one and waits until it listens.
    ///
    /// # Errors
    /// As [`RedisServer::run`].
    pub async fn start() -> Result<Self> {
        let mut server = Self::away()?;
        server.run().await?;
        Ok(server)
    }

    /// One that is yet to come: its address is known, and nobody listens there.
    ///
    /// # Errors
    /// When its directory cannot be made.
    pub fn away() -> Result<Self> {
        Ok(Self { child: None, scratch: Scratch::new()? })
    }

    /// Comes, or comes back empty, and waits until it listens.
    ///
    /// # Errors
    /// When there is no `redis-server` (the message says how to get one), it ends, or it does not listen in time.
    pub async fn run(&mut self) -> Result<()> {
        self.stop();
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"]).arg(self.socket());
        let child = command.arg("--dir").arg(self.scratch.path()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let advice = "a real Redis is needed: install `redis-server` (Debian: apt-get install redis-server)";
        let socket = self.socket();
        let child = self.child.insert(child.map_err(|error| Trouble::new(advice, error))?);
        let up = eventually("redis-server", START_LIMIT, async || match child.try_wait() {
            Ok(Some(status)) => Some(Err(Trouble(format!("redis-server ended at its start: {status}")))),
            _ => UnixStream::connect(&socket).await.ok().map(|_| Ok(())),
        });
        up.await?
    }

    /// Goes away at once, with all that it kept.
    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    #[must_use]
    pub fn url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }

    /// Sends a command, given as its words, and reads its answer.
    ///
    /// # Errors
    /// When it is away, refuses the command, or answers with something else than a `T`.
    pub async fn ask<T: FromRedisValue>(&self, words: &[&str]) -> Result<T> {
        let answer = command(words).query_async(&mut self.connect().await?).await;
        answer.map_err(|error| Trouble::new(format!("asking Redis {words:?}"), error))
    }

    /// Sends many commands in one go.
    ///
    /// # Errors
    /// When it is away, or refuses one of them.
    pub async fn tell<W: AsRef<str>>(&self, commands: &[Vec<W>]) -> Result<()> {
        let mut pipeline = ::redis::pipe();
        for words in commands {
            pipeline.add_command(command(words));
        }
        let told = pipeline.query_async::<Value>(&mut self.connect().await?).await;
        told.map(|_| ()).map_err(|error| Trouble::new("telling Redis", error))
    }

    async fn connect(&self) -> Result<MultiplexedConnection> {
        let no_way = |error| Trouble::new("connecting to Redis", error);
        Client::open(self.url()).map_err(no_way)?.get_multiplexed_async_connection().await.map_err(no_way)
    }

    fn socket(&self) -> PathBuf {
        self.scratch.path().join("redis.sock")
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn command<W: AsRef<str>>(words: &[W]) -> Cmd {
    let mut command = Cmd::new();
    words.iter().for_each(|word| _ = command.arg(word.as_ref()));
    command
}
