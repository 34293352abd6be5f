//! Which cluster served each attempt of a request, as Envoy's own access logs tell it: one line per attempt from the router's
//! `upstream_log`, then one line for the request. Envoy writes both to one file in this order, so a request whose last line is
//! there has all its lines there.

use std::fmt;

use serde_json::Value;

/// The header by which a request is found again in logs and at providers.
pub const ID_HEADER: &str = "x-request-id";

/// What one attempt came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    pub cluster: String,
    /// 0: the provider did not answer.
    pub code: u16,
    /// Envoy's response flags, `-` for none: `UF` is a connection that failed.
    pub flags: String,
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            0 => write!(f, "{}({})", self.cluster, self.flags),
            code => write!(f, "{}({code})", self.cluster),
        }
    }
}

/// A request from Envoy's view.
#[derive(Debug, Clone)]
pub struct Trail {
    /// The value of [`ID_HEADER`].
    pub id: String,
    pub attempts: Vec<Attempt>,
    /// The last cluster chosen, even if it had no host to try (fact 35), and what the client was told.
    pub last: Attempt,
    /// Dynamic metadata of the decision's namespace, `Null` if there is none.
    pub decision: Value,
}

impl fmt::Display for Trail {
    /// `a(429) b(200)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, attempt) in self.attempts.iter().enumerate() {
            let gap = if index == 0 { "" } else { " " };
            write!(f, "{gap}{attempt}")?;
        }
        Ok(())
    }
}

/// The trail of the request with this id; `None` while its last line is not written.
#[must_use]
pub fn find(log: &str, id: &str) -> Option<Trail> {
    let mut attempts = Vec::new();
    for line in log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        if line.get("id").and_then(Value::as_str) != Some(id) {
            continue;
        }
        let attempt = attempt_of(&line);
        match line.get("kind").and_then(Value::as_str) {
            Some("attempt") => attempts.push(attempt),
            _ => {
                let decision = line.get("decision").cloned().unwrap_or(Value::Null);
                return Some(Trail { id: id.to_owned(), attempts, last: attempt, decision });
            }
        }
    }
    None
}

fn attempt_of(line: &Value) -> Attempt {
    let text = |name: &str| line.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let code = line.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok()).unwrap_or_default();
    Attempt { cluster: text("cluster"), code, flags: text("flags") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = r#"{"attempt":"1","cluster":"a","code":429,"flags":"-","id":"7","kind":"attempt"}
{"attempt":"1","cluster":"c","code":200,"flags":"-","id":"8","kind":"attempt"}
{"attempt":"2","cluster":"b","code":0,"flags":"UF","id":"7","kind":"attempt"}
{"cluster":"b","code":503,"decision":{"reason":"model_chain"},"flags":"UF","id":"7","kind":"request"}
"#;

    #[test]
    fn the_attempts_of_one_request_are_told_in_order() {
        let trail = find(LOG, "7").unwrap();
        assert_eq!(trail.to_string(), "a(429) b(UF)");
        assert_eq!(trail.last.to_string(), "b(503)");
        assert_eq!(trail.decision["reason"], "model_chain");
    }

    #[test]
    fn a_request_without_its_last_line_has_no_trail_yet() {
        assert!(find(LOG, "8").is_none());
    }
}
