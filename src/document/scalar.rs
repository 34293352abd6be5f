//! What an unquoted scalar is: the core schema of YAML 1.2 (section 10.3.2). `yes`, `on` and `0777` are no booleans and no octals
//! here, as they were in YAML 1.1.

use super::Value;

/// The value of a plain scalar.
pub(super) fn resolve(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => number(text).unwrap_or_else(|| Value::Text(text.to_owned())),
    }
}

fn number(text: &str) -> Option<Value> {
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    match unsigned {
        ".inf" | ".Inf" | ".INF" => return Some(Value::Float(if negative { f64::NEG_INFINITY } else { f64::INFINITY })),
        ".nan" | ".NaN" | ".NAN" if unsigned.len() == text.len() => return Some(Value::Float(f64::NAN)),
        _ => {}
    }
    for (prefix, radix) in [("0o", 8), ("0x", 16)] {
        if let Some(digits) = text.strip_prefix(prefix).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_alphanumeric())) {
            return i64::from_str_radix(digits, radix).ok().map(Value::Integer);
        }
    }
    if !unsigned.is_empty() && unsigned.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().map(Value::Integer).or_else(|_| text.parse().map(Value::Float)).ok();
    }
    is_decimal(unsigned).then(|| text.parse().ok().map(Value::Float)).flatten()
}

/// `[0-9]*\.?[0-9]*([eE][-+]?[0-9]+)?` with at least one digit before the exponent.
fn is_decimal(text: &str) -> bool {
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    (digits(whole) || digits(fraction))
        && (whole.is_empty() || digits(whole))
        && (fraction.is_empty() || digits(fraction))
        && exponent.is_none_or(|exponent| digits(exponent.strip_prefix(['-', '+']).unwrap_or(exponent)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_scalars_are_typed_as_yaml_1_2_says() {
        let text = |text: &str| Value::Text(text.to_owned());
        for (written, expected) in [
            ("", Value::Null),
            ("~", Value::Null),
            ("null", Value::Null),
            ("True", Value::Bool(true)),
            ("yes", text("yes")),
            ("off", text("off")),
            ("80", Value::Integer(80)),
            ("-3", Value::Integer(-3)),
            ("+3", Value::Integer(3)),
            ("0777", Value::Integer(777)),
            ("0o17", Value::Integer(15)),
            ("0xff", Value::Integer(255)),
            ("0x", text("0x")),
            ("0x-1", text("0x-1")),
            ("1.5", Value::Float(1.5)),
            (".5", Value::Float(0.5)),
            ("5.", Value::Float(5.0)),
            ("1e3", Value::Float(1000.0)),
            ("1e", text("1e")),
            (".", text(".")),
            ("-", text("-")),
            ("+-5", text("+-5")),
            ("1.2.3", text("1.2.3")),
            ("99999999999999999999", Value::Float(1e20)),
            ("-.inf", Value::Float(f64::NEG_INFINITY)),
            ("inf", text("inf")),
            ("nan", text("nan")),
            ("4o", text("4o")),
            ("5s", text("5s")),
            ("o3-2025-04-16", text("o3-2025-04-16")),
        ] {
            assert_eq!(resolve(written), expected, "{written}");
        }
        assert!(matches!(resolve(".nan"), Value::Float(float) if float.is_nan()));
    }
}
