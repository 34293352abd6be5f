//! `path_prefix` of a cluster: with what a path begins at the gateway, and with what it begins at this provider. It compares whole
//! segments as they are written: `/v1` is no beginning of `/v10`, and nothing is decoded. Whose paths these are it does not know.

/// A rule as it is applied; neither text ends with a slash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathPrefix {
    from: Box<str>,
    to: Box<str>,
}

impl PathPrefix {
    #[must_use]
    pub fn new(from: &str, to: &str) -> Self {
        let without_end = |text: &str| Box::from(text.strip_suffix('/').unwrap_or(text));
        Self { from: without_end(from), to: without_end(to) }
    }

    /// What is wrong with the beginning of a path; `None` if it is one.
    #[must_use]
    pub fn fault(text: &str) -> Option<&'static str> {
        match text {
            _ if !text.starts_with('/') => Some("must begin with `/`"),
            _ if text.contains(['?', '#']) => Some("is the beginning of a path; a query or fragment cannot stand in it"),
            _ if text.contains("//") => Some("holds an empty segment, `//`"),
            _ if text.split('/').any(|segment| matches!(segment, "." | "..")) => {
                Some("holds a segment that leads elsewhere, `.` or `..`")
            }
            _ if !text.bytes().all(|byte| byte.is_ascii_graphic()) => Some("must be percent-encoded, as paths are sent"),
            _ => None,
        }
    }

    /// How many bytes of this path (without its query) the rule replaces; `None` if the path does not begin so.
    #[must_use]
    pub fn length_in(&self, path: &str) -> Option<usize> {
        let rest = path.strip_prefix(&*self.from)?;
        (rest.is_empty() || rest.starts_with('/')).then_some(self.from.len())
    }

    #[must_use]
    pub fn from(&self) -> &str {
        or_root(&self.from)
    }

    #[must_use]
    pub fn to(&self) -> &str {
        or_root(&self.to)
    }

    /// The new beginning with what follows it.
    #[must_use]
    pub fn before(&self, rest: &str) -> String {
        if self.to.is_empty() && rest.is_empty() { "/".to_owned() } else { format!("{}{rest}", self.to) }
    }
}

const fn or_root(text: &str) -> &str {
    if text.is_empty() { "/" } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_where_a_segment_ends() {
        for (from, to, path, expected) in [
            ("/v1", "/openai/v1", "/v1/chat/completions", Some("/openai/v1/chat/completions")),
            ("/v1/", "/openai/v1/", "/v1/chat/completions", Some("/openai/v1/chat/completions")),
            ("/v1", "/openai/v1", "/v1", Some("/openai/v1")),
            ("/v1", "/openai/v1", "/v1/", Some("/openai/v1/")),
            ("/v1", "/openai/v1", "/v10/chat", None),
            ("/v1", "/openai/v1", "/x/v1/chat", None),
            ("/v1", "/openai/v1", "/V1/chat", None),
            ("/v1", "/openai/v1", "/%761/chat", None),
            ("/v1", "/openai/v1", "", None),
            ("/v1", "/openai/v1", "*", None),
            // To the root and from it.
            ("/v1", "/", "/v1/chat", Some("/chat")),
            ("/v1", "/", "/v1", Some("/")),
            ("/", "/team", "/v1/chat", Some("/team/v1/chat")),
            ("/", "/team", "*", None),
        ] {
            let rule = PathPrefix::new(from, to);
            let written = rule.length_in(path).map(|length| rule.before(&path[length..]));
            assert_eq!(written.as_deref(), expected, "{from} → {to} on {path}");
        }
    }

    #[test]
    fn what_cannot_begin_a_path_is_told() {
        for text in ["v1", "", "/v1?x", "/v1#x", "//v1", "/v 1", "/\u{e9}", "/v1\n", "/x/../y", "/."] {
            assert!(PathPrefix::fault(text).is_some(), "{text}");
        }
        for text in ["/", "/v1", "/v1/", "/a%20b/~x:y", "/v1.1/..x"] {
            assert_eq!(PathPrefix::fault(text), None, "{text}");
        }
    }
}
