//! A thread with a runtime of its own, for work that nothing else may wait for: admin requests, probes, session lookups, what
//! replicas share. What runs in a room is the caller's business; a room that is dropped ends without waiting for it.

use std::io;
use std::thread;

use tokio::runtime::{Builder, EnterGuard, Handle};
use tokio::sync::oneshot;

/// Work that may block, of one room at once: it bounds what pages that are expensive to write take at the same time.
const BLOCKING: usize = 4;

/// The room; the thread ends when this is dropped.
#[derive(Debug)]
pub struct Room {
    handle: Handle,
    #[allow(dead_code, reason = "dropping it tells the thread to end")]
    stop: oneshot::Sender<()>,
}

impl Room {
    /// Starts the thread under this name.
    ///
    /// # Errors
    /// The system gives no thread or no event queue.
    pub fn open(name: &str) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(BLOCKING).build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            let _ = runtime.block_on(stopped);
            // A call that blocks must not hold up the exit.
            runtime.shutdown_background();
        })?;
        Ok(Self { handle, stop })
    }

    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// What is made while the guard lives, and asks for the current runtime, belongs to this room.
    pub fn enter(&self) -> EnterGuard<'_> {
        self.handle.enter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_runs_on_the_rooms_own_thread_and_ends_with_the_room() {
        let room = Room::open("aside").unwrap();
        let name = room.handle().spawn(async { thread::current().name().map(str::to_owned) }).await.unwrap();
        assert_eq!(name.as_deref(), Some("aside"));
        let endless = room.handle().spawn(std::future::pending::<()>());
        drop(room);
        assert!(endless.await.unwrap_err().is_cancelled());
    }
}
