//! A request's head as Envoy sends it, made readable for `extract`. It translates; it judges nothing.

use bytes::Bytes;

use crate::extract::head::Head;
use crate::proto::{AiRequestInfo, Any, Kind, ProcessingRequest, Received, Request, StringValue, Struct, Value};

/// The first message of a stream.
#[derive(Debug, Clone, Copy)]
pub struct EnvoyHead<'a>(pub &'a ProcessingRequest);

impl EnvoyHead<'_> {
    /// True if the name of a header begins with this, which is in lower case.
    #[must_use]
    pub fn has_prefix(&self, prefix: &str) -> bool {
        let Some(Request::RequestHeaders(headers)) = &self.0.request else { return false };
        let begins = |key: &[u8]| key.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()));
        headers.headers.iter().flat_map(|map| &map.headers).any(|header| begins(&header.key))
    }
}

impl Head for EnvoyHead<'_> {
    fn header<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        let headers = match &self.0.request {
            Some(Request::RequestHeaders(headers)) => headers.headers.as_ref(),
            _ => None,
        };
        let headers = headers.map(|map| map.headers.as_slice()).unwrap_or_default();
        // Envoy sends names in lower case; another data plane may not.
        headers.iter().filter(move |header| header.key.eq_ignore_ascii_case(name.as_bytes())).map(|header| header.bytes())
    }

    fn attribute(&self, name: &str) -> Option<String> {
        self.0.attributes.iter().find_map(|named| text(named.value.as_ref()?.get(name)?))
    }

    fn metadata(&self, namespace: &str, path: &[String]) -> Option<String> {
        let context = self.0.metadata_context.as_ref()?;
        let typed = context.typed_filter_metadata.iter().find(|named| named.name == namespace.as_bytes());
        if let Some(found) = typed.and_then(|named| typed_text(named.value.as_ref()?, path)) {
            return Some(found);
        }
        let untyped = context.filter_metadata.iter().find(|named| named.name == namespace.as_bytes())?;
        struct_text(untyped.value.as_ref()?, path)
    }
}

fn struct_text(fields: &Struct, path: &[String]) -> Option<String> {
    let (first, rest) = path.split_first()?;
    let value = fields.get(first)?;
    match (&value.kind, rest) {
        (_, []) => text(value),
        (Some(Kind::Struct(inner)), _) => struct_text(inner, rest),
        _ => None,
    }
}

/// The messages that Envoy's filters put into typed metadata and that hold a name for us.
fn typed_text(any: &Any, path: &[String]) -> Option<String> {
    let name = any.type_url.rsplit(|byte| *byte == b'/').next()?;
    match name {
        b"google.protobuf.Struct" => struct_text(&Struct::receive(any.value.clone()).ok()?, path),
        b"google.protobuf.StringValue" if path.is_empty() => utf8(&StringValue::receive(any.value.clone()).ok()?.value),
        b"envoy.data.ai.v3.RequestInfo" if path == ["model"] => utf8(&AiRequestInfo::receive(any.value.clone()).ok()?.model),
        _ => None,
    }
}

fn text(value: &Value) -> Option<String> {
    match value.kind.as_ref()? {
        Kind::Text(text) => utf8(text),
        Kind::Number(number) => Some(number.to_string()),
        Kind::Bool(flag) => Some(flag.to_string()),
        Kind::Struct(_) => None,
    }
}

fn utf8(bytes: &Bytes) -> Option<String> {
    std::str::from_utf8(bytes).ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::envoy::config::core::v3::{HeaderMap, HeaderValue, Metadata};
    use envoy_types::pb::envoy::data::ai::v3::RequestInfo;
    use envoy_types::pb::envoy::service::ext_proc::v3 as pb;
    use envoy_types::pb::google::protobuf::{self, value};
    use prost::Message;

    use super::*;

    fn text_value(text: &str) -> protobuf::Value {
        protobuf::Value { kind: Some(value::Kind::StringValue(text.to_owned())) }
    }

    fn structure(fields: Vec<(&str, protobuf::Value)>) -> protobuf::Struct {
        protobuf::Struct { fields: fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect() }
    }

    fn received(request: &pb::ProcessingRequest) -> ProcessingRequest {
        ProcessingRequest::decode(request.encode_to_vec().as_slice()).unwrap()
    }

    fn path(segments: &[&str]) -> Vec<String> {
        segments.iter().map(|segment| (*segment).to_owned()).collect()
    }

    #[test]
    fn headers_come_from_value_or_raw_value() {
        let header = |key: &str, value: &str, raw: &[u8]| HeaderValue {
            key: key.to_owned(),
            value: value.to_owned(),
            raw_value: raw.to_vec(),
        };
        let headers = HeaderMap { headers: vec![header("a", "1", b""), header("A", "", b"2"), header("b", "", b"\xff")] };
        let headers = pb::HttpHeaders { headers: Some(headers), ..Default::default() };
        let request = pb::ProcessingRequest {
            request: Some(pb::processing_request::Request::RequestHeaders(headers)),
            ..Default::default()
        };
        let request = received(&request);
        let head = EnvoyHead(&request);
        assert_eq!(head.header("a").collect::<Vec<_>>(), [b"1", b"2"]);
        assert_eq!(head.header("b").collect::<Vec<_>>(), [b"\xff"]);
        assert_eq!(head.header("c").count(), 0);
    }

    #[test]
    fn attributes_and_metadata_are_read_as_text() {
        let nested = protobuf::Value { kind: Some(value::Kind::StructValue(structure(vec![("sub", text_value("acme"))]))) };
        let number = protobuf::Value { kind: Some(value::Kind::NumberValue(42.0)) };
        let any = |type_url: &str, value: Vec<u8>| protobuf::Any { type_url: format!("type.googleapis.com/{type_url}"), value };
        let info = RequestInfo { model: "gpt".to_owned(), ..Default::default() };
        let typed_struct = structure(vec![("tenant", text_value("typed"))]);
        let request = pb::ProcessingRequest {
            attributes: [(
                "envoy.filters.http.ext_proc".to_owned(),
                structure(vec![("request.host", text_value("h")), ("source.port", number)]),
            )]
            .into(),
            metadata_context: Some(Metadata {
                filter_metadata: [
                    ("jwt".to_owned(), structure(vec![("payload", nested), ("empty", protobuf::Value { kind: None })])),
                    ("both".to_owned(), structure(vec![("tenant", text_value("untyped")), ("other", text_value("o"))])),
                ]
                .into(),
                typed_filter_metadata: [
                    ("envoy.ai.request_info".to_owned(), any("envoy.data.ai.v3.RequestInfo", info.encode_to_vec())),
                    ("both".to_owned(), any("google.protobuf.Struct", typed_struct.encode_to_vec())),
                    ("broken".to_owned(), any("envoy.data.ai.v3.RequestInfo", vec![0xFF])),
                ]
                .into(),
            }),
            ..Default::default()
        };
        let request = received(&request);
        let head = EnvoyHead(&request);
        assert_eq!(head.attribute("request.host").as_deref(), Some("h"));
        assert_eq!(head.attribute("source.port").as_deref(), Some("42"));
        assert_eq!(head.attribute("request.path"), None);
        for (namespace, segments, expected) in [
            ("jwt", &["payload", "sub"][..], Some("acme")),
            ("jwt", &["payload"], None),
            ("jwt", &["empty"], None),
            ("jwt", &[], None),
            ("none", &["x"], None),
            ("envoy.ai.request_info", &["model"], Some("gpt")),
            ("envoy.ai.request_info", &["other"], None),
            ("both", &["tenant"], Some("typed")),
            ("both", &["other"], Some("o")),
            ("broken", &["model"], None),
        ] {
            assert_eq!(head.metadata(namespace, &path(segments)).as_deref(), expected, "{namespace} {segments:?}");
        }
    }
}
