//! Where a field of a request may stand: the configured sources as data. Checking whether a source may be trusted is the
//! settings' work; finding the value is that of the modules beside this one.

use std::sync::Arc;

use super::path::Template;

/// One place to look. Of a list, the first with a value wins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// What the API of the path says (design section 6). Models only.
    Dialect,
    /// Lower case.
    Header(String),
    Cookie(String),
    Query(String),
    Path(Template),
    /// A JSON pointer into the body.
    Body(Pointer),
    /// A part of a multipart body that has no filename.
    Multipart(String),
    Form(String),
    /// An Envoy attribute (`request.host`), when Envoy's `request_attributes` sends it.
    Attribute(String),
    /// Dynamic metadata, untyped or typed, when Envoy forwards the namespace.
    Metadata {
        namespace: String,
        path: Vec<String>,
    },
    /// A key in a header, known to the catalog by its SHA-256. Tenants only. `scheme` (`Bearer`) is taken off first, whatever its
    /// case; empty: the whole value is the key.
    ApiKey {
        header: String,
        scheme: String,
    },
    /// Always this.
    Value(String),
}

impl Source {
    /// True if a client can write it: a tenant read from here counts only with `trusted: true` (rule 8).
    #[must_use]
    pub const fn is_client_written(&self) -> bool {
        matches!(
            self,
            Self::Dialect
                | Self::Header(_)
                | Self::Cookie(_)
                | Self::Query(_)
                | Self::Path(_)
                | Self::Body(_)
                | Self::Multipart(_)
                | Self::Form(_)
        )
    }

    /// True for what Envoy's own AI filter says of a request (fact 30): the model as it is in the path or the body.
    #[must_use]
    pub fn is_envoys_reading(&self) -> bool {
        matches!(self, Self::Metadata { namespace, path } if namespace == "envoy.ai.request_info" && path == &["model"])
    }

    /// True if a model that is read from here can be renamed here.
    #[must_use]
    pub fn can_be_renamed(&self) -> bool {
        match self {
            Self::Dialect
            | Self::Header(_)
            | Self::Query(_)
            | Self::Path(_)
            | Self::Body(_)
            | Self::Multipart(_)
            | Self::Form(_) => true,
            Self::Metadata { .. } => self.is_envoys_reading(),
            Self::Cookie(_) | Self::Attribute(_) | Self::ApiKey { .. } | Self::Value(_) => false,
        }
    }

    /// The source in the words of the settings, for `explain`.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Dialect => "dialect auto".to_owned(),
            Self::Header(name) => format!("header {name}"),
            Self::Cookie(name) => format!("cookie {name}"),
            Self::Query(name) => format!("query {name}"),
            Self::Path(template) => format!("path {}", template.as_str()),
            Self::Body(pointer) => format!("body {}", pointer.as_str()),
            Self::Multipart(name) => format!("multipart {name}"),
            Self::Form(name) => format!("form {name}"),
            Self::Attribute(name) => format!("attribute {name}"),
            Self::Metadata { namespace, path } => format!("metadata {namespace}:{}", path.join(".")),
            Self::ApiKey { header, .. } => format!("api key in {header}"),
            Self::Value(value) => format!("value {value}"),
        }
    }
}

/// A JSON pointer (RFC 6901) of at least one segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pointer {
    text: Arc<str>,
    segments: Arc<[String]>,
}

impl Pointer {
    /// Takes `/a/b`, with `~1` for `/` and `~0` for `~`. A segment of digits is an object key or an array index.
    ///
    /// # Errors
    /// Says what is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let Some(rest) = text.strip_prefix('/') else { return Err("a JSON pointer starts with `/`, as in /session") };
        if text.replace("~0", "").replace("~1", "").contains('~') {
            return Err("in a JSON pointer `~` is written `~0` and `/` inside a key is written `~1`");
        }
        let segments: Arc<[String]> = rest.split('/').map(|segment| segment.replace("~1", "/").replace("~0", "~")).collect();
        if segments.len() > 16 {
            return Err("a JSON pointer may have 16 segments at most");
        }
        Ok(Self { text: Arc::from(text), segments })
    }

    /// The pointer to a key of the outermost object.
    #[must_use]
    pub fn to_key(key: &str) -> Self {
        let escaped = key.replace('~', "~0").replace('/', "~1");
        Self { text: Arc::from(format!("/{escaped}")), segments: Arc::from([key.to_owned()]) }
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    #[must_use]
    pub fn segments(&self) -> &Arc<[String]> {
        &self.segments
    }
}

/// The configured sources of every field, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub model: Vec<Source>,
    pub tenant: Vec<Source>,
    pub session: Vec<Source>,
    pub on_duplicate_key: OnDuplicateKey,
}

/// What a key that we read means when it stands twice in one body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDuplicateKey {
    Reject,
    /// The last one counts, as most JSON parsers have it.
    Last,
}

impl Default for Plan {
    fn default() -> Self {
        let session = Pointer::to_key("session");
        Self {
            model: vec![Source::Dialect],
            tenant: Vec::new(),
            session: vec![Source::Header("x-session-id".to_owned()), Source::Body(session)],
            on_duplicate_key: OnDuplicateKey::Reject,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_unescapes_its_segments() {
        let pointer = Pointer::parse("/a~1b/~0c/0").unwrap();
        assert_eq!(**pointer.segments(), ["a/b", "~c", "0"]);
        assert_eq!(Pointer::to_key("a/~b"), Pointer::parse("/a~1~0b").unwrap());
        assert!(Pointer::parse("a").is_err());
        assert!(Pointer::parse("/a~2").is_err());
        assert_eq!(Pointer::parse("/").unwrap().segments().as_ref(), [""]);
    }
}
