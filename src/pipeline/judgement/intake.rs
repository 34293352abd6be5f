//! The judgement as the exchange sees it: whoever reads the request. Every call is a stage that may fail without harm to the stream:
//! after a fault nothing more is read, and the decision is due.

use super::{Decided, Judgement, fault};
use crate::extproc::exchange::{Cut, Intake, Read};
use crate::extproc::intake::EnvoyHead;
use crate::extract::head::{self, Head};
use crate::extract::reader::Reader;
use crate::extract::{Found, Slice, Trouble};
use crate::pipeline::Stage;
use crate::proto::{BodyMode, ProcessingRequest, ProtocolConfiguration, Request};
use crate::resolve::rivals;

/// How the names of all headers begin that Envoy's router obeys.
const ROUTER_PREFIX: &str = "x-envoy-";

impl Judgement {
    fn read_head(&mut self, message: &ProcessingRequest) {
        let request = EnvoyHead(message);
        self.request_id = match head::header(&request, "x-request-id") {
            Found::Value(id) if id.len() <= 128 => Some(id),
            _ => None,
        };
        let is_decided = self.pipeline.token(&request).is_some();
        if self.pipeline.cautions.decides(&request, self.request_id.as_deref(), is_decided) {
            self.pipeline.metrics.decided_twice();
        }
        let own = self.pipeline.own_headers();
        // Headers that Envoy does not show may hold anything: then ours are removed unseen.
        let unseen = !matches!(message.request, Some(Request::RequestHeaders(_)));
        self.is_headless = unseen;
        // Most requests have none of the router's headers: one look at all of them is cheaper than one for each name.
        let may_route = unseen || request.has_prefix(ROUTER_PREFIX);
        let is_sent = |name: &str| (may_route || !name.starts_with(ROUTER_PREFIX)) && request.header(name).next().is_some();
        self.spoofed = own.map(|name| !name.is_empty() && (unseen || is_sent(name)));
        if unseen {
            self.pipeline.cautions.no_headers();
        }
        let rules = &self.pipeline.rules;
        let needs = self.snapshot.as_ref().map(|snapshot| rules.needs(snapshot)).unwrap_or_default();
        let mut reader = Reader::new(&request, &rules.plan, needs, &rules.limits);
        if let Some(snapshot) = self.snapshot.as_ref().filter(|_| needs.rivals && reader.knows_the_tenant())
            && !rivals::matter(snapshot, &reader.tenant_claim().0)
        {
            reader.ignore_rivals();
        }
        if !reader.needs_no_body() && keeps_a_body(message) {
            self.pipeline.cautions.no_body();
        }
        self.reader = Some(reader);
    }

    /// The reader, while what it says is believed.
    fn reading(&mut self, stage: Stage, work: impl FnOnce(&mut Reader)) {
        if self.is_faulty.get() {
            return;
        }
        self.guarded(stage, |this| {
            if let Some(reader) = &mut this.reader {
                work(reader);
            }
        });
    }

    fn told(&self, question: impl FnOnce(&Reader) -> bool) -> bool {
        self.is_faulty.get() || self.asked_safely(|this| this.reader.as_ref().is_none_or(question)).unwrap_or(true)
    }
}

impl Intake for Judgement {
    fn head(&mut self, message: &ProcessingRequest) {
        self.guard.expect_decision();
        if self.guarded(Stage::Head, |this| this.read_head(message)).is_none() {
            self.spoofed = self.pipeline.own_headers().map(|name| !name.is_empty());
        }
    }

    fn body(&mut self, chunk: &[u8]) -> Read {
        if self.is_faulty.get() {
            return Read::All;
        }
        let read = self.guarded(Stage::Body, |this| match this.reader.as_mut().map(|reader| reader.take(chunk)) {
            Some(Slice::Part(read)) => Read::Part(read),
            Some(Slice::Whole) | None => Read::All,
        });
        read.unwrap_or(Read::All)
    }

    fn wait(&mut self) {
        if !self.is_faulty.get() {
            self.ask_safely(Self::ask_early);
        }
    }

    fn end(&mut self) {
        self.reading(Stage::End, Reader::finish);
    }

    fn cut(&mut self, why: Cut) {
        self.reading(Stage::Cut, |reader| match why {
            Cut::TooLarge | Cut::Overloaded => reader.truncate(trouble(why)),
            Cut::ModeTooLate | Cut::Deadline | Cut::Broken => reader.cut(trouble(why)),
        });
    }

    fn lost(&mut self, why: Cut) {
        if self.reader.is_none() {
            self.guard.expect_decision();
        }
        if self.reader.is_none() || self.decided != Decided::NotYet {
            self.lost = Some(trouble(why));
        }
        self.reading(Stage::Cut, |reader| reader.fail(trouble(why)));
    }

    fn needs_no_body(&self) -> bool {
        self.told(Reader::needs_no_body)
    }

    fn is_ready(&self) -> bool {
        self.told(Reader::is_ready)
    }

    fn must_judge_late(&mut self, response_started: bool) -> bool {
        self.meets_late_trouble(response_started)
    }

    fn forged(&self) -> Vec<String> {
        let names = std::panic::AssertUnwindSafe(|| self.own_headers_sent().into_iter().map(str::to_owned).collect());
        std::panic::catch_unwind(names).unwrap_or_else(|_| {
            fault::report(Stage::Head);
            Vec::new()
        })
    }
}

const fn trouble(why: Cut) -> Trouble {
    match why {
        Cut::ModeTooLate => Trouble::ModeTooLate,
        Cut::TooLarge => Trouble::TooLarge,
        Cut::Deadline => Trouble::Deadline,
        Cut::Broken => Trouble::Internal,
        Cut::Overloaded => Trouble::Overloaded,
    }
}

/// True for the head of a request whose body Envoy is configured not to show.
fn keeps_a_body(message: &ProcessingRequest) -> bool {
    let is_none = |config: &ProtocolConfiguration| BodyMode::from_number(config.request_body_mode) == BodyMode::None;
    let has_body = matches!(&message.request, Some(Request::RequestHeaders(headers)) if !headers.end_of_stream);
    has_body && message.protocol_config.as_ref().is_some_and(is_none)
}
