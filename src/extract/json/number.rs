//! JSON's numbers, one character at a time: what may follow what. It keeps no value, since no field is a number.

use super::block::digits_length;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Digits {
    Minus,
    Zero,
    Whole,
    Point,
    Fraction,
    Exponent,
    ExponentSign,
    Power,
}

impl Digits {
    pub(super) const fn may_end(self) -> bool {
        matches!(self, Self::Zero | Self::Whole | Self::Fraction | Self::Power)
    }

    pub(super) const fn next(self, byte: u8) -> Option<Self> {
        Some(match (self, byte) {
            (Self::Minus, b'0') => Self::Zero,
            (Self::Minus, b'1'..=b'9') | (Self::Whole, b'0'..=b'9') => Self::Whole,
            (Self::Zero | Self::Whole, b'.') => Self::Point,
            (Self::Zero | Self::Whole | Self::Fraction, b'e' | b'E') => Self::Exponent,
            (Self::Point | Self::Fraction, b'0'..=b'9') => Self::Fraction,
            (Self::Exponent, b'+' | b'-') => Self::ExponentSign,
            (Self::Exponent | Self::ExponentSign | Self::Power, b'0'..=b'9') => Self::Power,
            _ => return None,
        })
    }
}

/// The length of the number that starts here, if it is whole and something follows; `None` leaves it to [`Digits`].
#[inline]
pub(super) fn length(bytes: &[u8]) -> Option<usize> {
    let mut at = usize::from(bytes.first() == Some(&b'-'));
    at = match bytes.get(at)? {
        b'0' => at + 1,
        b'1'..=b'9' => after_digits(bytes, at)?,
        _ => return None,
    };
    if bytes.get(at)? == &b'.' {
        at = after_digits(bytes, at + 1)?;
    }
    if matches!(bytes.get(at)?, b'e' | b'E') {
        let sign = usize::from(matches!(bytes.get(at + 1)?, b'+' | b'-'));
        at = after_digits(bytes, at + 1 + sign)?;
    }
    bytes.get(at).map(|_| at)
}

/// Where one or more digits end.
#[inline]
fn after_digits(bytes: &[u8], from: usize) -> Option<usize> {
    let count = digits_length(bytes.get(from..)?);
    (count > 0).then_some(from + count)
}
