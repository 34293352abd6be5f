//! The life of the server in four phases, as everyone who serves sees it. What moves it on is the server's own business.

use std::sync::Arc;

use tokio::sync::watch;

use crate::catalog::store::Store;

/// Only ever moves forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Serving,
    /// Not ready any more, though everything is still served: whoever watches our health may send its requests elsewhere.
    Leaving,
    /// No new connections, no new streams; open streams go on.
    Draining,
    /// The deadline of the drain has passed: what is still open is cut.
    Over,
}

/// Waits until `phase` is reached. Also returns if nobody can move the phase any more.
pub async fn reached(phase: &mut watch::Receiver<Phase>, wanted: Phase) {
    let _ = phase.wait_for(|phase| *phase >= wanted).await;
}

/// Whether requests should come here: a catalog is loaded and the server is not about to go.
#[derive(Debug, Clone)]
pub struct Readiness {
    pub store: Arc<Store>,
    pub phase: watch::Receiver<Phase>,
}

/// Why requests should not come here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotReady {
    NoCatalog,
    Draining,
}

impl NotReady {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoCatalog => "no catalog is loaded",
            Self::Draining => "the server is draining",
        }
    }
}

impl Readiness {
    /// # Errors
    /// Says why not.
    pub fn check(&self) -> Result<(), NotReady> {
        if *self.phase.borrow() != Phase::Serving {
            Err(NotReady::Draining)
        } else if self.store.is_loaded() {
            Ok(())
        } else {
            Err(NotReady::NoCatalog)
        }
    }
}
