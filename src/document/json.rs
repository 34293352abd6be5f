//! JSON text (RFC 8259) to a tree. `serde_json` keeps no positions and the YAML parser knows no surrogate pairs, so this small
//! reader does both; it takes exactly what JSON is, no comments and no trailing commas.

use std::sync::Arc;

use super::mapping::Mapping;
use super::{MAX_DEPTH, MAX_NODES, Node, Value};
use crate::diagnostic::{Diagnostic, Place};

pub(super) fn parse(source: &str, text: &str) -> (Option<Node>, Vec<Diagnostic>) {
    let mut reader =
        Reader { text, at: 0, line: 1, counted: 0, column: 1, source: Arc::from(source), depth: 0, nodes: 0, found: Vec::new() };
    reader.skip_blank();
    if reader.peek().is_none() {
        return (Some(Node { value: Value::Null, place: Place::whole(source) }), reader.found);
    }
    let root = reader.value().and_then(|node| {
        reader.skip_blank();
        if reader.peek().is_some() { Err(reader.error("more text after the end of the document")) } else { Ok(node) }
    });
    match root {
        Ok(node) => (Some(node), reader.found),
        Err(fault) => {
            reader.found.push(*fault);
            (None, reader.found)
        }
    }
}

type Read<T> = Result<T, Box<Diagnostic>>;

struct Reader<'t> {
    text: &'t str,
    /// Byte offset of what comes next.
    at: usize,
    line: u32,
    /// Up to here the characters of the line are counted, and the column that this offset has: a catalog may be one line of many
    /// megabytes, and no place may cost a walk over all of it.
    counted: usize,
    column: u32,
    source: Arc<str>,
    depth: usize,
    nodes: usize,
    found: Vec<Diagnostic>,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn place(&self) -> Place {
        let before = self.text.get(self.counted..self.at).unwrap_or_default();
        let column = self.column.saturating_add(u32::try_from(before.chars().count()).unwrap_or(u32::MAX));
        Place { source: Arc::clone(&self.source), line: self.line, column }
    }

    /// The place of what comes next; the count of the line goes on from here.
    fn mark(&mut self) -> Place {
        let place = self.place();
        (self.counted, self.column) = (self.at, place.column);
        place
    }

    fn error(&self, message: &str) -> Box<Diagnostic> {
        let fault = Diagnostic::error("syntax", &self.place(), format!("this is not valid JSON: {message}"));
        let is_comment = message.contains("comment");
        Box::new(fault.hint(if is_comment {
            "JSON has no comments; name the file .yaml to write some"
        } else {
            "texts and keys stand in double quotes, and nothing but a value may follow a comma"
        }))
    }

    fn skip_blank(&mut self) {
        while let Some(byte) = self.peek() {
            match byte {
                b'\n' => {
                    self.line = self.line.saturating_add(1);
                    (self.counted, self.column) = (self.at + 1, 1);
                }
                b' ' | b'\t' | b'\r' => {}
                _ => return,
            }
            self.at += 1;
        }
    }

    fn expect(&mut self, byte: u8, what: &str) -> Read<()> {
        self.skip_blank();
        if self.peek() == Some(byte) {
            self.at += 1;
            return Ok(());
        }
        Err(self.expected(what))
    }

    fn expected(&self, what: &str) -> Box<Diagnostic> {
        match self.peek() {
            None => self.error(&format!("the text ends where {what} should follow")),
            Some(b'/' | b'#') => self.error(&format!("expected {what}, found what looks like a comment")),
            Some(_) => self.error(&format!("expected {what}")),
        }
    }

    fn value(&mut self) -> Read<Node> {
        self.skip_blank();
        let place = self.mark();
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            let fault = Diagnostic::error("too-big", &place, format!("has more than {MAX_NODES} values"));
            return Err(Box::new(fault.hint("split the catalog")));
        }
        let value = match self.peek() {
            Some(b'{') => self.nested(Self::object)?,
            Some(b'[') => self.nested(Self::array)?,
            Some(b'"') => Value::Text(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b't') => self.word("true", Value::Bool(true))?,
            Some(b'f') => self.word("false", Value::Bool(false))?,
            Some(b'n') => self.word("null", Value::Null)?,
            _ => return Err(self.expected("a value")),
        };
        Ok(Node { value, place })
    }

    fn nested(&mut self, read: fn(&mut Self) -> Read<Value>) -> Read<Value> {
        if self.depth >= MAX_DEPTH {
            let message = format!("is nested more than {MAX_DEPTH} levels deep");
            return Err(Box::new(Diagnostic::error("too-deep", &self.place(), message).hint("a catalog needs nine levels")));
        }
        self.depth += 1;
        self.at += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn object(&mut self) -> Read<Value> {
        let mut mapping = Mapping::default();
        self.skip_blank();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Map(mapping.finish()));
        }
        loop {
            self.skip_blank();
            let place = self.mark();
            if self.peek() != Some(b'"') {
                return Err(self.expected("a key in double quotes"));
            }
            let key = self.string()?;
            self.expect(b':', "`:`")?;
            let value = self.value()?;
            mapping.insert(key, place, value, &mut self.found);
            self.skip_blank();
            if self.peek() != Some(b',') {
                self.expect(b'}', "`,` or `}`")?;
                return Ok(Value::Map(mapping.finish()));
            }
            self.at += 1;
        }
    }

    fn array(&mut self) -> Read<Value> {
        let mut items = Vec::new();
        self.skip_blank();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::List(items));
        }
        loop {
            items.push(self.value()?);
            self.skip_blank();
            if self.peek() != Some(b',') {
                self.expect(b']', "`,` or `]`")?;
                items.shrink_to_fit();
                return Ok(Value::List(items));
            }
            self.at += 1;
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Read<Value> {
        if self.text[self.at..].starts_with(word) {
            self.at += word.len();
            return Ok(value);
        }
        Err(self.expected("a value"))
    }

    fn number(&mut self) -> Read<Value> {
        let rest = &self.text[self.at..];
        let length = rest.bytes().take_while(|byte| matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9')).count();
        // serde_json is the judge of what a JSON number is.
        let number: serde_json::Number =
            serde_json::from_str(&rest[..length]).map_err(|_| self.error("this is no number as JSON writes them"))?;
        self.at += length;
        Ok(number.as_i64().map_or_else(|| Value::Float(number.as_f64().unwrap_or(f64::INFINITY)), Value::Integer))
    }

    fn string(&mut self) -> Read<String> {
        let rest = &self.text.as_bytes()[self.at..];
        let mut end = 1;
        loop {
            match rest.get(end) {
                None | Some(b'\n') => return Err(self.error("a text is not closed with `\"`")),
                Some(b'"') => break,
                Some(b'\\') => end += 2,
                Some(_) => end += 1,
            }
        }
        // The quotes and backslashes are ASCII, so the slice ends on a character; escapes are serde_json's business.
        let text = self.text.get(self.at..=self.at + end).and_then(|raw| serde_json::from_str(raw).ok());
        let text = text.ok_or_else(|| self.error("this text holds an escape or a control character that JSON does not allow"))?;
        self.at += end + 1;
        Ok(text)
    }
}
