//! The closed vocabulary of an answer: what was decided and the one word that says why. The same words stand in metrics, logs,
//! metadata and `explain`. This module decides nothing.

/// What a decision does with the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    /// Envoy uses the chain we send.
    Override,
    /// Envoy's static chain stands.
    PassThrough,
    /// The client is refused.
    Reject,
}

impl Outcome {
    pub const ALL: [Self; 3] = [Self::Override, Self::PassThrough, Self::Reject];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Override => "override",
            Self::PassThrough => "pass_through",
            Self::Reject => "reject",
        }
    }
}

/// What the operator chose for requests that cannot be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnTrouble {
    PassThrough,
    Reject,
}

/// What the health of clusters did to the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HealthEffect {
    AsWritten,
    Reordered,
    AllCooling,
}

impl HealthEffect {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AsWritten => "as_written",
            Self::Reordered => "reordered",
            Self::AllCooling => "all_cooling",
        }
    }
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident $word:literal $status:literal,)*) => {
        /// Why a request got the answer it got.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Reason {
            $($(#[$doc])* $name,)*
        }

        impl Reason {
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The word used everywhere: metrics, logs, metadata, `explain`, error bodies.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }

            /// The HTTP status when the request is rejected for this reason. Reasons that never reject say 500.
            #[must_use]
            pub const fn status(self) -> u16 {
                match self { $(Self::$name => $status,)* }
            }
        }
    };
}

reasons! {
    /// The tenant (or its tier) names a chain for this model.
    TenantChain "tenant_chain" 500,
    /// The tenant's (or its tier's) chain for every known model.
    TenantDefaultChain "tenant_default_chain" 500,
    /// The model's own chain.
    ModelChain "model_chain" 500,
    /// The catalog's chain for unknown models.
    DefaultChain "default_chain" 500,
    /// The catalog's chain for requests that name no model by nature.
    NoModelChain "no_model_chain" 500,
    /// The request names no model.
    MissingModel "missing_model" 400,
    /// The catalog does not know the model.
    UnknownModel "unknown_model" 404,
    /// The body could not be read as what it claims to be.
    MalformedBody "malformed_body" 400,
    /// The body went over a limit before the model was found.
    BodyTooLarge "body_too_large" 413,
    /// Envoy's body mode forwards the headers before the body is seen (fact 6).
    ModeTooLate "mode_too_late" 503,
    /// A clock ran out before the model was known.
    Deadline "deadline" 503,
    /// Nothing of the chain is left: drained, weight 0, or not served.
    NoClusterLeft "no_cluster_left" 503,
    /// The bodies that are held at this moment leave no room for this one.
    Overloaded "overloaded" 503,
    /// A fault of our own.
    Internal "internal" 503,
    /// No catalog has been loaded yet: nothing is decided.
    NoCatalog "no_catalog" 503,
    /// The tenant is on trial: the chain is computed and not sent.
    Shadow "shadow" 500,
    /// The request names no tenant.
    MissingTenant "missing_tenant" 401,
    /// The tenant or its credential is not in the catalog.
    UnknownTenant "unknown_tenant" 401,
    /// The tenant may not use this model.
    ModelNotAllowed "model_not_allowed" 403,
    /// The tenant's restrictions leave nothing of the chain.
    NoClusterAllowed "no_cluster_allowed" 403,
    /// A key that decides the route stands in the body more than once.
    DuplicateKey "duplicate_key" 400,
    /// The session directory is away and the operator chose to refuse.
    SessionUnavailable "session_unavailable" 503,
}

impl Reason {
    /// The reason that `word` stands for.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|reason| reason.as_str() == word)
    }

    /// True if a request can be rejected for this reason.
    #[must_use]
    pub const fn can_reject(self) -> bool {
        !matches!(
            self,
            Self::TenantChain
                | Self::TenantDefaultChain
                | Self::ModelChain
                | Self::DefaultChain
                | Self::NoModelChain
                | Self::Shadow
                | Self::NoCatalog
        )
    }

    /// True if a request can be left to Envoy's static chain for this reason.
    #[must_use]
    pub const fn can_pass_through(self) -> bool {
        matches!(
            self,
            Self::MissingModel
                | Self::UnknownModel
                | Self::MalformedBody
                | Self::BodyTooLarge
                | Self::ModeTooLate
                | Self::Deadline
                | Self::NoClusterLeft
                | Self::Overloaded
                | Self::Internal
                | Self::Shadow
        )
    }
}
