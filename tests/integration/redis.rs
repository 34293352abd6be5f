//! A real `redis-server` on a socket in a directory of its own. It can go away and come back, empty.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::process::eventually;

pub struct Redis {
    child: Option<Child>,
    folder: tempfile::TempDir,
}

impl Redis {
    pub async fn start() -> Self {
        let mut redis = Self::away();
        redis.run().await;
        redis
    }

    /// One that is yet to come.
    pub fn away() -> Self {
        Self { child: None, folder: tempfile::tempdir().unwrap() }
    }

    pub async fn run(&mut self) {
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"]).arg(self.socket());
        let child = command.arg("--dir").arg(self.folder.path()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.child = Some(child.unwrap_or_else(|error| {
            panic!("these tests need a real Redis: install `redis-server` (Debian: apt-get install redis-server): {error}")
        }));
        eventually("redis-server", async || tokio::net::UnixStream::connect(self.socket()).await.ok()).await;
    }

    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("redis.sock")
    }

    pub fn url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }

    /// Sends commands, each as its words.
    pub async fn tell<T: AsRef<str>>(&self, commands: &[Vec<T>]) {
        let client = ::redis::Client::open(self.url()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let mut pipeline = ::redis::pipe();
        for words in commands {
            let command = pipeline.cmd(words[0].as_ref());
            words[1..].iter().for_each(|word| _ = command.arg(word.as_ref()));
        }
        pipeline.query_async::<::redis::Value>(&mut connection).await.unwrap();
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.stop();
    }
}
