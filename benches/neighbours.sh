#!/usr/bin/env bash
# What hostile bodies cost those who share a worker with them: `cascade serve` with one worker, hostile bodies of each kind on one
# connection, small decisions on another.
#
#   benches/neighbours.sh
#   CASCADE="path/to/cascade" benches/neighbours.sh    measures another binary
set -euo pipefail
cd "$(dirname "$0")/.."

cargo build --release --quiet --bin cascade --example neighbours
# The server gets one processor, and with it one worker.
pinned=$(mktemp)
trap 'rm -f "$pinned"' EXIT
printf '#!/bin/sh\nexec taskset -c 0 "%s" "$@"\n' "$(realpath "${CASCADE:-target/release/cascade}")" >"$pinned"
chmod +x "$pinned"
target/release/examples/neighbours "$pinned"
