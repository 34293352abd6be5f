//! `retry-after` as providers write it: seconds, or a date of HTTP. Anything else is no word at all.

use std::time::Duration;

use crate::health::Moment;

/// How long to stay away; a date that is over says "not at all".
pub(super) fn parse(text: &str, now: Moment) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        // Some providers write fractions. What no duration holds is no word.
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let until = http_date(text)?.saturating_mul(1000);
    Some(Duration::from_millis(until.saturating_sub(now.0)))
}

/// Seconds since 1970 of `Sun, 06 Nov 1994 08:49:37 GMT`.
fn http_date(text: &str) -> Option<u64> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (_, date) = text.split_once(", ")?;
    let parts: Vec<&str> = date.split(' ').collect();
    let [day, month, year, time, "GMT"] = parts.as_slice() else { return None };
    let month = MONTHS.iter().position(|name| name == month)? as u64 + 1;
    let (day, year): (u64, u64) = (day.parse().ok()?, year.parse().ok()?);
    let clock: Vec<u64> = time.split(':').map(str::parse).collect::<Result<_, _>>().ok()?;
    let [hours, minutes, seconds] = clock.as_slice() else { return None };
    if !(1..=31).contains(&day) || !(1970..=9999).contains(&year) || *hours > 23 || *minutes > 59 || *seconds > 60 {
        return None;
    }
    Some(days(year, month, day) * 86_400 + hours * 3600 + minutes * 60 + seconds)
}

/// Days since 1970-01-01, counted in years that start in March, so that a leap day is the last of its year.
const fn days(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let shifted = (month + 9) % 12;
    let day_of_year = (153 * shifted + 2) / 5 + day - 1;
    year * 365 + year / 4 - year / 100 + year / 400 + day_of_year - 719_468
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
            ("1.5", Some(1_500)),
            ("Sun, 06 Nov 1994 08:49:47 GMT", Some(10_000)),
            ("Sun, 06 Nov 1994 08:49:00 GMT", Some(0)),
            ("Thu, 29 Feb 1996 00:00:00 GMT", Some(41_440_223_000)),
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("-1", None),
            ("NaN", None),
            ("inf", None),
            ("soon", None),
            ("", None),
            ("Sun, 06 Nov 1994 08:49:47 CET", None),
            ("Sun, 06 Nov 1994 25:49:47 GMT", None),
            ("Sun, 06 Foo 1994 08:49:47 GMT", None),
        ] {
            assert_eq!(parse(text, now).map(|time| time.as_millis()), expected, "{text}");
        }
    }
}
