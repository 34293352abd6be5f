//! Requests that name no model by nature: listings, files, batches, what was made before. A closed table of methods and paths, shown
//! in `docs/request-reading.md`; everything else that names no model has forgotten it. What becomes of them the catalog says.

use crate::extract::Access;
use crate::extract::path::segments::Segment;

/// `*` is one segment, `**` any rest, also none. A path that begins with `/v1` may have anything before it, and any of [`VERSIONS`]
/// in its place. HEAD is taken wherever GET is.
pub const TABLE: &[(&str, &str)] = &[
    ("GET", "/"),
    ("GET", "/health"),
    ("GET DELETE", "/v1/models/**"),
    ("GET POST DELETE", "/v1/files/**"),
    ("GET POST", "/v1/uploads/**"),
    ("GET POST DELETE", "/v1/batches/**"),
    ("GET DELETE", "/v1/responses/*/**"),
    ("POST", "/v1/responses/*/cancel"),
    ("GET", "/v1/chat/completions"),
    ("GET POST DELETE", "/v1/chat/completions/*/**"),
    ("GET POST DELETE", "/v1/conversations/**"),
    ("GET POST DELETE", "/v1/vector_stores/**"),
    ("GET POST DELETE", "/v1/containers/**"),
    ("GET", "/v1/fine_tuning/**"),
    ("POST", "/v1/fine_tuning/jobs/*/cancel"),
    ("GET DELETE", "/v1/assistants/**"),
    ("GET DELETE", "/v1/threads/**"),
    ("GET DELETE", "/v1/evals/**"),
    ("GET DELETE", "/v1/videos/**"),
    ("GET POST DELETE", "/v1/skills/**"),
    ("GET POST DELETE", "/v1/messages/batches/**"),
    ("GET", "/v1/tunedModels/**"),
    ("GET DELETE PATCH", "/v1/cachedContents/**"),
    ("GET", "/v1/deployments/**"),
    ("GET", "/v1/operations/**"),
    ("GET", "/v1/projects/*/locations/*/operations/*"),
    ("GET", "/foundation-models/**"),
    ("GET", "/inference-profiles/**"),
    ("GET", "/async-invoke/**"),
    ("GET", "/api/tags"),
    ("GET", "/api/version"),
];

/// What APIs write where OpenAI writes `v1`; Azure has no version in its path.
pub const VERSIONS: [&str; 5] = ["v1", "v1beta", "v1beta1", "v1alpha", "openai"];

/// How the table takes the request; `None` if it does not hold it.
pub(super) fn of(segments: &[Segment<'_>], method: &str) -> Option<Access> {
    let asked = if method == "HEAD" { "GET" } else { method };
    let (version, rest) = versioned(segments);
    let holds = |(methods, pattern): &&(&str, &str)| {
        let words: Vec<&str> = pattern.split('/').filter(|word| !word.is_empty()).collect();
        let matches = match words.as_slice() {
            ["v1", words @ ..] => version && fits(rest, words),
            words => fits(segments, words),
        };
        matches && methods.split(' ').any(|known| known == asked)
    };
    TABLE.iter().find(holds).map(|_| if asked == "GET" { Access::Read } else { Access::Write })
}

/// What follows the last version, and whether there is one. Where `openai` comes before a version or before a name, it is none.
fn versioned<'s, 'a>(segments: &'s [Segment<'a>]) -> (bool, &'s [Segment<'a>]) {
    let numbered = &VERSIONS[..VERSIONS.len() - 1];
    let at = segments.iter().rposition(|segment| segment.is_any(numbered));
    let at = at.or_else(|| segments.iter().position(|segment| segment.is("openai")));
    at.map_or((false, &[]), |at| (true, &segments[at + 1..]))
}

fn fits(segments: &[Segment<'_>], words: &[&str]) -> bool {
    match (words, segments) {
        (["**"], _) | ([], []) => true,
        ([word, words @ ..], [segment, segments @ ..]) => (*word == "*" || segment.is(word)) && fits(segments, words),
        _ => false,
    }
}
