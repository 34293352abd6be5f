//! Protobuf written straight into one buffer: a message nests by writing its content and then putting the length in front. It
//! knows field numbers and wire types; what the fields mean is the caller's business.

use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint};

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
        encode_key(tag, WireType::LengthDelimited, &mut self.buffer);
        encode_varint(value.len() as u64, &mut self.buffer);
        self.buffer.extend_from_slice(value);
    }

    pub fn text(&mut self, tag: u32, value: &str) {
        self.bytes(tag, value.as_bytes());
    }

    pub fn number(&mut self, tag: u32, value: u64) {
        encode_key(tag, WireType::Varint, &mut self.buffer);
        encode_varint(value, &mut self.buffer);
    }

    /// A false is the default and takes no space.
    pub fn flag(&mut self, tag: u32, value: bool) {
        if value {
            self.number(tag, 1);
        }
    }

    pub fn double(&mut self, tag: u32, value: f64) {
        encode_key(tag, WireType::SixtyFourBit, &mut self.buffer);
        self.buffer.extend_from_slice(&value.to_le_bytes());
    }

    /// A nested message with what `content` writes; it is present even if that is nothing.
    pub fn message(&mut self, tag: u32, content: impl FnOnce(&mut Self)) {
        encode_key(tag, WireType::LengthDelimited, &mut self.buffer);
        let start = self.buffer.len();
        // Most messages here are shorter than 128 bytes: one byte for the length, and the rare longer one is moved.
        self.buffer.push(0);
        content(self);
        let length = self.buffer.len() - start - 1;
        let extra = encoded_len_varint(length as u64) - 1;
        if extra > 0 {
            let end = self.buffer.len();
            self.buffer.resize(end + extra, 0);
            self.buffer.copy_within(start + 1..end, start + 1 + extra);
        }
        let mut at = &mut self.buffer[start..=start + extra];
        encode_varint(length as u64, &mut at);
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
}
