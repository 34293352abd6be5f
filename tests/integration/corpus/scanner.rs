//! The JSON scanner against serde_json: both agree on what is JSON and on what stands at any pointer; where the document is cut
//! never matters; what was called settled stays as it was.

use cascade::extract::json::{MAX_VALUE, Malformed, Scanner, Slot};
use cascade::extract::source::{OnDuplicateKey, Pointer};
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::input::Input;

const POINTERS: [&str; 12] =
    ["/model", "/session", "/a", "/a/b", "/a/0", "/0", "/a/b/c", "/b/model", "/messages/1/role", "/a~1b", "/é", "/"];

pub fn check(data: &[u8]) {
    let mut input = Input::new(data);
    let on_duplicate = if input.flag() { OnDuplicateKey::Last } else { OnDuplicateKey::Reject };
    let max_depth = *input.one_of(&[128, 1, 4, 64, 65, 200]);
    let chosen = u16::from(input.choice()) << 8 | u16::from(input.choice());
    let texts = POINTERS.iter().enumerate().filter(|(index, _)| chosen >> index & 1 == 0).map(|(_, text)| *text);
    let pointers: Vec<Pointer> = texts.filter_map(|text| Pointer::parse(text).ok()).collect();
    let pieces = input.pieces();
    let document = pieces.concat();
    let (whole, scanner) = scan(&pointers, &[&document], max_depth, on_duplicate);
    let (cut, in_pieces) = scan(&pointers, &pieces, max_depth, on_duplicate);
    assert_eq!(whole, cut, "cut somewhere, the document is judged otherwise");
    assert_eq!(scanner.has_duplicate(), in_pieces.has_duplicate());
    for (index, pointer) in pointers.iter().enumerate() {
        assert_eq!(scanner.slot(index), in_pieces.slot(index), "{}", pointer.as_str());
        assert_eq!(scanner.starts_at(index), in_pieces.starts_at(index), "{}", pointer.as_str());
    }
    let json = parse(&document, max_depth);
    assert_eq!(whole.is_ok(), json.is_some(), "serde_json disagrees on what is JSON");
    if let Some(json) = json {
        agree(&document, json, &pointers, &scanner, on_duplicate);
    }
}

fn scan(
    pointers: &[Pointer],
    pieces: &[&[u8]],
    max_depth: usize,
    on_duplicate: OnDuplicateKey,
) -> (Result<(), Malformed>, Scanner) {
    let mut scanner = Scanner::new(pointers, max_depth, on_duplicate);
    let mut settled: Vec<Option<Slot>> = vec![None; pointers.len()];
    for piece in pieces {
        if let Err(malformed) = scanner.push(piece) {
            return (Err(malformed), scanner);
        }
        for (index, settled) in settled.iter_mut().enumerate().filter(|(index, _)| scanner.is_settled(*index)) {
            let slot = scanner.slot(index);
            let unchanged = settled.as_ref().is_none_or(|before| before == slot) || scanner.has_duplicate();
            assert!(unchanged, "{} was settled as {settled:?} and is {slot:?}", pointers[index].as_str());
            *settled = Some(slot.clone());
        }
    }
    (scanner.finish(), scanner)
}

fn agree(document: &[u8], json: &RawValue, pointers: &[Pointer], scanner: &Scanner, on_duplicate: OnDuplicateKey) {
    let mut twice = false;
    for (index, pointer) in pointers.iter().enumerate() {
        twice |= stands_twice(json, pointer.segments());
        // A duplicate that is refused leaves open which of the two is seen.
        if twice && on_duplicate == OnDuplicateKey::Reject {
            continue;
        }
        let expected = find(json, pointer.segments()).map_or(Slot::Absent, slot_of);
        assert_eq!(scanner.slot(index), &expected, "{}", pointer.as_str());
        if expected != Slot::Absent && expected != Slot::NotText {
            let at = scanner.starts_at(index);
            let text = serde_json::Deserializer::from_slice(&document[at..]).into_iter::<&RawValue>().next();
            assert_eq!(text.and_then(Result::ok).map(slot_of), Some(expected), "{} starts elsewhere", pointer.as_str());
        }
    }
    assert_eq!(scanner.has_duplicate(), twice && on_duplicate == OnDuplicateKey::Reject);
}

/// The document, if it is JSON: UTF-8, a byte order mark or none, and not too deep.
fn parse(document: &[u8], max_depth: usize) -> Option<&RawValue> {
    let text = std::str::from_utf8(document).ok()?;
    let json: &RawValue = serde_json::from_str(text.strip_prefix('\u{FEFF}').unwrap_or(text)).ok()?;
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut in_text = false;
    let mut bytes = json.get().bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => in_text = !in_text,
            b'\\' => drop(bytes.next()),
            b'[' | b'{' if !in_text => depth += 1,
            b']' | b'}' if !in_text => depth -= 1,
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    (deepest <= max_depth).then_some(json)
}

/// What stands at the pointer, of keys that stand twice the last one.
fn find<'a>(json: &'a RawValue, segments: &[String]) -> Option<&'a RawValue> {
    let Some((first, rest)) = segments.split_first() else { return Some(json) };
    find(below(json, first).last()?, rest)
}

fn stands_twice(json: &RawValue, segments: &[String]) -> bool {
    let Some((first, rest)) = segments.split_first() else { return false };
    let below = below(json, first);
    below.len() > 1 || below.first().is_some_and(|json| stands_twice(json, rest))
}

fn below<'a>(json: &'a RawValue, segment: &str) -> Vec<&'a RawValue> {
    let text = json.get();
    match text.as_bytes().first() {
        Some(b'{') => {
            let Members(members) = serde_json::from_str(text).expect("an object");
            members.into_iter().filter(|(key, _)| key == segment.as_bytes()).map(|(_, value)| value).collect()
        }
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(text).expect("an array");
            items.into_iter().enumerate().filter(|(index, _)| index.to_string() == segment).map(|(_, item)| item).collect()
        }
        _ => Vec::new(),
    }
}

fn slot_of(json: &RawValue) -> Slot {
    if !json.get().starts_with('"') {
        return Slot::NotText;
    }
    let Text(bytes) = serde_json::from_str(json.get()).expect("a string");
    match String::from_utf8(bytes) {
        Ok(text) if text.len() <= MAX_VALUE => Slot::Text(text),
        _ => Slot::Unusable,
    }
}

/// A string as bytes: serde_json lets lone surrogates through there.
struct Text(Vec<u8>);

impl<'de> serde::Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Text;
            fn expecting(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
                formatter.write_str("a string")
            }
            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Text, E> {
                Ok(Text(bytes.to_vec()))
            }
        }
        deserializer.deserialize_bytes(Bytes)
    }
}

/// An object with every key it has, in order.
struct Members<'a>(Vec<(Vec<u8>, &'a RawValue)>);

impl<'de: 'a, 'a> serde::Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Members<'de>;
            fn expecting(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
                formatter.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some((Text(key), value)) = map.next_entry::<Text, &RawValue>()? {
                    members.push((key, value));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Object)
    }
}
