//! Diagnostics on their way to a terminal or a program: `diagnostic::render` writes them, here is where the lines come from.

use std::io::{self, Write};

use crate::catalog::load::SourceFile;
use crate::diagnostic::{Diagnostic, render};
use crate::telemetry::log::colour;

/// For people; `files` are those that the diagnostics point into.
pub(super) fn text(diagnostics: &[Diagnostic], files: &[SourceFile], colour: bool) -> String {
    let source = |name: &str| files.iter().find(|file| &*file.name == name).map(|file| &*file.text);
    render::text(diagnostics, source, colour)
}

/// To standard error, where the answer goes to standard output.
pub(super) fn complain_of(diagnostics: &[Diagnostic], files: &[SourceFile]) {
    let mut out = io::stderr().lock();
    let _ = out.write_all(text(diagnostics, files, colour(&out)).as_bytes());
}
