//! The log: one line per event on standard error, as text or JSON. Colour only on a terminal. It does not choose what is
//! logged where: the modules do, and none of them hands it a body, a key or a session id.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::settings::{LogFormat, Telemetry};

/// Starts logging for the process.
///
/// # Errors
/// The filter of `telemetry.log` cannot be understood, or logging was started before.
pub fn start(settings: &Telemetry) -> Result<(), String> {
    let filter = EnvFilter::try_new(&settings.log).map_err(|error| {
        format!("telemetry.log: `{}` is not a log filter: {error}. Try `info`, `debug` or `info,cascade=debug`", settings.log)
    })?;
    let registry = tracing_subscriber::registry().with(filter);
    let layer = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_target(true);
    match settings.log_format {
        LogFormat::Text => registry.with(layer.with_ansi(colour(&io::stderr()))).try_init(),
        LogFormat::Json => registry.with(layer.json().flatten_event(true).with_current_span(false)).try_init(),
    }
    .map_err(|error| error.to_string())
}

/// True if colour may be written: a terminal whose user did not say `NO_COLOR`.
#[must_use]
pub fn colour(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
