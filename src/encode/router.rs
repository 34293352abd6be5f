//! The headers by which a request tells Envoy's router how often and how long to try. It knows their names; what is asked for was
//! decided before.

use crate::resolve::attempts::Budget;

const MAX_RETRIES: &str = "x-envoy-max-retries";
const TRY_TIMEOUT: &str = "x-envoy-upstream-rq-per-try-timeout-ms";

/// All that Envoy's router believes of a client whom it takes for internal (fact 57). None of them passes.
pub const HEADERS: [&str; 8] = [
    MAX_RETRIES,
    TRY_TIMEOUT,
    "x-envoy-retry-on",
    "x-envoy-retry-grpc-on",
    "x-envoy-retriable-status-codes",
    "x-envoy-retriable-header-names",
    "x-envoy-upstream-rq-timeout-ms",
    "x-envoy-hedge-on-per-try-timeout",
];

/// What the router is asked for.
pub(super) fn headers(budget: Budget) -> impl Iterator<Item = (String, String)> {
    let retries = budget.retries.map(|retries| (MAX_RETRIES.to_owned(), retries.to_string()));
    let timeout = budget.timeout.map(|timeout| (TRY_TIMEOUT.to_owned(), timeout.as_millis().to_string()));
    retries.into_iter().chain(timeout)
}
