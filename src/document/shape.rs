//! What may stand where: a small language for documents, as static tables. The catalog and the settings have one table each;
//! checking ([`super::check`]), "did you mean", the JSON Schema and its texts all come from it.

/// What a value must look like.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    /// A mapping with known fields. Nothing at all (`acme:`) counts as one without fields.
    Record(&'static Record),
    /// A mapping whose keys are names that the author chooses. Nothing at all counts as empty.
    Map(&'static Shape),
    List(&'static Shape),
    /// Any text.
    Text,
    /// A text of 1 to 256 bytes without control characters: what a thing is called, or a pattern over such names.
    Name,
    /// `sha256:<64 hex>`. Never shown, not even when it is wrong.
    KeyHash,
    /// One of a few words.
    Choice(&'static [&'static str]),
    Bool,
    /// A whole number, both ends included.
    Integer(u64, u64),
    /// See [`super::units::parse_duration`].
    Duration,
    /// See [`super::units::parse_size`].
    Size,
    /// A mapping of anything, for values that are passed on.
    Object,
    /// The first whose kind (text, list, mapping, …) fits the value.
    OneOf(&'static [Shape]),
}

/// A mapping with known fields.
#[derive(Debug)]
pub struct Record {
    /// What it is, for people.
    pub title: &'static str,
    pub fields: &'static [Field],
}

/// A field of a [`Record`].
#[derive(Debug, Clone, Copy)]
pub struct Field {
    pub name: &'static str,
    pub shape: Shape,
    /// One or two sentences for the author's editor.
    pub doc: &'static str,
    pub required: bool,
    /// As JSON.
    pub default: Option<&'static str>,
    /// As JSON.
    pub example: Option<&'static str>,
}

/// An optional field.
pub(crate) const fn field(name: &'static str, shape: Shape, doc: &'static str) -> Field {
    Field { name, shape, doc, required: false, default: None, example: None }
}

impl Field {
    pub(crate) const fn required(self) -> Self {
        Self { required: true, ..self }
    }

    pub(crate) const fn default(self, json: &'static str) -> Self {
        Self { default: Some(json), ..self }
    }

    pub(crate) const fn example(self, json: &'static str) -> Self {
        Self { example: Some(json), ..self }
    }
}

impl Shape {
    /// The shape in words, to follow "must be".
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Self::Record(record) => record.title.to_owned(),
            Self::Map(_) | Self::Object => "a mapping".to_owned(),
            Self::List(_) => "a list".to_owned(),
            Self::Text => "a text".to_owned(),
            Self::Name => "a name".to_owned(),
            Self::KeyHash => "`sha256:` and the 64 hexadecimal digits of the key's hash".to_owned(),
            Self::Choice(words) => match words {
                [one] => format!("`{one}`"),
                [start @ .., last] => format!("`{}` or `{last}`", start.join("`, `")),
                [] => "nothing".to_owned(),
            },
            Self::Bool => "`true` or `false`".to_owned(),
            Self::Integer(min, max) if min == max => format!("`{min}`"),
            Self::Integer(min, max) => format!("a whole number from {min} to {max}"),
            Self::Duration => "a duration, as in 150ms or 5s".to_owned(),
            Self::Size => "a size, as in 64KiB or 32MiB".to_owned(),
            Self::OneOf(shapes) => shapes.iter().map(Self::words).collect::<Vec<_>>().join(", or "),
        }
    }
}
