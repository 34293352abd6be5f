//! What all streams of the process hold of bodies, against one limit: nobody's bodies may take the memory of everybody's, so a tenant
//! has a quarter of it, and so have all of whom nothing is known. It counts bytes; what becomes of a body that finds no room is the
//! exchange's business.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::telemetry::Metrics;

/// One tenant's part of the whole, and that of all strangers together.
const PART: u64 = 4;

/// What a stream may hold uncounted is this part of the limit: so many streams would hold as much again. A small request then takes no
/// lock that all workers share.
const SMALL: u64 = 65_536;

/// Whose bytes they are, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Holder {
    Tenant(String),
    /// The catalog has tenants, and this is none of them, or none yet.
    #[default]
    Unknown,
    /// There are no tenants to keep apart.
    Everybody,
}

/// The account of the process.
#[derive(Debug)]
pub struct Account {
    most: u64,
    metrics: Arc<Metrics>,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    total: u64,
    /// Those who hold something.
    parts: HashMap<Holder, u64>,
}

/// What one stream holds, until it is dropped.
#[derive(Debug)]
pub struct Holding {
    account: Arc<Account>,
    own: Mutex<Own>,
}

#[derive(Debug, Default)]
struct Own {
    holder: Holder,
    /// Bytes of a message that is not whole yet.
    arriving: u64,
    /// What is kept of whole ones.
    kept: u64,
    /// How much of a message may arrive though there is no room.
    patience: u64,
}

impl Account {
    /// `most` is for everybody together, in bytes.
    #[must_use]
    pub fn new(most: u64, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self { most, metrics, held: Mutex::default() })
    }

    /// A stream that holds nothing yet.
    #[must_use]
    pub fn open(self: &Arc<Self>) -> Arc<Holding> {
        Arc::new(Holding { account: Arc::clone(self), own: Mutex::default() })
    }

    /// Sets what the holder's stream has from `before` to `after`; false if that finds no room, where it is set only if it `must` be.
    fn change(&self, holder: &Holder, before: u64, after: u64, must: bool) -> bool {
        if before == after {
            return true;
        }
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let part = held.parts.get(holder).copied().unwrap_or_default();
        let (total, part) = (held.total - before + after, part - before + after);
        let most_of_part = if *holder == Holder::Everybody { self.most } else { self.most / PART };
        let fits = after < before || (total <= self.most && part <= most_of_part);
        if fits || must {
            held.total = total;
            match part {
                0 => drop(held.parts.remove(holder)),
                _ => match held.parts.get_mut(holder) {
                    Some(known) => *known = part,
                    None => drop(held.parts.insert(holder.clone(), part)),
                },
            }
            self.metrics.held_body_bytes(total);
        }
        fits
    }
}

impl Holding {
    /// Bytes of a message have come. False: there is no room for them, and they are not counted.
    pub fn arrive(&self, bytes: u64) -> bool {
        let mut own = self.own();
        let (before, after) = (own.arriving + own.kept, own.arriving + own.kept + bytes);
        let must = own.arriving + bytes <= own.patience;
        let fits = self.account.change(&own.holder, self.counted(before), self.counted(after), must) || must;
        own.arriving += if fits { bytes } else { 0 };
        fits
    }

    /// No message is under way, and this is what is kept of those before. False: there is no room for more than before.
    pub fn keep(&self, bytes: u64) -> bool {
        let mut own = self.own();
        let before = self.counted(own.arriving + own.kept);
        let fits = self.account.change(&own.holder, before, self.counted(bytes), true);
        (own.arriving, own.kept) = (0, bytes);
        fits
    }

    /// How much of the next message may arrive though there is no room.
    pub fn be_patient(&self, bytes: u64) {
        self.own().patience = bytes;
    }

    /// It is known whose bytes they are.
    pub fn belongs_to(&self, holder: Holder) {
        let mut own = self.own();
        if own.holder != holder {
            let held = self.counted(own.arriving + own.kept);
            self.account.change(&own.holder, held, 0, true);
            self.account.change(&holder, 0, held, true);
            own.holder = holder;
        }
    }

    /// True while nothing is known of whose bytes they are.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.own().holder == Holder::Unknown
    }

    /// What the account has to know of what a stream holds.
    fn counted(&self, held: u64) -> u64 {
        held.saturating_sub(self.account.most / SMALL)
    }

    fn own(&self) -> std::sync::MutexGuard<'_, Own> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.keep(0);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn account(most: u64) -> Arc<Account> {
        Account::new(most, Arc::new(Metrics::new()))
    }

    fn total(account: &Account) -> (u64, usize) {
        let held = account.held.lock().unwrap();
        assert_eq!(held.total, held.parts.values().sum::<u64>());
        (held.total, held.parts.len())
    }

    fn stream(account: &Arc<Account>, holder: Holder) -> Arc<Holding> {
        let holding = account.open();
        holding.belongs_to(holder);
        holding
    }

    #[test]
    fn a_tenant_has_a_quarter_and_so_have_all_strangers_together() {
        let account = account(400);
        let tenant = |name: &str| Holder::Tenant(name.to_owned());
        let (a, b, other) = (stream(&account, tenant("t")), stream(&account, tenant("t")), stream(&account, tenant("u")));
        assert!(a.arrive(60) && b.arrive(40) && !a.arrive(1), "one tenant's streams share a quarter");
        assert!(other.arrive(100) && !other.arrive(1));
        let (first, second) = (account.open(), account.open());
        assert!(first.arrive(99) && !second.arrive(2) && second.arrive(1));
        let everybody = stream(&account, Holder::Everybody);
        assert!(!everybody.arrive(101) && everybody.arrive(100), "the whole is the limit of all together");
        drop((a, b, other, first, second));
        assert!(everybody.arrive(300) && !everybody.arrive(1));
        drop(everybody);
        assert_eq!(total(&account), (0, 0));
    }

    #[test]
    fn what_has_to_be_kept_is_counted_though_there_is_no_room() {
        let account = account(400);
        let stream = account.open();
        assert!(!stream.keep(500));
        assert_eq!(total(&account), (500, 1));
        assert!(stream.keep(450), "it has become less");
        stream.be_patient(10);
        assert!(stream.arrive(10) && !stream.arrive(1));
        assert_eq!(total(&account), (460, 1));
        stream.belongs_to(Holder::Everybody);
        assert_eq!(total(&account), (460, 1));
        assert!(stream.keep(0));
        assert_eq!(total(&account), (0, 0));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn nothing_stays_when_all_streams_are_gone(
            steps in proptest::collection::vec((0..4_usize, 0..4_usize, 0..300_u64), 0..60),
        ) {
            let account = account(1_000);
            let streams: Vec<_> = (0..4).map(|_| account.open()).collect();
            for (stream, what, bytes) in steps {
                match what {
                    0 => drop(streams[stream].arrive(bytes)),
                    1 => drop(streams[stream].keep(bytes)),
                    2 => streams[stream].be_patient(bytes),
                    _ => streams[stream].belongs_to(Holder::Tenant((bytes % 3).to_string())),
                }
                total(&account);
            }
            drop(streams);
            prop_assert_eq!(total(&account), (0, 0));
        }
    }
}
