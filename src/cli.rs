//! The command line: what may be typed, and who does it. Help, completions and parsing come from the one table below. Exit codes:
//! 0 good, 1 errors found or a failed run, 2 usage, 78 settings or a catalog that `serve` cannot start with.

mod again;
mod arguments;
mod check;
mod explain;
mod report;
mod serve;
mod source;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use self::arguments::{Cli, Command, SchemaOf};

/// Invalid settings or catalog at the start: `EX_CONFIG` of sysexits. Restarting does not help, so supervisors may stop trying.
const EX_CONFIG: u8 = 78;

/// Does what the arguments say (the program's name first) and gives the exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // Help that was asked for goes to standard output and is no error; a wrong argument is, with 2.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    match cli.command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::EnvoyConfig(_) => not_available("envoy-config"),
        Command::Schema(arguments) => {
            let schema = match arguments.of {
                SchemaOf::Catalog => crate::catalog::document::json_schema(),
                SchemaOf::Settings => crate::settings::json_schema(),
            };
            print(&format!("{schema:#}\n"));
            ExitCode::SUCCESS
        }
        Command::Demo(arguments) => demo(arguments.once),
        Command::Completions(arguments) => {
            let mut script = Vec::new();
            clap_complete::generate(arguments.shell, &mut Cli::command(), "cascade", &mut script);
            print(&String::from_utf8_lossy(&script));
            ExitCode::SUCCESS
        }
    }
}

fn demo(once: bool) -> ExitCode {
    match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime.block_on(crate::demo::run(once)),
        Err(error) => {
            complain(&format!("the demo cannot start: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn not_available(command: &str) -> ExitCode {
    complain(&format!("`cascade {command}` is not available yet in this version"));
    ExitCode::FAILURE
}

/// Writes to standard output. A reader that went away (`cascade explain | head`) is no error.
fn print(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// One line on standard error.
fn complain(text: &str) {
    let _ = writeln!(io::stderr(), "cascade: {text}");
}
