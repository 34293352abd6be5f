//! Diagnostics for a terminal or a program.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::diagnostic::{Diagnostic, Severity, acceptable};

pub(super) fn text(diagnostics: &[Diagnostic], colour: bool) -> String {
    let mut out = String::new();
    for diagnostic in diagnostics {
        let (on, off) = match (colour, diagnostic.severity) {
            (false, _) => ("", ""),
            (true, Severity::Error) => ("\x1b[1;31m", "\x1b[0m"),
            (true, Severity::Warning) => ("\x1b[1;33m", "\x1b[0m"),
        };
        let Diagnostic { severity, code, place, message, hint } = diagnostic;
        let _ = writeln!(out, "{place}: {on}{}{off}[{code}]: {message}", severity.as_str());
        if let Some(hint) = hint {
            let _ = writeln!(out, "    hint: {hint}");
        }
    }
    out
}

pub(super) fn json(diagnostics: &[Diagnostic]) -> Value {
    let each = diagnostics.iter().map(|diagnostic| {
        json!({
            "severity": diagnostic.severity.as_str(),
            "code": diagnostic.code,
            "file": &*diagnostic.place.source,
            "line": diagnostic.place.line,
            "column": diagnostic.place.column,
            "message": diagnostic.message,
            "hint": diagnostic.hint,
        })
    });
    json!({"ok": acceptable(diagnostics), "diagnostics": each.collect::<Vec<_>>()})
}
