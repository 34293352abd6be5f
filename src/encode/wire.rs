//! Protobuf written straight into one buffer: a message nests by writing its content and then putting the length in front. It
//! knows field numbers and wire types; what the fields mean is the caller's business.

use prost::encoding::{WireType, encode_varint, encoded_len_varint};

#[derive(Debug, Default)]
pub struct Writer {
    buffer: Vec<u8>,
}

impl Writer {
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self { buffer: Vec::with_capacity(capacity) }
    }

    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.buffer
    }

    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.buffer
    }

    pub fn bytes(&mut self, tag: u32, value: &[u8]) {
        self.pieces(tag, &[value]);
    }

    /// One value that stands in several places.
    pub fn pieces(&mut self, tag: u32, pieces: &[&[u8]]) {
        self.key(tag, WireType::LengthDelimited);
        let length: usize = pieces.iter().map(|piece| piece.len()).sum();
        self.varint(length as u64);
        pieces.iter().for_each(|piece| self.buffer.extend_from_slice(piece));
    }

    pub fn text(&mut self, tag: u32, value: &str) {
        self.bytes(tag, value.as_bytes());
    }

    pub fn number(&mut self, tag: u32, value: u64) {
        self.key(tag, WireType::Varint);
        self.varint(value);
    }

    /// A false is the default and takes no space.
    pub fn flag(&mut self, tag: u32, value: bool) {
        if value {
            self.number(tag, 1);
        }
    }

    pub fn double(&mut self, tag: u32, value: f64) {
        self.key(tag, WireType::SixtyFourBit);
        self.buffer.extend_from_slice(&value.to_le_bytes());
    }

    /// A nested message with what `content` writes; it is present even if that is nothing.
    pub fn message(&mut self, tag: u32, content: impl FnOnce(&mut Self)) {
        self.key(tag, WireType::LengthDelimited);
        let start = self.buffer.len();
        // Most messages here are shorter than 128 bytes: one byte for the length, and the rare longer one is moved.
        self.buffer.push(0);
        content(self);
        match short((self.buffer.len() - start - 1) as u64) {
            Some(length) => self.buffer[start] = length,
            None => self.put_length(start, 1),
        }
    }

    /// The same where it is known about how long the content will be: a body is then not moved to make room for its length.
    pub fn message_of(&mut self, size: usize, tag: u32, content: impl FnOnce(&mut Self)) {
        self.key(tag, WireType::LengthDelimited);
        let (start, room) = (self.buffer.len(), encoded_len_varint(size as u64));
        self.buffer.resize(start + room, 0);
        content(self);
        self.put_length(start, room);
    }

    /// Writes the length of the message whose content begins behind `room` bytes from `start`, and ends here.
    fn put_length(&mut self, start: usize, room: usize) {
        let end = self.buffer.len();
        let length = end - start - room;
        let needed = encoded_len_varint(length as u64);
        if needed != room {
            self.buffer.resize(end.max(start + needed + length), 0);
            self.buffer.copy_within(start + room..end, start + needed);
            self.buffer.truncate(start + needed + length);
        }
        let mut at = &mut self.buffer[start..start + needed];
        encode_varint(length as u64, &mut at);
    }

    fn key(&mut self, tag: u32, wire_type: WireType) {
        self.varint(u64::from(tag << 3 | wire_type as u32));
    }

    fn varint(&mut self, value: u64) {
        match short(value) {
            Some(short) => self.buffer.push(short),
            None => encode_varint(value, &mut self.buffer),
        }
    }

    /// An entry of a `google.protobuf.Struct`: a name and a value.
    pub fn field(&mut self, name: &str, value: impl FnOnce(&mut Self)) {
        self.message(1, |entry| {
            entry.text(1, name);
            entry.message(2, value);
        });
    }

    /// The content of a `google.protobuf.Value` that is a text.
    pub fn text_value(&mut self, text: &str) {
        self.text(3, text);
    }

    /// The content of a `google.protobuf.Value` that is null.
    pub fn null_value(&mut self) {
        self.number(1, 0);
    }

    pub fn number_value(&mut self, number: f64) {
        self.double(2, number);
    }

    pub fn struct_value(&mut self, fields: impl FnOnce(&mut Self)) {
        self.message(5, fields);
    }

    /// The content of a list value; `items` writes each one with [`Writer::item`].
    pub fn list_value(&mut self, items: impl FnOnce(&mut Self)) {
        self.message(6, items);
    }

    pub fn item(&mut self, value: impl FnOnce(&mut Self)) {
        self.message(1, value);
    }

    /// Any JSON value as a `google.protobuf.Value`. A number that no double holds exactly is rounded, as Envoy would.
    pub fn json_value(&mut self, value: &serde_json::Value) {
        use serde_json::Value;
        match value {
            Value::Null => self.null_value(),
            Value::Bool(flag) => self.number(4, u64::from(*flag)),
            Value::Number(number) => self.number_value(number.as_f64().unwrap_or_default()),
            Value::String(text) => self.text_value(text),
            Value::Array(items) => {
                self.list_value(|list| items.iter().for_each(|value| list.item(|item| item.json_value(value))));
            }
            Value::Object(fields) => self.struct_value(|object| object.json_fields(fields)),
        }
    }

    /// The fields of a JSON object as the content of a `google.protobuf.Struct`.
    pub fn json_fields(&mut self, fields: &serde_json::Map<String, serde_json::Value>) {
        fields.iter().for_each(|(name, value)| self.field(name, |field| field.json_value(value)));
    }
}

/// Nearly all keys and lengths here are one byte: a branch for it costs less than the loop that writes any.
fn short(value: u64) -> Option<u8> {
    u8::try_from(value).ok().filter(|byte| *byte < 0x80)
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::google::protobuf::Struct;
    use prost::Message;
    use serde_json::json;

    use super::*;

    #[test]
    fn nested_messages_of_every_length_are_what_another_decoder_reads() {
        for length in [0, 1, 100, 125, 126, 127, 128, 129, 16_380, 16_390, 3_000_000] {
            let text = "x".repeat(length);
            let value = json!({"a": {"b": [text, null, true, 1.5]}, "c": {}, "d": []});
            let mut writer = Writer::default();
            writer.json_fields(value.as_object().unwrap());
            let decoded = Struct::decode(writer.as_bytes()).unwrap();
            assert_eq!(crate::encode::tests::to_json(&decoded), value, "{length}");
        }
    }

    #[test]
    fn a_guess_of_the_length_changes_nothing_but_the_work() {
        let lengths = [0, 1, 127, 128, 16_383, 16_384, 100_000, 3_000_000];
        for length in lengths {
            let text = "x".repeat(length);
            let write = |size: Option<usize>| {
                let mut writer = Writer::default();
                match size {
                    None => writer.message(3, |content| content.text(1, &text)),
                    Some(size) => writer.message_of(size, 3, |content| content.text(1, &text)),
                }
                writer.into_bytes()
            };
            let plain = write(None);
            assert!(lengths.iter().all(|guess| write(Some(*guess)) == plain), "{length}");
        }
    }
}
