//! The log: one line per event on standard error, as text or JSON. Colour only on a terminal. Whoever logs never waits for whoever
//! reads. It does not choose what is logged where: the modules do, and none of them hands it a body, a key or a session id.

mod lines;

use std::io::{self, IsTerminal};
use std::panic;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

pub use self::lines::Lines;
use crate::settings::{LogFormat, Telemetry};

/// Starts logging for the process.
///
/// # Errors
/// The filter of `telemetry.log` cannot be understood, logging was started before, or there is no thread for it.
pub fn start(settings: &Telemetry) -> Result<Lines, String> {
    let filter = EnvFilter::try_new(&settings.log).map_err(|error| {
        format!("telemetry.log: `{}` is not a log filter: {error}. Try `info`, `debug` or `info,cascade=debug`", settings.log)
    })?;
    let lines = Lines::to(io::stderr()).map_err(|error| format!("the log cannot start: {error}"))?;
    let registry = tracing_subscriber::registry().with(filter);
    let layer = tracing_subscriber::fmt::layer().with_writer(lines.clone()).with_target(true);
    match settings.log_format {
        LogFormat::Text => registry.with(layer.with_ansi(colour(&io::stderr()))).try_init(),
        LogFormat::Json => registry.with(layer.json().flatten_event(true).with_current_span(false)).try_init(),
    }
    .map_err(|error| error.to_string())?;
    // The usual way writes to standard error itself, and waits there; and what a panic says may quote what was being read.
    panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let thread = std::thread::current().name().unwrap_or_default().to_owned();
        tracing::error!(place, thread, "a fault of Cascade: a panic");
    }));
    Ok(lines)
}

/// True if colour may be written: a terminal whose user did not say `NO_COLOR`.
#[must_use]
pub fn colour(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
