#!/usr/bin/env bash
# How soon a request with a body of 50 MB is answered when its model comes first, and the peak memory of `cascade serve` meanwhile:
# FULL_DUPLEX_STREAMED beside BUFFERED, over raw gRPC and through a real Envoy (ENVOY_BIN, PATH, or installed on first use).
#
#   benches/first_answer.sh
#   CASCADE="path/to/cascade" benches/first_answer.sh    measures another binary
set -euo pipefail
cd "$(dirname "$0")/.."

cargo build --release --quiet --bin cascade --example first_answer
target/release/examples/first_answer "${CASCADE:-target/release/cascade}"
