//! Durations and sizes as settings write them: a whole number and a unit. There is no bare number, so that nobody has to know
//! whether seconds or milliseconds are meant.

use std::time::Duration;

/// `150ms`, `5s`, `5m`, `2h`; `0s` is allowed.
///
/// # Errors
/// Says how it is written.
pub fn parse_duration(text: &str) -> Result<Duration, &'static str> {
    const HOW: &str = "a duration is a whole number with a unit: 150ms, 5s, 5m or 2h";
    let (number, unit) = split(text).ok_or(HOW)?;
    let milliseconds = match unit {
        "ms" => Some(number),
        "s" => number.checked_mul(1_000),
        "m" => number.checked_mul(60_000),
        "h" => number.checked_mul(3_600_000),
        _ => return Err(HOW),
    };
    // A year: longer is a slip, and clocks must be able to add it.
    milliseconds.filter(|ms| *ms <= 31_536_000_000).map(Duration::from_millis).ok_or("a duration may be a year at most")
}

/// `512B`, `64KiB`, `32MiB`, `1GiB`, in bytes.
///
/// # Errors
/// Says how it is written.
pub fn parse_size(text: &str) -> Result<u64, &'static str> {
    const HOW: &str = "a size is a whole number with a unit: 512B, 64KiB, 32MiB or 1GiB";
    let (number, unit) = split(text).ok_or(HOW)?;
    let shift = match unit {
        "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => return Err(HOW),
    };
    number.checked_mul(1 << shift).filter(|bytes| *bytes <= 1 << 40).ok_or("a size may be 1024GiB at most")
}

fn split(text: &str) -> Option<(u64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    Some((text[..digits].parse().ok()?, &text[digits..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_need_a_unit() {
        for (text, expected) in
            [("150ms", Some(150)), ("5s", Some(5_000)), ("5m", Some(300_000)), ("0s", Some(0)), ("2h", Some(7_200_000))]
        {
            assert_eq!(parse_duration(text).ok(), expected.map(Duration::from_millis), "{text}");
        }
        for text in ["5", "s", "", "-5s", "1.5s", "5 s", "5d", "99999999999999999999s", "18446744073709551615h", "9000h"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        for (text, expected) in [("512B", 512), ("64KiB", 65_536), ("32MiB", 33_554_432), ("1GiB", 1 << 30)] {
            assert_eq!(parse_size(text), Ok(expected), "{text}");
        }
        for text in ["64", "64KB", "64kib", "MiB", "18446744073709551615GiB"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
