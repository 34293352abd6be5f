//! The key under which a directory knows a session: a text with `{tenant}`, `{model}` and `{session}`, filled with
//! percent-encoded parts that stay apart, so that no two sessions meet. What the parts are is decided elsewhere.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The longest part that is looked up, in bytes.
const MAX_PART: usize = 1024;
/// What stands for a request without a tenant.
const NO_TENANT: &str = "-";
/// Everything but the unreserved characters of a URL.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

const APART: &str = "write `/` or `:` between them";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Tenant,
    Model,
    Session,
}

impl Part {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Tenant => "tenant",
            Self::Model => "model",
            Self::Session => "session",
        }
    }
}

/// A key's pieces in order: a text and the part after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    pieces: Vec<(Box<str>, Part)>,
    rest: Box<str>,
}

impl Template {
    /// Takes a text that names `{session}` and no other part but `{tenant}` and `{model}`. Between two parts stands a character
    /// that no part can hold.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (mut pieces, mut rest): (Vec<(Box<str>, Part)>, _) = (Vec::new(), text);
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').ok_or("a `{` has no `}`")?;
            let part = match name {
                "tenant" => Part::Tenant,
                "model" => Part::Model,
                "session" => Part::Session,
                _ => return Err(format!("there is no part `{{{name}}}`: write {{tenant}}, {{model}} or {{session}}")),
            };
            if let Some((_, last)) = pieces.last().filter(|_| before.chars().all(can_stand_in_a_part)) {
                let (last, next) = (last.as_str(), part.as_str());
                return Err(format!("`{{{last}}}` and `{{{next}}}` run together, so that two sessions could meet: {APART}"));
            }
            pieces.push((Box::from(before), part));
            rest = after;
        }
        let template = Self { pieces, rest: Box::from(rest) };
        if template.names(Part::Session) { Ok(template) } else { Err("it does not name `{session}`".to_owned()) }
    }

    #[must_use]
    pub fn names(&self, part: Part) -> bool {
        self.pieces.iter().any(|(_, named)| *named == part)
    }

    /// The text before the first part.
    #[must_use]
    pub fn start(&self) -> &str {
        self.pieces.first().map_or(&self.rest, |(text, _)| text)
    }

    /// The key. `None`: one of its parts is missing, or cannot be looked up: it is longer than 1 KiB, or `.` or `..`, which
    /// change the meaning of a path.
    #[must_use]
    pub fn fill(&self, tenant: Option<&str>, model: Option<&str>, session: &str) -> Option<String> {
        let mut key = String::with_capacity(128);
        for (text, part) in &self.pieces {
            key.push_str(text);
            let value = match part {
                Part::Tenant => match tenant {
                    None => {
                        key.push_str(NO_TENANT);
                        continue;
                    }
                    // A tenant of that name must not meet the requests that have none.
                    Some(NO_TENANT) => {
                        key.push_str("%2D");
                        continue;
                    }
                    Some(tenant) => tenant,
                },
                Part::Model => model?,
                Part::Session => session,
            };
            if value.is_empty() || value.len() > MAX_PART || value == "." || value == ".." {
                return None;
            }
            key.extend(utf8_percent_encode(value, RESERVED));
        }
        key.push_str(&self.rest);
        Some(key)
    }
}

/// Letters of other alphabets too: a URL has them percent-encoded, as parts are.
fn can_stand_in_a_part(character: char) -> bool {
    character.is_alphanumeric() || "-._~%".contains(character)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn parts_are_percent_encoded_and_never_meet() {
        let template = Template::parse("http://d/s/{tenant}/{model}/{session}?x").unwrap();
        let fill = |tenant, model, session| template.fill(tenant, Some(model), session);
        assert_eq!(fill(Some("a b"), "m/1", "ä:%").as_deref(), Some("http://d/s/a%20b/m%2F1/%C3%A4%3A%25?x"));
        assert_eq!(fill(None, "m", "s").as_deref(), Some("http://d/s/-/m/s?x"));
        assert_ne!(fill(None, "m", "s"), fill(Some("-"), "m", "s"));
        assert_ne!(fill(Some("a"), "b/c", "d"), fill(Some("a/b"), "c", "d"));
        assert_eq!(template.fill(Some("a"), None, "s"), None, "the catalog has no name for the model");
    }

    #[test]
    fn parts_that_would_change_a_path_are_not_looked_up() {
        let template = Template::parse("{tenant}/{session}").unwrap();
        for session in ["", ".", "..", &"x".repeat(1025)] {
            assert_eq!(template.fill(None, None, session), None, "{session:.10}");
        }
        assert_eq!(template.fill(Some(".."), None, "s"), None);
        assert!(template.fill(None, None, &"x".repeat(1024)).is_some());
        assert!(template.fill(None, None, "...").is_some());
    }

    #[test]
    fn a_template_names_the_session_and_only_known_parts() {
        for (text, fault) in [("x", "{session}"), ("{tenant}", "{session}"), ("{session", "`}`"), ("{session}/{user}", "{user}")]
        {
            assert!(Template::parse(text).unwrap_err().contains(fault), "{text}");
        }
    }

    #[test]
    fn parts_that_run_together_are_refused() {
        for between in ["", "-", "_", ".", "~", "%", "%2F", "x", "7", "-x7-", "ä"] {
            let fault = Template::parse(&format!("k:{{tenant}}{between}{{session}}")).unwrap_err();
            assert!(fault.contains("`{tenant}` and `{session}`") && fault.contains("`/` or `:`"), "{between}: {fault}");
        }
        assert!(Template::parse("{session}/{model}-{tenant}").unwrap_err().contains("`{model}` and `{tenant}`"));
        for between in ["/", ":", "|", "&m=", "-/-", "/s/", " "] {
            let template = Template::parse(&format!("k-{{tenant}}{between}{{session}}-v1")).unwrap();
            let (left, right) = (format!("a{between}b"), format!("b{between}x"));
            let sessions = [("a", "b-x"), ("a-b", "x"), ("a", right.as_str()), (left.as_str(), "x")];
            let keys: BTreeSet<_> = sessions.iter().map(|(tenant, session)| template.fill(Some(tenant), None, session)).collect();
            assert_eq!(keys.len(), sessions.len(), "{keys:?}");
        }
    }
}
