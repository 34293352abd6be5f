//! What the attempts of a chain may cost: how often Envoy retries, and how long one attempt may take. It knows no header and no clock;
//! the request's own wish (it streams, or not) and the operator's limits give the answer.

use std::time::Duration;

use super::Resolution;
use crate::catalog::snapshot::Snapshot;

/// What the settings say of every attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptRules {
    /// Envoy is asked for exactly the retries that the chain has.
    pub exact_retries: bool,
    /// `None`: Envoy's own.
    pub timeout: Option<Duration>,
    /// For a request whose answer streams; `None`: as for any other.
    pub stream_timeout: Option<Duration>,
}

impl Default for AttemptRules {
    fn default() -> Self {
        Self { exact_retries: true, timeout: None, stream_timeout: None }
    }
}

/// What an override asks of Envoy for its attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Budget {
    pub retries: Option<u32>,
    pub timeout: Option<Duration>,
}

impl Budget {
    /// The budget of an override; `streams` is `None` while it is not known.
    #[must_use]
    pub fn of(snapshot: &Snapshot, resolution: &Resolution, rules: &AttemptRules, streams: Option<bool>) -> Self {
        let retries = u32::try_from(resolution.chain.len().saturating_sub(1)).unwrap_or(u32::MAX);
        // A second attempt would do something twice: Envoy must not make one, whatever the route says.
        let retries = if resolution.once { Some(0) } else { rules.exact_retries.then_some(retries) };
        Self { retries, timeout: timeout(snapshot, resolution, rules, streams) }
    }
}

/// The model's own limit wins over the settings'. What may be either is given the longer one, and no limit is the longest.
fn timeout(snapshot: &Snapshot, resolution: &Resolution, rules: &AttemptRules, streams: Option<bool>) -> Option<Duration> {
    let model = resolution.model.map(|id| snapshot.model(id));
    let whole = model.and_then(|model| model.attempt_timeout).or(rules.timeout);
    let streamed = model.and_then(|model| model.stream_attempt_timeout).or(rules.stream_timeout).or(whole);
    match streams {
        Some(true) => streamed,
        Some(false) => whole,
        None => Some(whole?.max(streamed?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::compile::compile;
    use crate::catalog::load::SourceFile;
    use crate::extract::{Facts, Found};
    use crate::health::Seen;
    use crate::resolve::{Policy, resolve};
    use crate::session::State;

    const CATALOG: &str = "
version: 1
priority_groups:
  a: {clusters: [{cluster_name: a, weight: 1}]}
  b: {clusters: [{cluster_name: b, weight: 1}]}
models:
  both: {chain: [a, b, a], attempt_timeout: 60s, stream_attempt_timeout: 20s}
  whole: {chain: [a], attempt_timeout: 60s}
  streamed: {chain: [a, b], stream_attempt_timeout: 20s}
  none: {chain: [a, b]}
";

    fn budget(model: &str, rules: &AttemptRules, streams: Option<bool>) -> (Option<u32>, Option<u64>) {
        let snapshot = compile(&[SourceFile::new("a.yaml", CATALOG)]).unwrap().snapshot;
        let facts = Facts { model: Found::Value(model.to_owned()), ..Facts::default() };
        let resolution = resolve(&snapshot, Policy::default(), &facts, &State::default(), Seen::well(), &mut ());
        let Budget { retries, timeout } = Budget::of(&snapshot, &resolution, rules, streams);
        (retries, timeout.map(|timeout| timeout.as_secs()))
    }

    #[test]
    fn a_chain_gets_one_retry_less_than_it_has_groups() {
        let rules = AttemptRules::default();
        assert_eq!(budget("both", &rules, None).0, Some(2));
        assert_eq!(budget("whole", &rules, None).0, Some(0));
        assert_eq!(budget("both", &AttemptRules { exact_retries: false, ..rules }, None).0, None);
    }

    #[test]
    fn the_models_limit_wins_and_what_is_not_known_gets_the_longest() {
        let none = AttemptRules::default();
        let seconds = |whole: u64, streamed: u64| AttemptRules {
            timeout: Some(Duration::from_secs(whole)),
            stream_timeout: Some(Duration::from_secs(streamed)),
            ..none
        };
        let only_whole = AttemptRules { stream_timeout: None, ..seconds(90, 0) };
        for (model, rules, streams, not, unknown) in [
            ("both", none, Some(20), Some(60), Some(60)),
            ("both", seconds(90, 10), Some(20), Some(60), Some(60)),
            ("whole", none, Some(60), Some(60), Some(60)),
            ("whole", seconds(90, 10), Some(10), Some(60), Some(60)),
            ("streamed", none, Some(20), None, None),
            ("streamed", seconds(10, 90), Some(20), Some(10), Some(20)),
            ("none", none, None, None, None),
            ("none", seconds(90, 10), Some(10), Some(90), Some(90)),
            ("none", only_whole, Some(90), Some(90), Some(90)),
        ] {
            let limits = [Some(true), Some(false), None].map(|said| budget(model, &rules, said).1);
            assert_eq!(limits, [streams, not, unknown], "{model} {rules:?}");
        }
    }
}
