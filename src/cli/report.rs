//! Diagnostics on their way to a terminal or a program: `diagnostic::render` writes them, here is where the lines come from.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

use terminal_size::{Width, terminal_size_of};

use crate::catalog::load::SourceFile;
use crate::diagnostic::{Diagnostic, render};
use crate::telemetry::log::colour;

/// For people who read them from `stream`; `files` are those that the diagnostics point into.
pub(super) fn text(diagnostics: &[Diagnostic], files: &[SourceFile], stream: &(impl IsTerminal + AsFd)) -> String {
    let source = |name: &str| files.iter().find(|file| &*file.name == name).map(|file| &*file.text);
    // `None` where it is no terminal.
    let columns = terminal_size_of(stream).map(|(Width(columns), _)| usize::from(columns));
    render::text(diagnostics, source, colour(stream), columns)
}

/// To standard error, where the answer goes to standard output.
pub(super) fn complain_of(diagnostics: &[Diagnostic], files: &[SourceFile]) {
    let mut out = io::stderr().lock();
    let _ = out.write_all(text(diagnostics, files, &io::stderr()).as_bytes());
}
