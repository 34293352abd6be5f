//! What of a text may be secret: the credentials and the query of a URL, wherever one was pasted. Lines that are shown are blacked
//! out by it, and messages name no value that it suspects. It knows no field and no document.

use std::ops::Range;

/// A value that is not what it should be, for a message: in backticks, or not at all if it may hold a password or a token.
#[must_use]
pub fn named(value: &str) -> String {
    if may_be_secret(value) { "this value, which may be secret and is not shown".to_owned() } else { format!("`{value}`") }
}

/// True for a text that could be of a URL, and for a word that is long and holds digits, as keys and tokens do and names of
/// fields do not.
#[must_use]
pub fn may_be_secret(text: &str) -> bool {
    let is_token = text.len() >= 16 && text.bytes().any(|byte| byte.is_ascii_digit());
    is_token || text.contains("://") || text.contains(['@', '?', '=']) || !secrets(text).is_empty()
}

/// True for what is no path of the file system but an address: it has a scheme, or credentials, which no path begins with.
#[must_use]
pub fn is_address(text: &str) -> bool {
    text.contains("://") || (!text.starts_with(['/', '.']) && !secrets(text).is_empty())
}

/// A line with all that may be secret blacked out, each character by one, so that columns stay.
#[must_use]
pub fn blacked_out(line: &str) -> String {
    let mut secrets = secrets(line);
    secrets.sort_unstable_by_key(|secret| secret.start);
    let (mut secrets, mut until) = (secrets.into_iter().peekable(), 0);
    let mut shown = |(at, character)| {
        while let Some(secret) = secrets.next_if(|secret| secret.start <= at) {
            until = until.max(secret.end);
        }
        if at < until { '•' } else { character }
    };
    line.char_indices().map(&mut shown).collect()
}

/// In bytes. A password may itself hold any character of a URL, so that the last `@` ends it: better too much is hidden than its
/// tail shown.
fn secrets(line: &str) -> Vec<Range<usize>> {
    let mut stretch = Stretch::default();
    let schemes = line.match_indices("://").map(|(at, mark)| at + mark.len());
    let mut found: Vec<_> = schemes.filter_map(|start| credentials(line, start, stretch.reach(line, start))).collect();
    for word in words(line) {
        let text = &line[word.clone()];
        // `user:password@host` without a scheme; a model may be called `name@version`.
        if let Some((at, _)) = text.rsplit_once('@').filter(|(before, _)| before.contains(':') && !text.contains("://")) {
            found.push(word.start..word.start + at.len());
        }
        found.extend(query(text).into_iter().map(|value| word.start + value.start..word.start + value.end));
    }
    found
}

/// Where a quote stands, and which it is.
type Quote = (usize, char);

/// How far a URL may reach: a quoted password may hold blanks, so to the quote's end. Asked from left to right it reads the line once
/// for each kind of quote, however many URLs stand there.
#[derive(Default)]
struct Stretch {
    /// What has been searched for quotes.
    seen: usize,
    /// The last quote before, and where it stands.
    quote: Option<Quote>,
    /// For which quote it was looked for, and the last `@` before that ends.
    known: Option<(Option<Quote>, Option<usize>)>,
}

impl Stretch {
    /// The last `@` that may end credentials that begin here.
    fn reach(&mut self, line: &str, start: usize) -> Option<usize> {
        let quote = line[self.seen..start].char_indices().rfind(|(_, character)| is_quote(*character));
        if let Some((at, quote)) = quote {
            self.quote = Some((self.seen + at, quote));
        }
        self.seen = start;
        if self.known.is_none_or(|(quote, _)| quote != self.quote) {
            let rest = &line[start..];
            let end = self.quote.and_then(|(_, quote)| rest.find(quote)).unwrap_or(rest.len());
            self.known = Some((self.quote, rest[..end].rfind('@').map(|at| start + at)));
        }
        self.known.and_then(|(_, at)| at).filter(|at| *at >= start)
    }
}

/// What stands before the host that begins here, after a scheme.
fn credentials(line: &str, start: usize, at: Option<usize>) -> Option<Range<usize>> {
    if let Some(at) = at {
        return Some(start..at);
    }
    let rest = &line[start..];
    // `:password` without a host, or `user:password`: what follows the colon is no port.
    let authority = &rest[..rest.find(|character: char| is_blank(character) || "/?#,".contains(character)).unwrap_or(rest.len())];
    let is_bracketed = authority.starts_with('[');
    let (host, port) = if is_bracketed { authority.rsplit_once("]:")? } else { authority.split_once(':')? };
    // What ends a key or a collection in YAML is no part of it.
    let is_port = port.trim_end_matches([':', '}', ']']).bytes().all(|byte| byte.is_ascii_digit());
    (host.is_empty() || !is_port).then(|| start..start + authority.len())
}

/// The values of a word's query or fragment.
fn query(word: &str) -> Vec<Range<usize>> {
    let marks: &[char] = if word.contains("://") { &['?', '#'] } else { &['?'] };
    let Some(start) = word.find(marks).map(|at| at + 1) else { return Vec::new() };
    let mut at = start;
    let values = word[start..].split('&').map(|parameter| {
        let (begin, end) = (at, at + parameter.len());
        at = end + 1;
        begin + parameter.find('=').map_or(0, |equals| equals + 1)..end
    });
    values.collect()
}

fn words(line: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut start = 0;
    for (at, character) in line.char_indices().filter(|(_, character)| is_blank(*character)) {
        found.push(start..at);
        start = at + character.len_utf8();
    }
    found.push(start..line.len());
    found.retain(|word| !word.is_empty());
    found
}

fn is_blank(character: char) -> bool {
    character.is_whitespace() || is_quote(character)
}

fn is_quote(character: char) -> bool {
    matches!(character, '"' | '\'' | '`')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_secret_is_blacked_out_and_nothing_else() {
        for (line, expected) in [
            ("url: redis://user:pw@h:6379/0", "url: redis://•••••••@h:6379/0"),
            ("url: redis://:he@im@h", "url: redis://••••••@h"),
            ("url: redis://:p/w@h", "url: redis://••••@h"),
            ("url: redis://:p?w#x@h", "url: redis://••••••••"),
            ("{url: \"redis://:p w@h\", key: k}", "{url: \"redis://••••@h\", key: k}"),
            ("url: redis://:pw", "url: redis://•••"),
            ("redis://:pw: 1", "redis://•••• 1"),
            ("[redis://user:pw:tail]", "[redis://•••••••••••••"),
            ("url: redis://:12345", "url: redis://••••••"),
            ("{url: redis://user:pw, key: k}", "{url: redis://•••••••, key: k}"),
            ("url: user:pw@h:6379", "url: •••••••@h:6379"),
            ("'user:he@im@h'", "'••••••••••@h'"),
            ("url: http://h/s?password=pw&token=x=y", "url: http://h/s?password=••&token=•••"),
            ("url: h:6379?password=pw", "url: h:6379?password=••"),
            ("url: http://h/s?pw", "url: http://h/s?••"),
            ("url: http://h/s#access_token=pw", "url: http://h/s#access_token=••"),
            ("url: http://ä:ö@h", "url: http://•••@h"),
        ] {
            assert_eq!(blacked_out(line), expected);
        }
        for line in [
            "{url: redis://h:6379}",
            "url: http://d:80/s/{tenant}/{session}",
            "url: http://[::1]:80/",
            "url: http://[::1]",
            "[http://d:80]",
            "url: redis+unix:///run/redis.sock",
            "listen: 127.0.0.1:50051 # all of it",
            "#limits: # none",
            "chain: [\"@cf/meta/llama\", claude-3-opus@20240229]",
            "key: cascade:session:{tenant}/{model}/{session}",
        ] {
            assert_eq!(blacked_out(line), line);
        }
    }

    #[test]
    fn many_urls_in_one_line_are_gone_over_once() {
        // Each alone would read the line to its end.
        for (piece, hidden) in [("a://", 0), ("a://b,", 0), ("'a://\"", 0), ("a://b:p@h ", 3), ("`a://x@h` ", 1)] {
            let line = piece.repeat(50_000);
            let shown = blacked_out(&line);
            let dots = shown.chars().filter(|character| *character == '•').count();
            assert!(
                shown.chars().count() == line.len() && dots >= hidden * 50_000 && (hidden > 0 || dots == 0),
                "{piece}: {dots}"
            );
        }
        // A password in a quote ends where the quote does, and none reaches into the next.
        assert_eq!(blacked_out("['a://x@h', \"b://h\", 'c://y@h']"), "['a://•@h', \"b://h\", 'c://•@h']");
    }

    #[test]
    fn a_value_is_named_unless_it_may_be_secret() {
        for value in ["5", "32MB", "5 minutes", "both", "x y", "Content-Type"] {
            assert_eq!(named(value), format!("`{value}`"));
        }
        for value in
            ["redis://:secret@h", "redis://secret", "user:secret@h", "secret@h", "/s?secret", "token=secret", "secret0123456789"]
        {
            assert!(!named(value).contains("secret0") && !named(value).contains("`"), "{value}");
        }
    }

    #[test]
    fn an_address_is_no_path() {
        for address in ["redis://h", "file:///a", "user:pw@h:6379", "h:6379?token=x"] {
            assert!(is_address(address), "{address}");
        }
        for path in ["/srv/a:b@c/x.yaml", "./a:b@c", "../what?", "catalogs/quickstart", "catalog@v2.yaml", ""] {
            assert!(!is_address(path), "{path}");
        }
    }
}
