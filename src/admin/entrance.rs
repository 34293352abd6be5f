//! Who may ask at the admin address: a browser can be made to send requests there by any page that its user visits, so that the
//! host and the origin which it names count. It knows no endpoint and no token.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use axum::extract::{Request, State as Given};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, StatusCode, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::error::Problem;

/// How the address may be called.
#[derive(Debug, Clone)]
pub struct Entrance {
    /// No browser reaches a Unix socket: what is sent there as a host means nothing.
    is_tcp: bool,
    /// Lower case, without a dot at the end.
    names: Arc<[String]>,
}

/// A host and a port as a client writes them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Named {
    host: Host,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Host {
    /// A zone belongs to the machine that wrote it and says nothing here.
    Ip(IpAddr),
    /// Lower case, without a dot at the end.
    Name(String),
}

impl Entrance {
    /// `is_tcp`: it is no Unix socket. `names`: host names that are ours, beside every IP address.
    #[must_use]
    pub fn new(is_tcp: bool, names: &[String]) -> Self {
        Self { is_tcp, names: names.iter().map(|name| plain(name)).collect() }
    }

    /// Which host the request is for; `None`: it does not say.
    fn check(&self, version: Version, target: Option<&Authority>, headers: &HeaderMap) -> Result<(), Problem> {
        let mut asked = all(headers, &header::HOST)?;
        if asked.len() > 1 {
            return Err(refused(StatusCode::BAD_REQUEST, "the request has several `host` headers", "send one"));
        }
        // A target that holds a host wins over the header, and the header must be ours all the same.
        asked.extend(target.map(Authority::as_str));
        let named: Vec<Option<Named>> = asked.iter().map(|text| Named::parse(text)).collect();
        if self.is_tcp {
            if asked.is_empty() && version != Version::HTTP_10 {
                return Err(refused(StatusCode::BAD_REQUEST, "the request has no `host` header", "send one"));
            }
            if let Some(at) = named.iter().position(|named| !named.as_ref().is_some_and(|named| self.is_ours(&named.host))) {
                let what = format!("this is not the host {:?}", asked[at]);
                let hint = "ask by IP address or as localhost, or list the name in the setting `admin_hosts`";
                return Err(refused(StatusCode::FORBIDDEN, &what, hint));
            }
        }
        let own = named.last().and_then(Option::as_ref);
        for origin in all(headers, &header::ORIGIN)? {
            if !own.is_some_and(|own| is_origin_of(origin, own)) {
                let what = format!("a page of {origin:?} may not ask here");
                return Err(refused(
                    StatusCode::FORBIDDEN,
                    &what,
                    "only this address's own pages may send requests from a browser",
                ));
            }
        }
        Ok(())
    }

    fn is_ours(&self, host: &Host) -> bool {
        match host {
            Host::Ip(_) => true,
            Host::Name(name) => self.names.contains(name),
        }
    }
}

/// Answers in the place of the endpoints if the request is not for this address.
pub(super) async fn admit(Given(entrance): Given<Entrance>, request: Request, next: Next) -> Response {
    match entrance.check(request.version(), request.uri().authority(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

impl Named {
    /// Reads `host`, `host:port`, `[::1]:port`. `None`: it is none.
    fn parse(text: &str) -> Option<Self> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (address, rest) = rest.split_once(']')?;
                let address = address.split_once('%').map_or(address, |(address, _)| address);
                let port = if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) };
                (Host::Ip(IpAddr::V6(address.parse::<Ipv6Addr>().ok()?)), port)
            }
            None => {
                let (host, port) = text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)));
                let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
                if host.is_empty() || !host.bytes().all(is_name) {
                    return None;
                }
                let address = host.parse::<Ipv4Addr>().ok();
                (address.map_or_else(|| Host::Name(plain(host)), |address| Host::Ip(IpAddr::V4(address))), port)
            }
        };
        let port = match port {
            None | Some("") => None,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => Some(digits.parse().ok()?),
            Some(_) => return None,
        };
        Some(Self { host, port })
    }
}

/// True if pages of this origin came from this host and port. A proxy before us may have spoken TLS.
fn is_origin_of(origin: &str, own: &Named) -> bool {
    let Some((scheme, rest)) = origin.split_once("://") else { return false };
    let usual = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return false,
    };
    let Some(named) = Named::parse(rest) else { return false };
    named.host == own.host && named.port.unwrap_or(usual) == own.port.unwrap_or(usual)
}

fn all<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Vec<&'h str>, Problem> {
    let texts = headers.get_all(name).iter().map(|value| value.to_str().map(str::trim));
    texts.collect::<Result<_, _>>().map_err(|_| {
        refused(StatusCode::BAD_REQUEST, &format!("the `{name}` header cannot be read"), "send visible ASCII characters only")
    })
}

fn plain(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

fn refused(status: StatusCode, what: &str, hint: &str) -> Problem {
    Problem::new(status, what, hint)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn ask(is_tcp: bool, version: Version, target: Option<&str>, lines: &[(&'static str, &str)]) -> Result<(), u16> {
        let entrance = Entrance::new(is_tcp, &["localhost".to_owned(), "Cascade.Monitoring.svc.".to_owned()]);
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        let target = target.map(|target| target.parse::<Authority>().unwrap());
        let checked = entrance.check(version, target.as_ref(), &headers);
        checked.map_err(|problem| problem.into_response().status().as_u16())
    }

    fn host(text: &str) -> Result<(), u16> {
        ask(true, Version::HTTP_11, None, &[("host", text)])
    }

    #[test]
    fn addresses_and_listed_names_are_ours_in_every_spelling() {
        for ours in [
            "127.0.0.1",
            "127.0.0.1:9091",
            "10.1.2.3:80",
            "[::1]",
            "[::1]:9091",
            "[fe80::1%eth0]:9091",
            "[fe80::1%25eth0]",
            "[::ffff:127.0.0.1]:1",
            "localhost",
            "LocalHost:8080",
            "localhost.",
            "localhost.:1",
            "localhost:",
            "cascade.monitoring.svc",
            "CASCADE.monitoring.SVC.:9091",
        ] {
            assert_eq!(host(ours), Ok(()), "{ours}");
        }
    }

    #[test]
    fn everything_else_is_not() {
        for strange in [
            "evil.example",
            "evil.example:9091",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "localhost..",
            "127.1",
            "0x7f.0.0.1",
            "2130706433",
            "127.0.0.1@evil.example",
            "evil.example@127.0.0.1",
            "[::1",
            "[::1]x",
            "[evil]",
            "::1",
            "",
            "localhost:x",
            "localhost:80:80",
            "localhost:99999",
            "localhost,evil.example",
            "localhost/evil",
            "%6cocalhost",
            "cascade",
            "[127.0.0.1]",
            "localhost evil.example",
        ] {
            assert_eq!(host(strange), Err(403), "{strange}");
        }
    }

    #[test]
    fn a_target_with_a_host_counts_and_the_header_too() {
        let both = |target, host| ask(true, Version::HTTP_11, Some(target), &[("host", host)]);
        assert_eq!(both("localhost:9091", "localhost:9091"), Ok(()));
        assert_eq!(both("evil.example", "localhost"), Err(403));
        assert_eq!(both("localhost", "evil.example"), Err(403));
        assert_eq!(ask(true, Version::HTTP_10, Some("evil.example"), &[]), Err(403));
    }

    #[test]
    fn one_host_is_named_but_by_old_clients() {
        assert_eq!(ask(true, Version::HTTP_11, None, &[]), Err(400));
        assert_eq!(ask(true, Version::HTTP_10, None, &[]), Ok(()));
        assert_eq!(ask(true, Version::HTTP_10, None, &[("host", "evil.example")]), Err(403));
        assert_eq!(ask(true, Version::HTTP_11, None, &[("host", "localhost"), ("host", "evil.example")]), Err(400));
    }

    #[test]
    fn at_a_unix_socket_any_host_is_ours_and_pages_of_others_are_not() {
        for lines in [&[][..], &[("host", "anything at all")], &[("host", "x"), ("origin", "http://x")]] {
            assert_eq!(ask(false, Version::HTTP_11, None, lines), Ok(()), "{lines:?}");
        }
        assert_eq!(ask(false, Version::HTTP_11, None, &[("host", "x"), ("origin", "http://evil.example")]), Err(403));
    }

    #[test]
    fn only_our_own_pages_may_ask() {
        let page = |host, origin| ask(true, Version::HTTP_11, None, &[("host", host), ("origin", origin)]);
        for (host, origin) in [
            ("127.0.0.1:9091", "http://127.0.0.1:9091"),
            ("localhost", "http://localhost"),
            ("localhost:80", "http://localhost"),
            ("localhost", "https://localhost"),
            ("localhost:443", "https://localhost"),
            ("[::1]:9091", "http://[::1]:9091"),
        ] {
            assert_eq!(page(host, origin), Ok(()), "{origin}");
        }
        for origin in [
            "null",
            "http://evil.example",
            "http://127.0.0.1",
            "http://127.0.0.1:3000",
            "https://127.0.0.1",
            "http://localhost:9091",
            "file://",
            "ftp://127.0.0.1:9091",
            "http://127.0.0.1:9091/",
            "http://127.0.0.1:9091@evil.example",
            "",
            "http://127.0.0.1:9091 http://evil.example",
        ] {
            assert_eq!(page("127.0.0.1:9091", origin), Err(403), "{origin}");
        }
        let two = [("host", "localhost"), ("origin", "http://localhost"), ("origin", "http://evil.example")];
        assert_eq!(ask(true, Version::HTTP_11, None, &two), Err(403));
    }
}
