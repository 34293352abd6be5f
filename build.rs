//! Compiles the one vendored proto (`priority_group` is not in envoy-types) in pure Rust, so that no `protoc` is needed.

fn main() {
    #[cfg(feature = "server")]
    compile();
}

// A build without the proto cannot go on, and a panic is how a build script says so.
#[cfg(feature = "server")]
#[allow(clippy::panic)]
fn compile() {
    const PROTO: &str = "proto/envoy/extensions/router/cluster_specifiers/priority_group/v3/priority_group.proto";
    println!("cargo:rerun-if-changed={PROTO}");
    let descriptors = match protox::compile([PROTO], ["proto"]) {
        Ok(descriptors) => descriptors,
        Err(error) => panic!("{PROTO}: {error}"),
    };
    if let Err(error) = prost_build::Config::new().compile_fds(descriptors) {
        panic!("{PROTO}: {error}");
    }
}
