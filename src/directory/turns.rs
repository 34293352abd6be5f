//! Turns at a directory: only so many lookups may be under way at once, and a tenant that asks for much must not take them all. It
//! knows no session and no answer.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Stands for a tenant.
pub(super) type Whose = u64;

/// Clones share the turns.
#[derive(Debug, Clone)]
pub(super) struct Turns(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    free: usize,
    /// What every tenant may take while there is any. As many are kept free for those who have less.
    share: usize,
    /// Those of one tenant that may wait.
    most_waiting: usize,
    taken: HashMap<Whose, usize>,
    waiting: HashMap<Whose, VecDeque<oneshot::Sender<Turn>>>,
    /// The tenants that wait, in the order of their next turn.
    order: VecDeque<Whose>,
}

/// One lookup may be under way until this is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    turns: Turns,
    whose: Whose,
}

/// A tenant's lookups wait in such numbers that one more would only wait in vain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Crowded;

impl Turns {
    /// `free` at once. `share` of them are kept free for tenants that have fewer than that.
    pub(super) fn new(free: usize, share: usize, most_waiting: usize) -> Self {
        let (taken, waiting, order) = (HashMap::new(), HashMap::new(), VecDeque::new());
        Self(Arc::new(Mutex::new(State { free, share, most_waiting, taken, waiting, order })))
    }

    /// Waits for a turn.
    pub(super) async fn take(&self, whose: Whose) -> Result<Turn, Crowded> {
        let turn = {
            let mut state = self.lock();
            if state.may_take(whose) {
                state.count(whose);
                return Ok(Turn { turns: self.clone(), whose });
            }
            state.wait(whose)?
        };
        // The sender goes only with the turns themselves.
        turn.await.map_err(|_| Crowded)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give_back(&self, whose: Whose) {
        let mut state = self.lock();
        state.free += 1;
        if let Some(taken) = state.taken.get_mut(&whose) {
            *taken -= 1;
            if *taken == 0 {
                state.taken.remove(&whose);
            }
        }
        let next = state.next();
        drop(state);
        if let Some((whose, next)) = next {
            // Nobody is left to take it: it is dropped here, and goes on to the next one.
            let _ = next.send(Turn { turns: self.clone(), whose });
        }
    }
}

impl State {
    /// A tenant may have more than its share, but not what others may need at any moment.
    fn may_take(&self, whose: Whose) -> bool {
        let has = self.taken.get(&whose).copied().unwrap_or(0);
        self.free > if has < self.share { 0 } else { self.share }
    }

    fn count(&mut self, whose: Whose) {
        self.free -= 1;
        *self.taken.entry(whose).or_default() += 1;
    }

    fn wait(&mut self, whose: Whose) -> Result<oneshot::Receiver<Turn>, Crowded> {
        let waiting = self.waiting.entry(whose).or_default();
        if waiting.len() >= self.most_waiting {
            waiting.retain(|sender| !sender.is_closed());
        }
        if waiting.len() >= self.most_waiting {
            return Err(Crowded);
        }
        if waiting.is_empty() {
            self.order.push_back(whose);
        }
        let (sender, receiver) = oneshot::channel();
        waiting.push_back(sender);
        Ok(receiver)
    }

    /// Whose turn it is, counted as taken: tenants one after the other, those who have had their share later.
    fn next(&mut self) -> Option<(Whose, oneshot::Sender<Turn>)> {
        for _ in 0..self.order.len() {
            let whose = self.order.pop_front()?;
            let may_take = self.may_take(whose);
            let Some(waiting) = self.waiting.get_mut(&whose) else { continue };
            // Who has given up waiting has no turn.
            while waiting.front().is_some_and(oneshot::Sender::is_closed) {
                waiting.pop_front();
            }
            let next = if may_take { waiting.pop_front() } else { None };
            if waiting.is_empty() {
                self.waiting.remove(&whose);
            } else {
                self.order.push_back(whose);
            }
            if let Some(next) = next {
                self.count(whose);
                return Some((whose, next));
            }
        }
        None
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.give_back(self.whose);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn now(turns: &Turns, whose: Whose) -> Option<Turn> {
        turns.take(whose).now_or_never().and_then(Result::ok)
    }

    #[test]
    fn one_tenant_leaves_a_share_to_others_and_has_the_rest_while_nobody_asks() {
        let turns = Turns::new(8, 2, 100);
        let crowd: Vec<Turn> = (0..10).filter_map(|_| now(&turns, 1)).collect();
        assert_eq!(crowd.len(), 6);
        let others: Vec<Turn> = (0..10).filter_map(|_| now(&turns, 2)).collect();
        assert_eq!(others.len(), 2);
        assert!(now(&turns, 3).is_none());
        drop((crowd, others));
        assert_eq!(turns.lock().free, 8);
        assert!(turns.lock().taken.is_empty());
    }

    #[test]
    fn who_has_less_than_its_share_comes_before_who_has_more() {
        let turns = Turns::new(4, 1, 100);
        let mut crowd: Vec<Turn> = (0..3).filter_map(|_| now(&turns, 1)).collect();
        let other = now(&turns, 2).unwrap();
        let mut greedy = Box::pin(turns.take(1));
        let mut modest = Box::pin(turns.take(3));
        assert!(greedy.as_mut().now_or_never().is_none() && modest.as_mut().now_or_never().is_none());
        crowd.pop();
        assert!(greedy.as_mut().now_or_never().is_none());
        assert!(modest.as_mut().now_or_never().is_some_and(|turn| turn.is_ok()), "it came later and has none");
        drop(other);
        drop(crowd);
        assert!(greedy.as_mut().now_or_never().is_some());
    }

    #[test]
    fn a_turn_goes_past_those_who_have_given_up() {
        let turns = Turns::new(4, 1, 100);
        let held: Vec<Turn> = (0..4).filter_map(|whose| now(&turns, whose)).collect();
        let mut given_up: Vec<_> = (0..5000).map(|at| Box::pin(turns.take(10 + at % 3))).collect();
        given_up.iter_mut().for_each(|waits| assert!(waits.as_mut().now_or_never().is_none_or(|turn| turn.is_err())));
        let mut last = Box::pin(turns.take(20));
        assert!(last.as_mut().now_or_never().is_none());
        drop(given_up);
        drop(held);
        assert!(last.as_mut().now_or_never().is_some());
        drop(last);
        let state = turns.lock();
        assert!(state.free == 4 && state.waiting.is_empty() && state.order.is_empty() && state.taken.is_empty(), "{state:?}");
    }

    #[test]
    fn no_tenant_waits_in_endless_numbers() {
        let turns = Turns::new(4, 1, 3);
        let _held: Vec<Turn> = (0..4).filter_map(|whose| now(&turns, whose)).collect();
        let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(turns.take(9))).collect();
        waiting.iter_mut().for_each(|waits| assert!(waits.as_mut().now_or_never().is_none()));
        assert!(turns.take(9).now_or_never().is_some_and(|turn| turn.is_err()));
        waiting.pop();
        assert!(turns.take(9).now_or_never().is_none(), "who has given up makes room");
    }
}
