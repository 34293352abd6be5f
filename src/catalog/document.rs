//! What may stand in a catalog: the table behind its checks, its JSON Schema and the help in editors. What the names in it stand
//! for is not judged here.

use crate::document::schema;
use crate::document::shape::{Field, Record, Shape, field};

/// A whole catalog, or one file of it.
pub static CATALOG: Shape = Shape::Record(&Record { title: "a catalog", fields: TOP });

/// The JSON Schema of a catalog: what `cascade schema catalog` prints.
#[must_use]
pub fn json_schema() -> serde_json::Value {
    schema::of(&CATALOG, "A Cascade catalog")
}

/// `model_chain` in a chain: the model's own chain, in place.
pub const MODEL_CHAIN: &str = "model_chain";

const NAMES: Shape = Shape::List(&Shape::Name);
const FAIL: Shape = Shape::Choice(&["open", "closed"]);

const TOP: &[Field] = &[
    field("$schema", Shape::Text, "Where an editor finds the JSON Schema of this file. Means nothing to Cascade."),
    field("version", Shape::Integer(1, 1), "The version of this format. May stand in every file of a directory.").default("1"),
    field("label", Shape::Text, "A name for this state of the catalog, shown with its revision: a commit, a ticket.")
        .example("\"git:4f2c9e1\""),
    field(
        "providers",
        Shape::Map(&PROVIDER),
        "The companies and teams that run models, by the names that `clusters.*.provider` uses.",
    ),
    field(
        "clusters",
        Shape::Map(&CLUSTER),
        "Facts about Envoy clusters, by cluster name. A cluster without an entry has no provider and no tags, and serves every model.",
    ),
    field(
        "priority_groups",
        Shape::Map(&GROUP),
        "Groups of clusters that chains name. Each attempt of a request uses one group.",
    ),
    field("models", Shape::Map(&MODEL), "The models that clients may ask for, by the catalog's own names."),
    field("tiers", Shape::Map(&TIER), "Sets of rules that tenants share."),
    field("tenants", Shape::Map(&TENANT), "Who sends requests, and what each of them may use."),
    field("defaults", DEFAULTS, "What happens when a request names no tenant, an unknown tenant or an unknown model."),
    field("tests", Shape::List(&TEST), "Requests and what must become of them. A catalog whose test fails is not accepted."),
    field(
        "invariants",
        Shape::List(&INVARIANT),
        "Statements that must hold for every matching tenant and model, as written and with each provider drained in turn.",
    ),
];

static PROVIDER: Shape = Shape::Record(&Record {
    title: "a provider",
    fields: &[field("drained", Shape::Bool, "True takes every cluster of this provider out of every chain.").default("false")],
});

static CLUSTER: Shape = Shape::Record(&Record {
    title: "a cluster",
    fields: &[
        field("provider", Shape::Name, "Who runs it.").example("\"openai\""),
        field("tags", NAMES, "What `require_tags`, `forbid_tags` and invariants speak of.").example("[\"eu\", \"paid\"]"),
        field(
            "models",
            Shape::OneOf(&[Shape::Map(&Shape::Name), NAMES]),
            "The models it serves, and no others: a list of catalog names, or a mapping from each to what this cluster calls it.",
        )
        .example("{\"reasoning-large\": \"o3-2025-04-16\"}"),
        field(
            "path_prefix",
            PATH_PREFIX,
            "How paths begin at this provider where that differs from the gateway: Cascade rewrites each attempt (docs/attempts.md).",
        ),
        field("drained", Shape::Bool, "True takes this cluster out of every chain.").default("false"),
    ],
});

const PATH_PREFIX: Shape = Shape::Record(&Record {
    title: "a path prefix",
    fields: &[
        field(
            "from",
            Shape::Name,
            "With what the path begins as clients send it; whole segments. A path that begins otherwise is left alone.",
        )
        .example("\"/v1\"")
        .required(),
        field("to", Shape::Name, "With what it begins at the provider instead.").example("\"/openai/v1\"").required(),
    ],
});

static WEIGHTED: Shape = Shape::Record(&Record {
    title: "a weighted cluster",
    fields: &[
        field("cluster_name", Shape::Name, "The name of a cluster in Envoy's configuration.").example("\"openai_eu\"").required(),
        field(
            "weight",
            Shape::Integer(0, 4_294_967_295),
            "Its share of the group's requests, relative to the others. 0 leaves it out.",
        )
        .example("100")
        .required(),
    ],
});

const CLUSTERS: Field = field(
    "clusters",
    Shape::List(&WEIGHTED),
    "The clusters that share the group's requests. Without any, Envoy's own configured group of this name is used.",
)
.example("[{\"cluster_name\": \"openai_eu\", \"weight\": 100}]");

static GROUP: Shape = Shape::Record(&Record { title: "a priority group", fields: &[CLUSTERS] });

static ENTRY: Shape = Shape::OneOf(&[
    Shape::Name,
    Shape::Record(&Record {
        title: "an inline group `{name, clusters}`",
        fields: &[
            field("name", Shape::Name, "What the group is called in decisions and logs.").example("\"overflow\"").required(),
            CLUSTERS,
        ],
    }),
]);

const CHAIN: Shape = Shape::List(&ENTRY);

static MODEL: Shape = Shape::Record(&Record {
    title: "a model",
    fields: &[
        field("aliases", NAMES, "Other names that clients use for it; `*` stands for any run of characters. Exact beats pattern, a longer literal prefix beats a shorter one.")
            .example("[\"o3\", \"o3-*\"]"),
        field("chain", CHAIN, "The groups to try, in attempt order. A repeat spends one more attempt.").example("[\"on_premise\", \"cloud\"]").required(),
        field("endpoint_metadata", Shape::Object, "Metadata for `envoy.lb`: which endpoints of a cluster the subset load balancer may choose.")
            .example("{\"stage\": \"prod\"}"),
        field("endpoint_fallbacks", Shape::List(&Shape::Object), "Complete sets of metadata to try, best first, when no endpoint matches `endpoint_metadata`.")
            .example("[{\"stage\": \"canary\"}]"),
        field(
            "attempt_timeout",
            Shape::Duration,
            "How long one attempt may take up to its response headers, which for an answer that does not stream is the whole generation; then Envoy tries the next group. Wins over the settings' `attempts.timeout`.",
        )
        .example("\"120s\""),
        field(
            "stream_attempt_timeout",
            Shape::Duration,
            "The same for a request whose answer streams, up to its response headers. Without it and without `attempts.stream_timeout`: as for any other.",
        )
        .example("\"20s\""),
        field("fail", FAIL, "`closed`: requests for this model that would pass through to Envoy's static chain are rejected instead.").default("\"open\""),
    ],
});

/// What tiers and tenants share.
const RULES: [Field; 8] = [
    field("allowed_models", NAMES, "Patterns over the catalog's model names; others are rejected.").default("[\"*\"]").example("[\"reasoning-*\"]"),
    field("denied_models", NAMES, "Patterns over the catalog's model names that are rejected. A tier's and a tenant's add up.").default("[]"),
    field("chains", Shape::Map(&CHAIN), "Chains instead of the models' own, by model name or pattern; `*` is for every known model. `model_chain` in a chain stands for the model's own.")
        .example("{\"*\": [\"cloud\", \"model_chain\"]}"),
    field("require_tags", NAMES, "Only clusters that have all of these tags. A tier's and a tenant's add up.").default("[]").example("[\"eu\"]"),
    field("forbid_tags", NAMES, "No cluster that has one of these tags. A tier's and a tenant's add up.").default("[]"),
    field("forbid_providers", NAMES, "No cluster of these providers. A tier's and a tenant's add up.").default("[]"),
    field("fail", FAIL, "`closed`: what would pass through to Envoy's static chain is rejected instead, even without restrictions. With restrictions it is always closed.")
        .default("\"open\""),
    field("mode", Shape::Choice(&["enforce", "shadow"]), "`shadow` computes chains and sends none: a trial. Rejections stay rejections.").default("\"enforce\""),
];

static TIER: Shape = Shape::Record(&Record { title: "a tier", fields: &RULES });

static TENANT: Shape = Shape::Record(&Record { title: "a tenant", fields: &TENANT_FIELDS });

const TENANT_FIELDS: [Field; 10] = {
    let [allowed, denied, chains, require, forbid, providers, fail, mode] = RULES;
    [
        field("tier", Shape::Name, "The tier whose rules this tenant shares; its own win over them.").example("\"eu\""),
        field(
            "api_keys",
            Shape::List(&Shape::KeyHash),
            "SHA-256 hashes of the keys that stand for this tenant, for the source `api_key`.",
        )
        .example("[\"sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\"]"),
        allowed,
        denied,
        chains,
        require,
        forbid,
        providers,
        fail,
        mode,
    ]
};

const DEFAULTS: Shape = Shape::Record(&Record {
    title: "the defaults",
    fields: &[
        field("missing_tenant", Shape::Name, "For a request that names no tenant: `anonymous` (no restrictions), `reject`, or a tenant's name. Without this key: `anonymous` if the catalog has no tenants, else `reject`.")
            .example("\"reject\""),
        field("unknown_tenant", Shape::Name, "For a request whose tenant is not in the catalog: `reject`, `anonymous`, or a tenant's name.").default("\"reject\""),
        field(
            "unknown_model",
            Shape::OneOf(&[Shape::Choice(&["pass_through", "reject"]), CHAIN]),
            "For a model that is not in the catalog: `pass_through` (Envoy's static chain), `reject`, or a chain.",
        )
        .default("\"pass_through\""),
        field(
            "on_drained",
            Shape::Choice(&["pass_through", "reject"]),
            "For a request whose chain has no cluster left because of a drain: `pass_through` (Envoy's static chain, which knows of no drain and may hold what is drained), or `reject`.",
        )
        .default("\"pass_through\""),
        field(
            "missing_model",
            Shape::OneOf(&[Shape::Choice(&["pass_through", "reject"]), CHAIN]),
            "For a request that names no model by nature (`GET /v1/models`, files, batches; docs/request-reading.md has the table): `pass_through` (Envoy's static chain), `reject`, or a chain. Without this key such a request is treated like any other without a model (`extract.on_missing_model`).",
        )
        .example("[\"cloud\"]"),
        field("fail", FAIL, "`closed`: nothing ever passes through to Envoy's static chain.").default("\"open\""),
        field("max_attempts", Shape::Integer(1, 4_294_967_295), "The longest chain that is sent; what is beyond is cut. Attempts are bounded by Envoy's `num_retries`: those beyond the chain's end stay on its last group.").default("8"),
    ],
});

static TEST: Shape = Shape::Record(&Record {
    title: "a test",
    fields: &[
        field("name", Shape::Text, "What the test says, as a sentence.").example("\"acme goes to the cloud first\""),
        field(
            "request",
            Shape::Record(&Record {
                title: "a request",
                fields: &[
                    field("model", Shape::Text, "The model as the client sends it.").example("\"o3\""),
                    field("tenant", Shape::Text, "The tenant that extraction would find.").example("\"acme\""),
                    field("session", Shape::Text, "The session that extraction would find."),
                    field("path", Shape::Text, "The path of the request.").example("\"/v1/chat/completions\""),
                    field("method", Shape::Text, "The method of the request.").default("\"POST\""),
                    field("headers", Shape::Map(&Shape::Text), "Headers of the request.")
                        .example("{\"content-type\": \"application/json\"}"),
                    field(
                        "body",
                        Shape::OneOf(&[Shape::Text, Shape::Object]),
                        "The body: a text, or a mapping that stands for JSON.",
                    )
                    .example("{\"model\": \"o3\"}"),
                ],
            }),
            "The request that is judged.",
        )
        .required(),
        field(
            "expect",
            Shape::Record(&Record {
                title: "an expectation",
                fields: &[
                    field("chain", NAMES, "The names of the groups, in attempt order.").example("[\"cloud\", \"last_resort\"]"),
                    field("clusters", Shape::List(&NAMES), "The names of the clusters of each attempt.")
                        .example("[[\"openai_eu\"]]"),
                    field("reject", Shape::Text, "The reason of the rejection.").example("\"model_not_allowed\""),
                    field("pass_through", Shape::Text, "The reason why Envoy's static chain is used.")
                        .example("\"unknown_model\""),
                ],
            }),
            "What must become of it: one of `chain`, `clusters`, `reject`, `pass_through`.",
        )
        .required(),
    ],
});

static INVARIANT: Shape = Shape::Record(&Record {
    title: "an invariant",
    fields: &[
        field("name", Shape::Text, "What must hold, as a sentence.").example("\"EU stays in the EU\""),
        field("tenants", Shape::Name, "Which tenants: a pattern over their names, or `tier:` and a pattern over tiers.")
            .default("\"*\"")
            .example("\"tier:eu\""),
        field("models", Shape::Name, "Which models: a pattern over the catalog's names.").default("\"*\"").example("\"embed-*\""),
        field("only_tags", NAMES, "Every cluster of the answer has all of these tags.").example("[\"eu\"]"),
        field("never_tags", NAMES, "No cluster of the answer has one of these tags."),
        field("only_providers", NAMES, "Every cluster of the answer belongs to one of these providers."),
        field("never_providers", NAMES, "No cluster of the answer belongs to one of these providers.").example("[\"anthropic\"]"),
        field("never", Shape::List(&Shape::Choice(&["pass_through", "reject"])), "Outcomes that must not happen.")
            .example("[\"pass_through\"]"),
    ],
});
