//! The `cascade` program: the command line, and the allocator that it runs with.

use std::process::ExitCode;

/// Reading a catalog takes many times the memory that the catalog needs then. The allocators of the C libraries keep most of it for
/// themselves, more with every reload; jemalloc has a thread that gives it back to the system (`.cargo/config.toml` says after what time).
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    cascade::cli::run(std::env::args_os())
}
