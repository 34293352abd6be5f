//! Names as types: what a tenant, a model, a cluster or a priority group is called, so that one is never taken for another.
//! A name is checked once, when it is made. This module knows no catalog: whether a name stands for anything is not its business.

use std::borrow::Borrow;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

/// The longest name a catalog may use, in bytes: names become metric labels, header values and metadata.
pub const MAX_NAME: usize = 256;

/// Why a text cannot be a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadName {
    Empty,
    TooLong,
    /// Control characters would break log lines, header values and metric labels.
    ControlCharacter,
}

impl fmt::Display for BadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a name must not be empty"),
            Self::TooLong => write!(f, "a name must not be longer than {MAX_NAME} bytes"),
            Self::ControlCharacter => f.write_str("a name must not contain control characters"),
        }
    }
}

fn check(text: &str) -> Result<(), BadName> {
    if text.is_empty() {
        Err(BadName::Empty)
    } else if text.len() > MAX_NAME {
        Err(BadName::TooLong)
    } else if text.chars().any(char::is_control) {
        Err(BadName::ControlCharacter)
    } else {
        Ok(())
    }
}

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes 1 to [`MAX_NAME`] bytes without control characters.
            ///
            /// # Errors
            /// Says what is wrong with the text.
            pub fn parse(text: &str) -> Result<Self, BadName> {
                check(text).map(|()| Self(Arc::from(text)))
            }

            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    )*};
}

names! {
    /// An Envoy cluster.
    ClusterName
    /// An Envoy priority group.
    GroupName
    /// A model as the catalog calls it.
    ModelName
    /// A company or team that runs models behind clusters (`openai`, `vllm`).
    ProviderName
    /// Who sends the request.
    TenantName
    /// A set of rules that tenants share.
    TierName
}

/// A cluster's share of its group: 1 to 4,294,967,295. A weight of 0 is how a catalog leaves a cluster out; it is never sent,
/// since Envoy would drop the whole position (fact 13).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(NonZeroU32);

impl Weight {
    #[must_use]
    pub fn new(value: u32) -> Option<Self> {
        NonZeroU32::new(value).map(Self)
    }

    #[must_use]
    pub fn get(self) -> u32 {
        self.0.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_to_256_bytes_of_printable_text() {
        assert_eq!(ModelName::parse(""), Err(BadName::Empty));
        assert_eq!(ModelName::parse("a\nb"), Err(BadName::ControlCharacter));
        assert_eq!(ModelName::parse(&"x".repeat(257)), Err(BadName::TooLong));
        assert_eq!(
            ModelName::parse("meta-llama/Llama:free").map(|name| name.to_string()),
            Ok("meta-llama/Llama:free".to_owned())
        );
        assert!(ModelName::parse(&"x".repeat(256)).is_ok());
    }

    #[test]
    fn a_weight_is_never_zero() {
        assert_eq!(Weight::new(0), None);
        assert_eq!(Weight::new(u32::MAX).map(Weight::get), Some(u32::MAX));
    }
}
