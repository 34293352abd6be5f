//! What replicas tell each other, as the fields of an entry in Redis, in words that a person reads with `XRANGE`. Reading one takes
//! nothing for granted: anybody may have written it.

use std::time::Duration;

use crate::health::{Cause, Change, Cooldown, MAX_BY_HAND, Moment, What};

/// Longer names are none of a catalog's.
const MAX_NAME: usize = 256;
/// How long it is worth telling that somebody has cleared a cluster: as long as anything that it ends could last. Told too late it costs
/// a cluster one attempt; not told, it would leave others with what a person has ended.
const CLEARED_FOR: Duration = MAX_BY_HAND;

/// Something that all replicas should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    Cools(Change),
    /// A person brought the cluster back.
    Cleared {
        cluster: Box<str>,
        at: Moment,
    },
}

impl Entry {
    #[must_use]
    pub fn cluster(&self) -> &str {
        match self {
            Self::Cools(change) => &change.cluster,
            Self::Cleared { cluster, .. } => cluster,
        }
    }

    /// `None`: it is of the whole cluster.
    #[must_use]
    pub fn model(&self) -> Option<&str> {
        match self {
            Self::Cools(change) => change.model.as_deref(),
            Self::Cleared { .. } => None,
        }
    }

    /// True if it comes too late to be told.
    #[must_use]
    pub fn is_over(&self, now: Moment) -> bool {
        match self {
            Self::Cools(change) => !change.cooldown.is_cooling(now),
            Self::Cleared { at, .. } => now > at.after(CLEARED_FOR),
        }
    }

    #[must_use]
    pub fn to_fields(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Cools(Change { cluster, model, cooldown, .. }) => {
                vec![
                    ("cools", cluster.to_string()),
                    // Empty: the whole cluster.
                    ("model", model.as_deref().unwrap_or_default().to_owned()),
                    ("cause", cooldown.cause.as_str().to_owned()),
                    ("since_ms", cooldown.since.0.to_string()),
                    ("until_ms", cooldown.until.0.to_string()),
                    ("length_ms", cooldown.length().as_millis().to_string()),
                ]
            }
            Self::Cleared { cluster, at } => vec![("cleared", cluster.to_string()), ("at_ms", at.0.to_string())],
        }
    }

    /// Takes the names and values of an entry in turn; `None` if they say nothing that is understood. Fields of a newer release
    /// are passed over.
    #[must_use]
    pub fn parse(fields: &[Vec<u8>]) -> Option<Self> {
        let text = |name: &str| {
            let (_, value) =
                fields.as_chunks().0.iter().map(|[key, value]| (key, value)).find(|(key, _)| *key == name.as_bytes())?;
            std::str::from_utf8(value).ok().filter(|text| text.len() <= MAX_NAME)
        };
        let number = |name: &str| text(name)?.parse::<u64>().ok();
        if let Some(cluster) = text("cleared") {
            return Some(Self::Cleared { cluster: Box::from(cluster), at: Moment(number("at_ms")?) });
        }
        let cause = text("cause")?;
        let cause = Cause::ALL.into_iter().find(|known| known.as_str() == cause)?;
        let (since, until) = (Moment(number("since_ms")?), Moment(number("until_ms")?));
        let cooldown = Cooldown::told(cause, since, until, Duration::from_millis(number("length_ms")?));
        // A model that cannot be read must not become the whole cluster.
        let model = Some(text("model")?).filter(|model| !model.is_empty()).map(Box::from);
        Some(Self::Cools(Change { cluster: Box::from(text("cools")?), model, cooldown, what: What::Begins }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(entry: &Entry) -> Vec<Vec<u8>> {
        entry.to_fields().into_iter().flat_map(|(name, value)| [name.as_bytes().to_vec(), value.into_bytes()]).collect()
    }

    fn cools(model: Option<&str>) -> Entry {
        let cooldown = Cooldown::told(Cause::RateLimited, Moment(1), Moment(60_001), Duration::from_secs(50));
        Entry::Cools(Change { cluster: "c".into(), model: model.map(Box::from), cooldown, what: What::Begins })
    }

    #[test]
    fn what_is_written_is_read_again() {
        for entry in [cools(None), cools(Some("m/é:0")), Entry::Cleared { cluster: "c".into(), at: Moment(7) }] {
            let mut fields = written(&entry);
            assert_eq!(Entry::parse(&fields), Some(entry.clone()));
            fields.extend([b"a newer field".to_vec(), b"\xff".to_vec()]);
            assert_eq!(Entry::parse(&fields), Some(entry));
        }
    }

    #[test]
    fn garbage_says_nothing() {
        let whole = written(&cools(Some("m")));
        for at in 0..whole.len() {
            for garbage in [&b"\xff\xfe"[..], b"-1", b"99999999999999999999999", &[b'x'; 1000]] {
                let mut fields = whole.clone();
                fields[at] = garbage.to_vec();
                // Any text may be a name.
                let is_name = matches!(at, 1 | 3) && std::str::from_utf8(garbage).is_ok_and(|text| text.len() <= MAX_NAME);
                assert_eq!(Entry::parse(&fields).is_some(), is_name, "{at} {garbage:?}");
            }
            assert_eq!(Entry::parse(&whole[..at]), None, "cut at {at}");
        }
        assert_eq!(Entry::parse(&[]), None);
    }

    #[test]
    fn what_is_over_is_not_worth_telling() {
        assert!(!cools(None).is_over(Moment(60_000)) && cools(None).is_over(Moment(60_001)));
        let cleared = Entry::Cleared { cluster: "c".into(), at: Moment(0) };
        let last = Moment::default().after(MAX_BY_HAND);
        assert!(!cleared.is_over(last) && cleared.is_over(Moment(last.0 + 1)));
    }
}
