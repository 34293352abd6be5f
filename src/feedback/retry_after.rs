//! `retry-after` as RFC 9110 has it, digits that count seconds or a date in one of HTTP's three forms, and as providers write it: with a
//! fraction. Anything else is no word at all, and so are seconds that no clock can hold; how long is too long is decided by whoever
//! cools.

use std::time::{Duration, UNIX_EPOCH};

use crate::health::Moment;

/// How long to stay away; a date that is over says "not at all".
pub(super) fn parse(text: &str, now: Moment) -> Option<Duration> {
    let text = text.trim_matches([' ', '\t']);
    if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        // RFC 9110 knows no fractions, but providers write them and their own clients read them.
        return Duration::try_from_secs_f64(text.parse().ok()?).ok();
    }
    let until = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(until.saturating_sub(Duration::from_millis(now.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_dates_are_read_and_nothing_else() {
        let now = Moment(784_111_777_000);
        for (text, expected) in [
            ("7", Some(7_000)),
            (" 0 ", Some(0)),
            ("0007", Some(7_000)),
            ("86400", Some(86_400_000)),
            ("1.5", Some(1_500)),
            ("0.25", Some(250)),
            ("18446744073709551616", None),
            ("1.2.3", None),
            (".", None),
            ("1.5e3", None),
            ("Sun, 06 Nov 1994 08:49:47 GMT", Some(10_000)),
            ("Sun, 06 Nov 1994 08:49:00 GMT", Some(0)),
            ("Thu, 29 Feb 1996 00:00:00 GMT", Some(41_440_223_000)),
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("Sunday, 06-Nov-94 08:49:47 GMT", Some(10_000)),
            ("Sun Nov  6 08:49:47 1994", Some(10_000)),
            ("-1", None),
            ("+1", None),
            ("1e9", None),
            ("0x10", None),
            ("1_000", None),
            ("7s", None),
            ("7, 8", None),
            ("٧", None),
            ("NaN", None),
            ("inf", None),
            ("soon", None),
            ("", None),
            ("Sun, 06 Nov 1994 08:49:47 CET", None),
            ("Sun, 06 Nov 1994 25:49:47 GMT", None),
            ("Sun, 06 Foo 1994 08:49:47 GMT", None),
            ("Sun, +6 Nov 1994 08:49:47 GMT", None),
            ("Mon, 31 Feb 1994 08:49:47 GMT", None),
        ] {
            assert_eq!(parse(text, now).map(|time| time.as_millis()), expected, "{text}");
        }
    }
}
