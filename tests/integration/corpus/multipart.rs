//! Multipart bodies: where one is cut never matters, and what was read stands where the scanner says, since it is replaced there.

use cascade::extract::json::{Malformed, Slot};
use cascade::extract::multipart::Scanner;
use cascade::extract::source::OnDuplicateKey;

use super::input::Input;

const NAMES: [&str; 2] = ["model", "session"];

pub fn check(data: &[u8]) {
    let mut input = Input::new(data);
    let on_duplicate = if input.flag() { OnDuplicateKey::Last } else { OnDuplicateKey::Reject };
    let boundary = *input.one_of(&["b", "--b", "b-\r", "----WebKitFormBoundary7MA4YWxkTrZu0gW"]);
    let pieces = input.pieces();
    let body = pieces.concat();
    let (whole, scanner) = scan(boundary, &[&body], on_duplicate);
    let (cut, in_pieces) = scan(boundary, &pieces, on_duplicate);
    assert_eq!(whole, cut, "cut somewhere, the body is judged otherwise");
    if whole.is_err() {
        return;
    }
    assert_eq!(scanner.has_duplicate(), in_pieces.has_duplicate());
    for (index, name) in NAMES.iter().enumerate() {
        assert_eq!(scanner.slot(index), in_pieces.slot(index), "{name}");
        let place = scanner.place(index);
        assert_eq!(place, in_pieces.place(index), "{name}");
        match scanner.slot(index) {
            Slot::Absent => assert_eq!(place, None, "{name} stands somewhere and was not read"),
            Slot::Text(text) if text.is_empty() => assert!(place.is_none_or(|place| place.is_empty())),
            Slot::Text(text) => assert_eq!(place.map(|place| &body[place]), Some(text.as_bytes()), "{name} stands elsewhere"),
            Slot::NotText | Slot::Unusable => assert!(place.is_some(), "{name}"),
        }
    }
}

fn scan(boundary: &str, pieces: &[&[u8]], on_duplicate: OnDuplicateKey) -> (Result<(), Malformed>, Scanner) {
    let mut scanner = Scanner::new(boundary, NAMES.map(str::to_owned).to_vec(), on_duplicate);
    for piece in pieces {
        if let Err(malformed) = scanner.push(piece) {
            return (Err(malformed), scanner);
        }
    }
    (scanner.finish(), scanner)
}
