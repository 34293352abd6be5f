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

/// What is doubted of a body, however it is cut.
fn doubt(body: &[u8]) -> Option<Trouble> {
    let read = |step: usize| {
        let mut scanner = Scanner::new("B-x", vec!["model".to_owned(), "session".to_owned()], OnDuplicateKey::Last);
        scanner.guard(0);
        body.chunks(step).try_for_each(|chunk| scanner.push(chunk)).and_then(|()| scanner.finish()).unwrap();
        scanner.doubt()
    };
    let whole = read(usize::MAX);
    for step in [1, 2, 3, 7, 64] {
        assert_eq!(read(step), whole, "{:?} in steps of {step}", String::from_utf8_lossy(body));
    }
    whole
}

#[test]
fn an_honest_body_is_not_doubted() {
    let file = part("name=\"file\"; filename=\"C:\\x y;1.wav\"\r\nContent-Type: audio/wav", "\0\r\n--B\n--B-\r--");
    let text = part("name=\"model\"\r\nContent-Type: text/plain; charset=UTF-8\r\nContent-Transfer-Encoding: 8bit", "m");
    for body in [
        format!("{file}{text}--B-x--"),
        format!("\r\n{text}{file}{}--B-x--\r\n\r\n", part("name=\"Session\"", "s")),
        format!("{}{text}--B-x-- \t", part("name=\"model\"; filename=\"model\"", "m")),
    ] {
        assert_eq!(doubt(body.as_bytes()), None, "{body:?}");
    }
}

#[test]
fn what_another_parser_reads_in_another_way_is_doubtful() {
    let model = part("name=\"model\"", "m");
    let end = "--B-x--";
    for (body, is_twice) in [
        (format!("x\r\n{model}{end}"), false),
        (format!("{{\"model\":\"n\"}}\r\n{model}{end}"), false),
        (format!("{model}{end}\r\n{model}"), false),
        (format!("{model}{}{end}", part("name=\"x\"", "a\n--B-x\n\nb")), false),
        (format!("{model}{}{end}", part("name=\"x\"", "a--B-x")), false),
        (format!("{model}{}{end}", part("name=\"model\"; filename=\"\"", "n")), false),
        (format!("{model}{}{end}", part("name=\"mod\\el\"", "n")), false),
        (format!("{model}{}{end}", part("name*=utf-8''model", "n")), false),
        (format!("{model}{}{end}", part("name=\"x\"; name=\"model\"", "n")), false),
        (format!("{model}--B-x\r\n\r\nn\r\n{end}"), false),
        (format!("{model}--B-x\r\nContent-Disposition: attachment; name=\"model\"\r\n\r\nn\r\n{end}"), false),
        (format!("{model}--B-x\r\nContent-Disposition: form-data;\r\n name=\"model\"\r\n\r\nn\r\n{end}"), false),
        (format!("{model}--B-x\r\nContent-Disposition: form-data; name=\"model\"\n\nn\r\n{model}{end}"), false),
        (part("name=\"model\"\r\nContent-Transfer-Encoding: base64", "bQ==") + end, false),
        (part("name=\"model\"\r\nContent-Type: text/plain; charset=utf-7", "m") + end, false),
        (part("name=\"Model\"", "n") + end, false),
        (format!("{model}{}{end}", part("name=\"MODEL\"", "n")), true),
        (format!("{}{model}{end}", part("name=\"model[]\"", "n")), true),
        (format!("{}{model}{end}", part("name=\" model\"", "n")), true),
        (format!("{}{model}{end}", part("name=\"%6dodel\"", "n")), true),
    ] {
        let found = doubt(body.as_bytes());
        assert_eq!(found.as_ref().map(|found| *found == Trouble::DuplicateKey), Some(is_twice), "{body:?}: {found:?}");
    }
    let bad =
        [b"--B-x\r\nX: \xff\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\nn\r\n".as_slice(), end.as_bytes()].concat();
    assert!(doubt(&bad).is_some());
    // Nobody waits for what nobody guards.
    let mut scanner = Scanner::new("B-x", vec!["session".to_owned()], OnDuplicateKey::Last);
    scanner.push(format!("x\r\n{model}{end}").as_bytes()).unwrap();
    assert_eq!(scanner.doubt(), None);
}

/// The most lenient parser: any line break ends a line, a boundary at the start of a line is a delimiter, the first name-like
/// parameter in whatever headers a part has is its name, in any case, and only a filename of some length makes it a file.
fn lenient(body: &str) -> Vec<String> {
    let body = body.replace("\r\n", "\n").replace('\r', "\n");
    let parts = format!("\n{body}");
    let parts = parts.split("\n--B").skip(1);
    let mut found = Vec::new();
    for part in parts {
        let Some((headers, content)) = part.split_once("\n\n") else { continue };
        let headers = headers.to_ascii_lowercase().replace(['"', '\\', '\n'], "");
        let is_file = headers.split("filename=").nth(1).is_some_and(|name| !name.trim_start_matches([';', ' ']).is_empty());
        let names = headers.replace("filename=", "").matches("name=model").count();
        if names > 0 && !is_file {
            found.push(content.to_owned());
        }
    }
    found
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 4000, failure_persistence: None, ..Default::default() })]

    /// Whatever the lenient parser reads is what the scanner read, or the body is doubted or refused.
    #[test]
    fn no_lenient_parser_reads_another_part_unnoticed(fragments in proptest::collection::vec(proptest::sample::select(FRAGMENTS), 1..9), step in 1..40_usize) {
        let body = fragments.concat() + "\r\n--B--\r\n";
        let mut scanner = Scanner::new("B", vec!["model".to_owned()], OnDuplicateKey::Reject);
        scanner.guard(0);
        let pushed = body.as_bytes().chunks(step).try_for_each(|chunk| scanner.push(chunk)).and_then(|()| scanner.finish());
        if pushed.is_ok() && scanner.doubt().is_none() && !scanner.has_duplicate() {
            let read = match scanner.slot(0) { Slot::Text(text) => Some(text.replace("\r\n", "\n").replace('\r', "\n")), _ => None };
            for value in lenient(&body) {
                proptest::prop_assert_eq!(Some(&value), read.as_ref(), "{:?}", body);
            }
        }
    }
}

const FRAGMENTS: &[&str] = &[
    "--B\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\nm",
    "--B\r\ncontent-disposition: form-data; name=\"x\"\r\n\r\ny",
    "--B\r\ncontent-disposition: form-data; name=\"x\"; filename=\"f\"\r\n\r\n",
    "--B\r\ncontent-disposition: form-data; name=\"Model\"\r\n\r\nn",
    "--B\r\n",
    "--B",
    "--B\n",
    "--Bx",
    "\r\n",
    "\n",
    "\r",
    "\r\n\r\n",
    "\n\n",
    " ",
    "n",
    "content-disposition: form-data; name=\"model\"",
    "content-disposition: form-data; name=\"x\"",
    "; name=\"model\"",
    "; filename=\"\"",
    "x: y",
];
