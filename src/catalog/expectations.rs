//! The catalog's own `tests` and `invariants` as data. Running them is `crate::expectations`' work: this module knows no answer.

use super::pattern::Pattern;
use crate::diagnostic::Place;
use crate::outcome::Reason;

/// What the operator wrote under `tests` and `invariants`.
#[derive(Debug, Clone, Default)]
pub struct Expectations {
    pub tests: Vec<Test>,
    pub invariants: Vec<Invariant>,
}

/// One request and what must become of it.
#[derive(Debug, Clone)]
pub struct Test {
    pub name: String,
    pub request: TestRequest,
    pub expect: Expect,
    pub place: Place,
}

#[derive(Debug, Clone, Default)]
pub struct TestRequest {
    pub model: Option<String>,
    pub tenant: Option<String>,
    pub session: Option<String>,
    pub path: Option<String>,
    pub method: Option<String>,
    pub headers: Vec<(String, String)>,
    pub body: Option<String>,
}

#[derive(Debug, Clone)]
pub enum Expect {
    /// Group names in attempt order.
    Chain(Vec<String>),
    /// Cluster names per attempt.
    Clusters(Vec<Vec<String>>),
    Reject(Reason),
    PassThrough(Reason),
}

/// A statement that must hold for every matching tenant and model, as written and with each provider drained in turn.
#[derive(Debug, Clone)]
pub struct Invariant {
    pub name: String,
    pub tenants: TenantSelector,
    pub models: Pattern,
    pub only_tags: Vec<String>,
    pub never_tags: Vec<String>,
    pub only_providers: Vec<String>,
    pub never_providers: Vec<String>,
    pub never_pass_through: bool,
    pub never_reject: bool,
    pub place: Place,
}

/// Which tenants an invariant speaks of.
#[derive(Debug, Clone)]
pub enum TenantSelector {
    /// A pattern over tenants' names; `*` by default.
    Named(Pattern),
    /// `tier:<pattern>`.
    Tier(Pattern),
}
