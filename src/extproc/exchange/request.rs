//! The request's own messages: when its head, body and trailers have said enough for a decision, in each of Envoy's body modes. It
//! does not know what the decision is, and of the response only whether it has begun.

use super::{Cut, Exchange, Intake, Next, Read, State, Step, Unread};
use crate::encode::piece::pieces;
use crate::encode::reply::{self, Kind};
use crate::proto::{BodyMode, HttpBody, ProcessingRequest, Request};

impl Exchange {
    pub(super) fn on_head(&mut self, ended: bool, intake: &mut impl Intake) -> Step {
        if ended || self.mode == BodyMode::None {
            intake.end();
            self.request_done = true;
            return self.decide(Kind::RequestHeaders);
        }
        if intake.needs_no_body() {
            self.body_unneeded = true;
            return self.decide(Kind::RequestHeaders);
        }
        match self.mode {
            // Nobody waits for an answer: the body may say what it has to say.
            _ if self.silent => {
                self.state = State::Hold;
                intake.wait();
                Step::default()
            }
            BodyMode::FullDuplexStreamed => {
                self.state = State::Hold;
                intake.wait();
                Step::default()
            }
            BodyMode::Buffered | BodyMode::BufferedPartial => {
                self.state = State::AwaitBody;
                intake.wait();
                Step::reply(reply::cleaned(&intake.forged()))
            }
            BodyMode::Streamed | BodyMode::Unknown | BodyMode::None => {
                intake.cut(Cut::ModeTooLate);
                self.decide(Kind::RequestHeaders)
            }
        }
    }

    /// Envoy is configured not to send the headers: the body is all there is.
    pub(super) fn on_headless(&mut self, message: ProcessingRequest, intake: &mut impl Intake) -> Step {
        self.state = State::AwaitBody;
        match (message.request, self.mode) {
            (Some(Request::RequestBody(body)), BodyMode::Buffered | BodyMode::BufferedPartial) => self.on_body(body, intake),
            (Some(Request::RequestBody(body)), _) => {
                intake.lost(Cut::ModeTooLate);
                self.note_end(body.end_of_stream);
                self.held.push(body);
                self.decide(Kind::RequestBody)
            }
            _ => self.on_trailers(intake),
        }
    }

    pub(super) fn on_body(&mut self, body: HttpBody, intake: &mut impl Intake) -> Step {
        match self.state {
            State::AwaitBody | State::Hold => self.read(Unread { body, read: 0 }, intake),
            State::Start | State::Deciding(_) | State::DecidingLate | State::Pass | State::Closed => {
                if self.mode != BodyMode::FullDuplexStreamed {
                    self.note_end(body.end_of_stream);
                    return Step::reply(reply::unchanged(Kind::RequestBody));
                }
                self.read(Unread { body, read: 0 }, intake)
            }
        }
    }

    /// The last of the request that needs an answer: a body that is shown whole, or the end of one in pieces.
    fn note_end(&mut self, end_of_stream: bool) {
        self.request_done |= end_of_stream || matches!(self.mode, BodyMode::Buffered | BodyMode::BufferedPartial);
    }

    /// One slice of a message, and what follows from the message once it is read.
    pub(super) fn read(&mut self, mut unread: Unread, intake: &mut impl Intake) -> Step {
        match intake.body(unread.body.body.get(unread.read..).unwrap_or_default()) {
            Read::Part(length) => {
                unread.read += length;
                self.unread = Some(unread);
                Step::read_on()
            }
            Read::All => self.on_read_body(unread.body, intake),
        }
    }

    fn on_read_body(&mut self, body: HttpBody, intake: &mut impl Intake) -> Step {
        self.note_end(body.end_of_stream);
        match self.state {
            State::AwaitBody => {
                // A whole body may lack the mark of its end, where trailers follow; a cut one always does.
                if self.mode == BodyMode::BufferedPartial && !body.end_of_stream {
                    intake.cut(Cut::TooLarge);
                } else {
                    intake.end();
                }
                self.decide(Kind::RequestBody)
            }
            State::Hold => {
                let ended = body.end_of_stream;
                self.hold(body);
                if ended {
                    intake.end();
                }
                if intake.is_ready() {
                    return self.decide(Kind::RequestHeaders);
                }
                intake.wait();
                Step::default()
            }
            State::Start | State::Deciding(_) | State::DecidingLate | State::Pass | State::Closed => self.pass_body(body, intake),
        }
    }

    fn pass_body(&mut self, body: HttpBody, intake: &mut impl Intake) -> Step {
        if body.end_of_stream {
            intake.end();
        }
        if intake.must_judge_late(self.response_started) {
            // No response has started, so that a late refusal still reaches the client and cancels the attempt (fact 28c).
            self.held.push(body);
            self.state = State::DecidingLate;
            return Step::decide();
        }
        Step { replies: pieces(Kind::RequestBody, body.body, body.end_of_stream), next: Next::Message }
    }

    pub(super) fn on_trailers(&mut self, intake: &mut impl Intake) -> Step {
        self.request_done = true;
        match self.state {
            State::AwaitBody => {
                // Trailers without a body: their answer cannot clear the route cache any more.
                intake.lost(Cut::ModeTooLate);
                self.decide(Kind::RequestTrailers)
            }
            State::Hold => {
                intake.end();
                self.held.end_with_trailers();
                self.decide(Kind::RequestHeaders)
            }
            State::Pass if self.mode == BodyMode::FullDuplexStreamed => {
                intake.end();
                if intake.must_judge_late(self.response_started) {
                    self.held.end_with_trailers();
                    self.state = State::DecidingLate;
                    return Step::decide();
                }
                Step::reply(reply::unchanged(Kind::RequestTrailers))
            }
            State::Start | State::Deciding(_) | State::DecidingLate | State::Pass | State::Closed => {
                Step::reply(reply::unchanged(Kind::RequestTrailers))
            }
        }
    }
}
