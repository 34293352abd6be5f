//! Reads one request as it arrives: the head at once, the body in pieces, until every needed field is known. It follows the
//! configured order of sources, and it says when nothing that may still come can change the answer. It knows no catalog.

mod field;
mod rivals;
mod wanted;

use self::field::{Field, Purpose};
use self::rivals::Rivals;
use self::wanted::Wanted;
use super::body::Scanner;
use super::content_type;
use super::dialect::Dialect;
use super::encoding::{self, Decoder, Failure};
use super::head::{self, Head};
use super::json::Slot;
use super::path::split_target;
use super::place::InBody;
use super::source::Plan;
use super::{Facts, Found, Limits, Origins, Slice, Trouble};

/// Which fields a decision waits for. The model is always needed; the others are read when they come along.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Needs {
    pub tenant: bool,
    pub session: bool,
    /// Every other place that names a model, for who may not use all of them.
    pub rivals: bool,
    /// Whether the answer shall stream is read when it comes along; it is not waited for.
    pub stream: bool,
}

#[derive(Debug)]
pub struct Reader {
    model: Field,
    tenant: Field,
    session: Field,
    rivals: Option<Rivals>,
    stream: Stream,
    needs: Needs,
    api: super::Api,
    without_model: Option<super::Access>,
    body: Body,
    read: u64,
    max_body: u64,
    session_scan: u64,
    /// How much had been read when everything but the session was known.
    rest_known_at: Option<u64>,
    trouble: Option<Trouble>,
    doubt: Option<Trouble>,
    ended: bool,
}

/// Where the request says whether its answer shall stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stream {
    NotRead,
    Path(bool),
    /// The body's slot.
    Body(usize),
}

#[derive(Debug)]
enum Body {
    /// No field can come from it.
    Ignored,
    Read(Box<Decoder>),
    /// It could hold a field, and cannot be read.
    Unreadable(&'static str),
}

impl Reader {
    /// Reads the head. `needs` says what the decision waits for.
    #[must_use]
    pub fn new(head: &impl Head, plan: &Plan, needs: Needs, limits: &Limits) -> Self {
        let path = split_target(head::target(head)).0;
        let dialect = Dialect::of(path, head::method(head));
        let content_type = content_type::of(head, path, &dialect.model);
        let mut wanted = Wanted::of(&content_type.kind);
        // What follows the headers of an upgrade is no body, and it never ends: Envoy would buffer it for ever (fact 99).
        let has_body = !head::is_upgrade(head) && head::header(head, "content-length") != Found::Value("0".to_owned());
        let model = wanted.field(head, &plan.model, &dialect, Purpose::Route, has_body);
        let tenant =
            if needs.tenant { wanted.field(head, &plan.tenant, &dialect, Purpose::Route, has_body) } else { Field::default() };
        let rivals = if needs.rivals && has_body { wanted.rivals(head, &plan.model, &dialect, &model) } else { None };
        let by_body = content_type.doubt.filter(|_| {
            !model.candidates.is_empty() || !tenant.candidates.is_empty() || rivals.as_ref().is_some_and(Rivals::are_in_the_body)
        });
        let doubt = wanted.doubt.take().or(by_body).map(Trouble::Malformed);
        // A body is not searched for what nobody waits for: a session that appears twice must not refuse a request.
        // Nor is one waited for that only the body of a GET could have.
        let reads = has_body && needs.session && !matches!(head::method(head), "GET" | "HEAD");
        let session = wanted.field(head, &plan.session, &dialect, Purpose::Session, reads);
        let nothing_awaited = model.candidates.is_empty()
            && (!needs.tenant || tenant.candidates.is_empty())
            && (!needs.session || session.candidates.is_empty())
            && !rivals.as_ref().is_some_and(Rivals::are_in_the_body);
        let stream = match dialect.streams {
            _ if !needs.stream => Stream::NotRead,
            Some(streams) => Stream::Path(streams),
            None => wanted.stream().map_or(Stream::NotRead, Stream::Body),
        };
        let body = match encoding::named(head) {
            _ if nothing_awaited => Body::Ignored,
            Some(encoding) => wanted.body(limits, plan.on_duplicate_key, &encoding),
            None => Body::Unreadable("the body's content-encoding is not clear"),
        };
        let mut reader = Self {
            model,
            tenant,
            session,
            rivals,
            stream,
            needs,
            api: dialect.api,
            without_model: dialect.by_nature,
            body,
            read: 0,
            max_body: limits.max_body,
            session_scan: limits.session_scan,
            rest_known_at: None,
            trouble: None,
            doubt,
            ended: false,
        };
        if let Body::Unreadable(why) = reader.body
            && reader.reads_for_the_session_alone()
        {
            reader.go_without_the_session(Trouble::Malformed(why));
        }
        reader
    }

    /// True if the head alone decides: no body byte can change a needed field.
    #[must_use]
    pub fn needs_no_body(&self) -> bool {
        matches!(self.body, Body::Ignored)
    }

    /// Reads the next bytes of the body to their end.
    pub fn push(&mut self, chunk: &[u8]) {
        let mut rest = chunk;
        while let Slice::Part(read) = self.take(rest) {
            rest = rest.get(read..).unwrap_or_default();
        }
    }

    /// Reads one slice of the next bytes of the body; `chunk` is all that has come and is not read.
    pub fn take(&mut self, chunk: &[u8]) -> Slice {
        if self.trouble.is_some() || self.ended {
            return self.pass(chunk);
        }
        // The limit is on what is read to find the fields. Once they are known the rest goes by in constant memory, and a second
        // `model` must not hide behind the limit.
        if self.read.saturating_add(chunk.len() as u64) > self.max_body && !self.is_ready() {
            self.cut(Trouble::TooLarge);
            if self.trouble.is_some() {
                return self.pass(chunk);
            }
        }
        let result = match &mut self.body {
            Body::Ignored => return self.pass(chunk),
            Body::Read(decoder) => decoder.take(chunk),
            Body::Unreadable(_) if chunk.is_empty() => return Slice::Whole,
            Body::Unreadable(why) => Err(Failure::Malformed(why)),
        };
        let taken = match result {
            Ok(Slice::Part(read)) => read,
            Ok(Slice::Whole) | Err(_) => chunk.len(),
        };
        self.read = self.read.saturating_add(taken as u64);
        self.note(result.map(|_| ()));
        if self.rest_known_at.is_none() && self.knows_the_rest() {
            self.rest_known_at = Some(self.read);
        }
        result.unwrap_or(Slice::Whole)
    }

    /// Bytes that nothing is looked for in.
    fn pass(&mut self, chunk: &[u8]) -> Slice {
        self.read = self.read.saturating_add(chunk.len() as u64);
        Slice::Whole
    }

    /// The body has ended; one that never had a byte is no body.
    pub fn finish(&mut self) {
        if self.ended {
            return;
        }
        self.ended = true;
        if self.read == 0 {
            self.body = Body::Ignored;
            for field in [&mut self.model, &mut self.tenant, &mut self.session] {
                field.candidates.clear();
            }
            if let Some(rivals) = &mut self.rivals {
                rivals.slots.clear();
            }
        }
        let result = match &mut self.body {
            Body::Read(decoder) if self.trouble.is_none() => decoder.finish(),
            _ => Ok(()),
        };
        self.note(result);
    }

    /// The rest of the body will never come, or is not waited for: what is known has to do. A session that is missing is no trouble: a
    /// request without one is decided like any other.
    pub fn cut(&mut self, trouble: Trouble) {
        self.miss_rivals(&trouble);
        if !self.is_ready() && self.knows_the_rest() {
            // What still comes is watched, as behind any decision.
            self.needs.session = false;
            return;
        }
        self.fail(trouble);
    }

    /// The rest of the body goes to the provider unseen (BUFFERED_PARTIAL, or no room for it): a second model may be in it.
    pub fn truncate(&mut self, trouble: Trouble) {
        let may_hide_a_model = !self.reads_for_the_session_alone() || self.rivals.as_ref().is_some_and(Rivals::are_in_the_body);
        if !self.needs_no_body() && may_hide_a_model {
            self.note_doubt(trouble.clone());
        }
        self.cut(trouble);
    }

    /// The same where whoever asks can be told of nothing but a refusal: everything that is missing is trouble.
    pub fn fail(&mut self, trouble: Trouble) {
        self.miss_rivals(&trouble);
        if !self.is_ready() && self.trouble.is_none() {
            self.trouble = Some(trouble);
        }
        self.ended = true;
    }

    /// What was read may not be what a provider reads: trouble for who fails closed, nothing for others. The first doubt counts.
    pub fn note_doubt(&mut self, doubt: Trouble) {
        self.doubt.get_or_insert(doubt);
    }

    #[must_use]
    pub fn trouble(&self) -> Option<&Trouble> {
        self.trouble.as_ref()
    }

    /// What a provider may read in another way, as far as it is known.
    #[must_use]
    pub fn doubt(&self) -> Option<Trouble> {
        let Some(scanner) = self.scanner() else { return self.doubt.clone() };
        let odd = || {
            let is_odd = [&self.model, &self.tenant].iter().any(|field| field.steps_over_an_odd_value(scanner));
            is_odd.then_some(Trouble::Malformed("a value in the body is not a text, and another source was used"))
        };
        self.doubt.clone().or_else(|| scanner.doubt()).or_else(odd)
    }

    fn scanner(&self) -> Option<&Scanner> {
        match &self.body {
            Body::Read(decoder) => Some(decoder.scanner()),
            Body::Ignored | Body::Unreadable(_) => None,
        }
    }

    /// True if nothing but a session, or a rival of the model, could be in the body.
    fn reads_for_the_session_alone(&self) -> bool {
        self.model.candidates.is_empty() && self.tenant.candidates.is_empty()
    }

    /// A rival of the model that cannot be read is a doubt.
    fn go_without_the_session(&mut self, trouble: Trouble) {
        if self.rivals.as_ref().is_some_and(Rivals::are_in_the_body) {
            self.note_doubt(trouble);
        }
        self.needs.session = false;
        self.session.candidates.clear();
        self.body = Body::Ignored;
    }

    /// The first thing that went wrong counts: nothing is read behind what is no body, so that a key that stood twice came before it.
    fn note(&mut self, result: Result<(), Failure>) {
        let has_duplicate = self.has_duplicate();
        if has_duplicate && self.reads_for_rivals_alone() {
            self.note_doubt(Trouble::DuplicateKey);
        } else if has_duplicate {
            self.trouble = Some(Trouble::DuplicateKey);
            return;
        }
        match result {
            Err(failure) if self.reads_for_the_session_alone() => self.go_without_the_session(failure.trouble()),
            Err(failure) => self.trouble = Some(failure.trouble()),
            Ok(()) => {}
        }
    }

    /// How much memory the decoders of the body take, in bytes.
    #[must_use]
    pub fn memory(&self) -> u64 {
        match &self.body {
            Body::Read(decoder) => decoder.memory(),
            Body::Ignored | Body::Unreadable(_) => 0,
        }
    }

    /// True if a key that decides the route stood twice and is refused.
    #[must_use]
    pub fn has_duplicate(&self) -> bool {
        self.scanner().is_some_and(Scanner::has_duplicate)
    }

    /// True if every needed field is known, or can no longer come.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.trouble.is_some()
            || self.ended
            || self.needs_no_body()
            || (self.knows_the_rest() && (!self.needs.session || self.is_settled(&self.session) || self.has_scanned_enough()))
    }

    /// True if a lookup of the session can start: its id is known, and of model and tenant what its key is made of.
    #[must_use]
    pub fn knows_the_session(&self, with_model: bool, with_tenant: bool) -> bool {
        self.trouble.is_none()
            && self.needs.session
            && self.is_settled(&self.session)
            && (!with_model || self.is_settled(&self.model))
            && (!with_tenant || !self.needs.tenant || self.is_settled(&self.tenant))
    }

    /// Model and tenant.
    fn knows_the_rest(&self) -> bool {
        self.is_settled(&self.model) && (!self.needs.tenant || self.is_settled(&self.tenant))
    }

    fn has_scanned_enough(&self) -> bool {
        self.rest_known_at.is_some_and(|start| self.read - start > self.session_scan)
    }

    fn is_settled(&self, field: &Field) -> bool {
        field.is_settled(self.scanner())
    }

    /// What is known now, and which source of each field said it.
    #[must_use]
    pub fn facts(&self) -> (Facts, Origins) {
        let scanner = self.scanner();
        let (model, model_source) = self.model.value(scanner);
        let (tenant, tenant_source) = self.tenant_claim();
        let (session, session_source) = self.session.value(scanner);
        let session = match session {
            Found::Value(session) => Some(session),
            Found::Nothing | Found::Unusable => None,
        };
        let rivals = self.found_rivals(&model);
        let facts = Facts {
            model,
            tenant,
            session,
            streams: self.streams(),
            trouble: self.trouble.clone(),
            doubt: self.doubt(),
            api: self.api,
            rivals,
            without_model: self.without_model,
        };
        (facts, Origins { model: model_source, tenant: tenant_source, session: session_source })
    }

    /// Who the request says it comes from, as far as it is known, and which source said it.
    #[must_use]
    pub fn tenant_claim(&self) -> (Found<super::TenantClaim>, Option<usize>) {
        let (tenant, source) = self.tenant.value(self.scanner());
        let claim = match (tenant, self.tenant.head_source(source)) {
            (Found::Value(value), Some(source)) => Found::Value(head::claim(source, value)),
            (Found::Value(value), _) => Found::Value(super::TenantClaim::Name(value)),
            (Found::Nothing, _) => Found::Nothing,
            (Found::Unusable, _) => Found::Unusable,
        };
        (claim, source)
    }

    /// `None`: nothing said so, or not yet.
    fn streams(&self) -> Option<bool> {
        match (self.stream, self.scanner()) {
            (Stream::NotRead, _) => None,
            (Stream::Path(streams), _) => Some(streams),
            (Stream::Body(slot), Some(scanner)) => {
                let is_said = *scanner.slot(slot).0 != Slot::Absent || self.ended;
                is_said.then(|| scanner.is_true(slot))
            }
            // A request without a body, or whose body is not read.
            (Stream::Body(_), None) => self.ended.then_some(false),
        }
    }

    /// Where the model is in `body`, which is all that was read and is not compressed; `None` if it was found elsewhere.
    #[must_use]
    pub fn model_in(&self, body: &[u8]) -> Option<InBody> {
        self.model.place(self.scanner()?, body)
    }

    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// The tenant, if nothing of the body can change it: what counts where reading the body has failed.
    #[must_use]
    pub fn tenant_of_head(&self) -> Option<Found<super::TenantClaim>> {
        self.tenant.candidates.is_empty().then(|| self.facts().0.tenant)
    }

    #[must_use]
    pub fn api(&self) -> super::Api {
        self.api
    }
}

#[cfg(test)]
mod slices;
#[cfg(test)]
mod tests;
