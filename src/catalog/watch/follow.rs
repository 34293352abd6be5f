//! A thread of its own for the loader: reading files may block, on a network file system for long, and no request may wait for it.

use std::io;
use std::thread;

use tokio::sync::oneshot;

use super::events::Seen;
use super::{First, Loader};

/// A loader at work. Dropped, it ends once it is done with what it is at.
#[derive(Debug)]
pub struct Following {
    first: oneshot::Receiver<First>,
    ended: oneshot::Receiver<()>,
    seen: Seen,
    #[allow(dead_code, reason = "dropping it tells the thread to end")]
    stop: oneshot::Sender<()>,
}

impl Loader {
    /// Starts to load and to follow the source.
    ///
    /// # Errors
    /// The system gives no thread or no event queue.
    pub fn start(mut self) -> io::Result<Following> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let seen = self.seen.clone();
        let (first_sender, first) = oneshot::channel();
        let (alive, ended) = oneshot::channel::<()>();
        let (stop, stopped) = oneshot::channel::<()>();
        thread::Builder::new().name("catalog".to_owned()).spawn(move || {
            let _alive = alive;
            runtime.block_on(async {
                let follow = async {
                    let _ = first_sender.send(self.first().await);
                    self.run().await;
                };
                tokio::select! {
                    () = follow => {}
                    _ = stopped => {}
                }
            });
            runtime.shutdown_background();
        })?;
        Ok(Following { first, ended, seen, stop })
    }
}

impl Following {
    /// How the first load ended; waits for it. To be asked until it answers, once.
    pub async fn first(&mut self) -> First {
        // A thread that is gone has loaded nothing; `ended` says so too.
        (&mut self.first).await.unwrap_or(First::Away)
    }

    /// Called, it has the source read again now, as on SIGHUP.
    pub fn read_again(&self) -> impl Fn() + Send + use<> {
        let seen = self.seen.clone();
        move || seen.wake()
    }

    /// Resolves if the thread ends, which it must not.
    pub async fn ended(&mut self) {
        let _ = (&mut self.ended).await;
    }
}
