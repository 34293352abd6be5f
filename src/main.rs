//! The `cascade` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    cascade::cli::run(std::env::args_os())
}
