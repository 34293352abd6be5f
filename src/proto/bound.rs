//! How much a message may unfold to. A field of two bytes becomes a value of a hundred in memory, so that a message which the gRPC
//! limit lets through could take fifty times its size: the fields are counted before anything is decoded. It knows which fields hold
//! messages that are read here, and nothing of what they mean.

use bytes::Bytes;
use prost::Message;
use prost::encoding::{WireType, decode_key, decode_varint};

use super::{AiRequestInfo, HttpLogEntry, LogMessage, ProcessingRequest, StringValue, Struct};

/// Fields in one message, all levels together. Envoy sends at most some hundred headers and as many attributes.
const MAX_FIELDS: usize = 20_000;
/// Messages in messages. A `google.protobuf.Struct` takes three levels for one of its own.
const MAX_LEVELS: usize = 64;

/// It is no message of this kind, or it would unfold to too much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unreadable;

/// A message that comes from outside.
pub trait Received: Message + Default {
    /// Which of its fields hold messages that are read.
    const SHAPE: &'static Shape;

    /// Decodes a message, unless it unfolds to too much.
    ///
    /// # Errors
    /// It is no such message, or has too many fields or levels.
    fn receive(bytes: Bytes) -> Result<Self, Unreadable> {
        let mut room = MAX_FIELDS;
        Self::SHAPE.count(&bytes, MAX_LEVELS, &mut room)?;
        Self::decode(bytes).map_err(|_| Unreadable)
    }
}

/// The fields of a message that hold messages, by number, and their shapes. All others are counted and skipped.
#[derive(Debug)]
pub struct Shape(&'static [(u32, &'static Shape)]);

static FLAT: Shape = Shape(&[]);
static REQUEST: Shape = Shape(&[
    (2, &HEADERS),
    (3, &FLAT),
    (4, &FLAT),
    (5, &FLAT),
    (6, &FLAT),
    (7, &FLAT),
    (8, &METADATA),
    (9, &NAMED_STRUCT),
    (11, &FLAT),
]);
static HEADERS: Shape = Shape(&[(1, &HEADER_MAP)]);
static HEADER_MAP: Shape = Shape(&[(1, &FLAT)]);
static METADATA: Shape = Shape(&[(1, &NAMED_STRUCT), (2, &NAMED_ANY)]);
static NAMED_STRUCT: Shape = Shape(&[(2, &STRUCT)]);
static NAMED_ANY: Shape = Shape(&[(2, &FLAT)]);
static STRUCT: Shape = Shape(&[(1, &NAMED_VALUE)]);
static NAMED_VALUE: Shape = Shape(&[(2, &VALUE)]);
static VALUE: Shape = Shape(&[(5, &STRUCT)]);
static LOG: Shape = Shape(&[(1, &FLAT), (2, &FLAT), (3, &FLAT)]);
/// A chain as metadata, lists included.
pub(super) static LISTS: Shape = Shape(&[(1, &NAMED_LISTS)]);
static NAMED_LISTS: Shape = Shape(&[(2, &VALUE_OR_LIST)]);
static VALUE_OR_LIST: Shape = Shape(&[(5, &LISTS), (6, &LIST)]);
static LIST: Shape = Shape(&[(1, &VALUE_OR_LIST)]);
/// Metadata whose values stay encoded.
pub(super) static NAMED: Shape = Shape(&[(1, &FLAT), (2, &FLAT)]);
/// The properties of an entry, their flags, tags and headers.
static ENTRY: Shape = Shape(&[(1, &COMMON), (3, &LOGGED), (4, &LOGGED)]);
/// Metadata stays encoded here; see [`super::sent_chain`].
static COMMON: Shape = Shape(&[(13, &ADDRESS), (16, &FLAT), (22, &FLAT)]);
static ADDRESS: Shape = Shape(&[(1, &FLAT)]);
static LOGGED: Shape = Shape(&[(1, &FLAT), (4, &FLAT), (13, &FLAT)]);

impl Received for ProcessingRequest {
    const SHAPE: &'static Shape = &REQUEST;
}

impl Received for Struct {
    const SHAPE: &'static Shape = &STRUCT;
}

impl Received for AiRequestInfo {
    const SHAPE: &'static Shape = &FLAT;
}

impl Received for StringValue {
    const SHAPE: &'static Shape = &FLAT;
}

impl Received for LogMessage {
    const SHAPE: &'static Shape = &LOG;
}

impl Received for HttpLogEntry {
    const SHAPE: &'static Shape = &ENTRY;
}

impl Shape {
    fn count(&self, mut bytes: &[u8], levels: usize, room: &mut usize) -> Result<(), Unreadable> {
        let levels = levels.checked_sub(1).ok_or(Unreadable)?;
        while !bytes.is_empty() {
            *room = room.checked_sub(1).ok_or(Unreadable)?;
            let (number, kind) = decode_key(&mut bytes).map_err(|_| Unreadable)?;
            let length = match kind {
                WireType::Varint => decode_varint(&mut bytes).map(|_| 0),
                WireType::SixtyFourBit => Ok(8),
                WireType::ThirtyTwoBit => Ok(4),
                WireType::LengthDelimited => decode_varint(&mut bytes),
                // What is inside a group would have to be counted as well, and Envoy has none.
                WireType::StartGroup | WireType::EndGroup => return Err(Unreadable),
            };
            let length = length.ok().and_then(|length| usize::try_from(length).ok()).ok_or(Unreadable)?;
            let content = bytes.get(..length).ok_or(Unreadable)?;
            if kind == WireType::LengthDelimited
                && let Some((_, shape)) = self.0.iter().find(|(known, _)| *known == number)
            {
                shape.count(content, levels, room)?;
            }
            bytes = &bytes[length..];
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{HeaderMap, HeaderValue, HttpHeaders, HttpLogEntries, Kind, NamedStruct, NamedValue, Request, Value};
    use super::*;

    fn request(headers: usize) -> ProcessingRequest {
        let headers = HeaderMap { headers: vec![HeaderValue::default(); headers] };
        let headers = HttpHeaders { headers: Some(headers), end_of_stream: true };
        ProcessingRequest { request: Some(Request::RequestHeaders(headers)), ..ProcessingRequest::default() }
    }

    fn encoded(message: &impl Message) -> Bytes {
        Bytes::from(message.encode_to_vec())
    }

    /// A field of this number with these bytes.
    fn field(number: u32, content: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        prost::encoding::bytes::encode(number, &content.to_vec(), &mut bytes);
        bytes
    }

    fn nested(levels: usize) -> Struct {
        (0..levels).fold(Struct::default(), |inner, _| {
            let value = Some(Value { kind: Some(Kind::Struct(inner)) });
            Struct { fields: vec![NamedValue { name: Bytes::new(), value }] }
        })
    }

    #[test]
    fn what_envoy_sends_is_decoded_as_it_is() {
        let request = request(500);
        assert_eq!(ProcessingRequest::receive(encoded(&request)), Ok(request));
        assert_eq!(Struct::receive(encoded(&nested(15))), Ok(nested(15)));
    }

    #[test]
    fn a_message_of_tiny_fields_is_refused_before_it_is_decoded() {
        assert!(ProcessingRequest::receive(encoded(&request(19_000))).is_ok());
        assert_eq!(ProcessingRequest::receive(encoded(&request(21_000))), Err(Unreadable));
        // Wherever they are: unknown ones, in messages that nobody looks into, and in all levels together.
        let tiny = [0x78, 0].repeat(21_000);
        for bytes in [tiny.clone(), field(3, &tiny), field(5, &tiny), field(7, &tiny), field(11, &tiny), field(2, &tiny)] {
            assert_eq!(ProcessingRequest::receive(Bytes::from(bytes)), Err(Unreadable));
        }
        let name = NamedStruct { value: Some(Struct { fields: vec![NamedValue::default(); 200] }), ..NamedStruct::default() };
        let many = ProcessingRequest { attributes: vec![name; 200], ..ProcessingRequest::default() };
        assert_eq!(ProcessingRequest::receive(encoded(&many)), Err(Unreadable));
        let entries = HttpLogEntries { entries: vec![Bytes::new(); 21_000] };
        assert_eq!(LogMessage::receive(encoded(&LogMessage { http: Some(entries), ..LogMessage::default() })), Err(Unreadable));
        assert_eq!(HttpLogEntry::receive(Bytes::from(field(3, &field(13, &tiny)))), Err(Unreadable));
    }

    #[test]
    fn a_message_nests_to_a_bound() {
        for levels in [30, 300] {
            assert_eq!(Struct::receive(encoded(&nested(levels))), Err(Unreadable), "{levels}");
        }
    }

    #[test]
    fn what_is_cut_or_grouped_is_refused() {
        let whole = encoded(&request(3));
        for length in 1..whole.len() {
            assert_eq!(ProcessingRequest::receive(whole.slice(..length)), Err(Unreadable), "{length}");
        }
        assert_eq!(ProcessingRequest::receive(Bytes::from_static(&[0x7B, 0x7C])), Err(Unreadable));
        assert_eq!(
            ProcessingRequest::receive(Bytes::from(vec![0x0A, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F])),
            Err(Unreadable)
        );
    }

    #[test]
    fn the_bytes_of_a_body_are_not_looked_into() {
        let body = [0x78, 0].repeat(100_000);
        let message = field(4, &field(1, &body));
        let request = ProcessingRequest::receive(Bytes::from(message)).map(|message| message.request);
        assert!(matches!(request, Ok(Some(Request::RequestBody(read))) if read.body == body));
    }
}
