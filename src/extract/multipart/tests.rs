use super::*;

fn scan(body: &[u8], step: usize, on_duplicate: OnDuplicateKey) -> (Result<(), Malformed>, Scanner) {
    let mut scanner = Scanner::new("B-x", vec!["model".to_owned(), "session".to_owned()], on_duplicate);
    for chunk in body.chunks(step) {
        if let Err(error) = scanner.push(chunk) {
            return (Err(error), scanner);
        }
    }
    (scanner.finish(), scanner)
}

fn part(disposition: &str, content: &str) -> String {
    format!("--B-x\r\nContent-Disposition: form-data; {disposition}\r\nX: y\r\n\r\n{content}\r\n")
}

#[test]
fn finds_parts_without_a_filename_wherever_the_borders_fall() {
    let file = part("name=\"file\"; filename=\"model\"", &"\r\n--B-\r\n--B\r\n\r\n--B-xx".replace("--B-xx", "--B-").repeat(20));
    let cases = [
        (part("name=\"model\"", "whisper-1"), Slot::Text("whisper-1".to_owned())),
        (file.clone() + &part("name=model", "whisper-1"), Slot::Text("whisper-1".to_owned())),
        (file + &part("name=\"model\"; filename=\"x\"", "whisper-1"), Slot::Absent),
        (part("name=\"model\"", ""), Slot::Text(String::new())),
        (part("name=\"model\"", "a\r\n\r\nb"), Slot::Text("a\r\n\r\nb".to_owned())),
        (part("name=\"model\"", &"x".repeat(MAX_VALUE + 1)), Slot::Unusable),
        (part("filename=\"a;name=\\\"\"; name=\"model\"", "x"), Slot::Absent),
    ];
    for (parts, expected) in cases {
        let body = format!("preamble\r\n{parts}--B-x--\r\nepilogue");
        for step in [1, 2, 3, 7, 64, 100_000] {
            let (result, scanner) = scan(body.as_bytes(), step, OnDuplicateKey::Reject);
            assert_eq!((result, scanner.slot(0)), (Ok(()), &expected), "{body:?} in steps of {step}");
        }
    }
}

#[test]
fn a_chunk_that_is_a_delimiter_ends_the_part_before_it() {
    let mut scanner = Scanner::new("B-x", vec!["model".to_owned()], OnDuplicateKey::Reject);
    let head = "--B-x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n";
    for chunk in [&head[..head.len() - 2], "\r", "\n--B-x", "--"] {
        scanner.push(chunk.as_bytes()).unwrap();
    }
    assert_eq!((scanner.finish(), scanner.slot(0)), (Ok(()), &Slot::Text("m".to_owned())));
    let mut scanner = Scanner::new("B-x", vec!["model".to_owned()], OnDuplicateKey::Reject);
    for chunk in [&head[..head.len() - 2], "\r", "\r\n--B-x", "--"] {
        scanner.push(chunk.as_bytes()).unwrap();
    }
    assert_eq!((scanner.finish(), scanner.slot(0)), (Ok(()), &Slot::Text("m\r".to_owned())));
}

#[test]
fn a_part_that_is_read_may_stand_once() {
    let body = part("name=\"model\"", "a") + &part("name=\"model\"", "b") + "--B-x--";
    let (result, scanner) = scan(body.as_bytes(), 5, OnDuplicateKey::Reject);
    assert_eq!((result, scanner.has_duplicate()), (Ok(()), true));
    let (result, scanner) = scan(body.as_bytes(), 5, OnDuplicateKey::Last);
    assert_eq!((result, scanner.has_duplicate(), scanner.slot(0)), (Ok(()), false, &Slot::Text("b".to_owned())));
}

#[test]
fn what_is_not_multipart_is_refused() {
    let endless = format!("--B-x\r\nX: {}", "y".repeat(MAX_PART_HEADERS + 1));
    for body in
        ["", "x", "--B-x", "--B-x\r\n", "--B-xy\r\n\r\n", &part("name=\"model\"", "a"), "--B-x\r\n\r\n\r\n--B-x-", &endless]
    {
        for step in [1, 4, 1000] {
            assert!(scan(body.as_bytes(), step, OnDuplicateKey::Reject).0.is_err(), "{body:?}");
        }
    }
    assert!(scan(b"--B-x--", 1, OnDuplicateKey::Reject).0.is_ok());
    assert!(scan(b"--B-x \t\r\n\r\n\r\n--B-x--", 1, OnDuplicateKey::Reject).0.is_ok());
}
