//! Debian's `redis-server` on a socket in a directory of its own.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use cascade::lab::{Scratch, eventually};

use crate::gateway::ok;
use crate::town::LIMIT;

pub struct Redis {
    child: Child,
    scratch: Scratch,
}

impl Redis {
    pub async fn start() -> Self {
        let scratch = ok(Scratch::new());
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"]).arg(scratch.path().join("redis.sock"));
        let child = command.arg("--dir").arg(scratch.path()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.unwrap_or_else(|error| {
            panic!("these tests ask a real Redis: install `redis-server` (Debian: apt-get install redis-server): {error}")
        });
        let redis = Self { child, scratch };
        ok(eventually("redis-server", LIMIT, || async { std::os::unix::net::UnixStream::connect(redis.socket()).ok() }).await);
        redis
    }

    fn socket(&self) -> PathBuf {
        self.scratch.path().join("redis.sock")
    }

    pub fn url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
