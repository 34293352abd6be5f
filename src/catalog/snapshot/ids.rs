//! Positions in a snapshot's tables, and sets of tags as bits. They are numbers and nothing else: what stands at a position, and
//! whether anything does, is the snapshot's to know.

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);

        impl $name {
            #[must_use]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

ids! {
    /// Index into [`Snapshot::clusters`](super::Snapshot::clusters).
    ClusterId
    /// Index into [`Snapshot::groups`](super::Snapshot::groups).
    GroupId
    /// Index into [`Snapshot::models`](super::Snapshot::models).
    ModelId
    /// Index into [`Snapshot::tenants`](super::Snapshot::tenants).
    TenantId
    /// Index into [`Snapshot::providers`](super::Snapshot::providers).
    ProviderId
    /// Index into [`Snapshot::tags`](super::Snapshot::tags).
    TagId
}

/// A set of tags as bits, by [`TagId`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TagSet(Vec<u64>);

impl TagSet {
    pub fn insert(&mut self, tag: TagId) {
        let word = tag.index() / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (tag.index() % 64);
    }

    #[must_use]
    pub fn contains(&self, tag: TagId) -> bool {
        self.0.get(tag.index() / 64).is_some_and(|word| word & (1 << (tag.index() % 64)) != 0)
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// The tags of `self` that `other` lacks: the first one, if any.
    #[must_use]
    pub fn first_missing_in(&self, other: &Self) -> Option<TagId> {
        self.first(|index, word| word & !other.0.get(index).copied().unwrap_or(0))
    }

    /// A tag that both sets hold, if any.
    #[must_use]
    pub fn first_shared_with(&self, other: &Self) -> Option<TagId> {
        self.first(|index, word| word & other.0.get(index).copied().unwrap_or(0))
    }

    fn first(&self, keep: impl Fn(usize, u64) -> u64) -> Option<TagId> {
        self.0.iter().enumerate().find_map(|(index, word)| match keep(index, *word) {
            0 => None,
            bits => u32::try_from(index * 64).ok().map(|base| TagId(base + bits.trailing_zeros())),
        })
    }

    pub fn iter(&self) -> impl Iterator<Item = TagId> + '_ {
        (0..self.0.len() * 64).filter_map(|index| u32::try_from(index).ok()).map(TagId).filter(|tag| self.contains(*tag))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(tags: &[u32]) -> TagSet {
        let mut set = TagSet::default();
        tags.iter().for_each(|tag| set.insert(TagId(*tag)));
        set
    }

    #[test]
    fn tag_sets_say_which_tag_is_missing_or_shared() {
        assert_eq!(set(&[1, 70]).first_missing_in(&set(&[1])), Some(TagId(70)));
        assert_eq!(set(&[1]).first_missing_in(&set(&[1, 70])), None);
        assert_eq!(set(&[3, 130]).first_shared_with(&set(&[130])), Some(TagId(130)));
        assert_eq!(set(&[3]).first_shared_with(&set(&[])), None);
        assert_eq!(set(&[130, 3]).iter().collect::<Vec<_>>(), [TagId(3), TagId(130)]);
        assert!(TagSet::default().is_empty());
    }
}
