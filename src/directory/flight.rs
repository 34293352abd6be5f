//! Lookups under way, one a key: whoever asks while one flies waits for the same answer. A flight ends by itself, whether or not
//! anybody still waits, and leaves nothing behind, even where it panics.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::Lookup;
use crate::session::{Answer, Fault};

type Landing = watch::Receiver<Option<Answer>>;

#[derive(Debug, Clone, Default)]
pub(super) struct Flights(Arc<Mutex<HashMap<Box<str>, Landing>>>);

/// A seat beside the pilot, or the pilot's own.
pub(super) enum Boarding {
    Waits(Landing),
    Pilot(Landing, Flight),
}

/// A lookup under way; it is over when this is dropped.
pub(super) struct Flight {
    flights: Flights,
    key: Box<str>,
    landing: watch::Sender<Option<Answer>>,
}

impl Flights {
    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Landing>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn under_way(&self) -> usize {
        self.lock().len()
    }

    /// Joins the flight of this key, or starts it, unless `known` has the answer by now: a flight remembers before it lands.
    pub(super) fn board(&self, key: &str, known: impl FnOnce() -> Option<Answer>) -> Result<Boarding, Answer> {
        let mut flights = self.lock();
        if let Some(landing) = flights.get(key) {
            return Ok(Boarding::Waits(landing.clone()));
        }
        if let Some(answer) = known() {
            return Err(answer);
        }
        let (landing, waits) = watch::channel(None);
        flights.insert(Box::from(key), waits.clone());
        Ok(Boarding::Pilot(waits, Flight { flights: self.clone(), key: Box::from(key), landing }))
    }
}

impl Flight {
    pub(super) fn land(self, answer: Answer) {
        self.landing.send_replace(Some(answer));
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.flights.lock().remove(&self.key);
    }
}

/// Waits for a flight to land; one that crashed is a fault of ours.
pub(super) fn wait(mut landing: Landing) -> Lookup {
    Lookup::Pending(Box::pin(async move {
        match landing.wait_for(Option::is_some).await {
            Ok(answer) => answer.clone().unwrap_or(Answer::Unavailable(Fault::Internal)),
            Err(_) => Answer::Unavailable(Fault::Internal),
        }
    }))
}
