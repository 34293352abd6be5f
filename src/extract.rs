//! What a request says of itself: bytes in, [`Facts`] out. It knows headers, paths and bodies; it knows no catalog, so it cannot
//! say whether a model or a tenant exists, and it knows no protobuf.

pub mod body;
pub mod content_type;
pub mod dialect;
pub mod encoding;
pub mod form;
pub mod head;
pub mod json;
pub mod multipart;
pub mod parameters;
pub mod path;
pub mod place;
pub mod reader;
pub mod request;
pub mod source;
pub mod spelling;

/// What was found for one field.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Found<T> {
    /// No source had a value.
    #[default]
    Nothing,
    Value(T),
    /// There is a value, and none that anybody knows: a header that stands several times with different values, bytes that are no
    /// text, a name of many kilobytes. It ends the search, as an unknown name does.
    Unusable,
}

/// Who the request says it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TenantClaim {
    Name(String),
    /// SHA-256 of the API key that came with the request.
    ApiKey([u8; 32]),
}

/// What kept the body from being read; the first thing that went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    Malformed(&'static str),
    TooLarge,
    /// The key (as configured, never as sent) that stands twice.
    DuplicateKey,
    ModeTooLate,
    Deadline,
    /// There was no room for the body.
    Overloaded,
    Internal,
}

impl Trouble {
    /// One word of a closed list, for metrics.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed_body",
            Self::TooLarge => "body_too_large",
            Self::DuplicateKey => "duplicate_key",
            Self::ModeTooLate => "mode_too_late",
            Self::Deadline => "deadline",
            Self::Overloaded => "overloaded",
            Self::Internal => "internal",
        }
    }
}

/// Whose API the path belongs to: gives a rejection its shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Api {
    #[default]
    OpenAi,
    Anthropic,
    Google,
}

/// What a request that names no model by nature does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// GET and HEAD: it changes nothing, and runs no model.
    Read,
    /// Everything else: it may run models that we do not see, as a batch does.
    Write,
}

/// All that is known of a request when it is judged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    /// As sent, percent-decoded where it came from a path.
    pub model: Found<String>,
    pub tenant: Found<TenantClaim>,
    pub session: Option<String>,
    /// The answer shall come as a stream; `None`: not known, or nobody wants to know.
    pub streams: Option<bool>,
    pub trouble: Option<Trouble>,
    /// Trouble that counts only for who fails closed: what was read may not be what a provider reads (`Model` beside `model`). For
    /// everybody else the request is judged as it was read.
    pub doubt: Option<Trouble>,
    pub api: Api,
    /// What other places of the request name as its model, if it was asked for: a provider may read one of them.
    pub rivals: Vec<Found<String>>,
    /// The request names no model by nature.
    pub without_model: Option<Access>,
}

/// How far one slice of reading came. A slice is little work whatever the bytes are, so that whoever reads can do something else
/// between two of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Slice {
    /// All bytes are read, and nothing is left to be done for them.
    #[default]
    Whole,
    /// This many bytes are read, maybe none: there is more to do, with the rest of them.
    Part(usize),
}

/// Which source of its list gave a field its value, by index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Origins {
    pub model: Option<usize>,
    pub tenant: Option<usize>,
    pub session: Option<usize>,
}

/// How much of a request is read, in bytes and levels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    pub max_body: u64,
    /// What a compressed body may come out as.
    pub max_decompressed: u64,
    /// How many codings a compressed body may have, one around the other.
    pub max_codings: usize,
    pub max_depth: usize,
    /// How far a body is read for the session once the model is known.
    pub session_scan: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_body: 32 * 1024 * 1024,
            max_decompressed: 64 * 1024 * 1024,
            max_codings: 1,
            max_depth: 128,
            session_scan: 64 * 1024,
        }
    }
}
