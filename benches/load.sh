#!/usr/bin/env bash
# CPU microseconds per exchange of `cascade serve`, beside those of examples/noop.rs (a processor that does nothing), taken in turns
# on this machine under h2load: one gRPC stream per exchange with the two messages of BUFFERED. Prints each round, then the medians
# and their ratio. The catalog has 1,000 models and 10,000 tenants. Measured are a decision (1 KB, 100 KB) and an attempt in the
# upstream role: one whose model is renamed in the body (1 KB, 100 KB), and one that leaves the body with Envoy (headers alone).
#
#   benches/load.sh [ROUNDS]            default 3
#   benches/load.sh sessions [ROUNDS]   what a session costs whose placement is cached: the same requests to two `cascade serve`,
#                                       one of which has a session directory (over HTTP, asked once)
#   CASCADE="path/to/cascade" benches/load.sh    measures another binary
#   KINDS="rename leave" benches/load.sh         measures these alone
set -euo pipefail
cd "$(dirname "$0")/.."

MODE=decisions
if [ "${1:-}" = sessions ]; then MODE=sessions; shift; fi
ROUNDS=${1:-3}
CLIENTS=4 STREAMS=32

command -v h2load >/dev/null || { echo "h2load is missing: apt-get install -y nghttp2-client" >&2; exit 2; }
cargo build --release --quiet --bin cascade --example noop --example load_kit --example session_directory
CASCADE=${CASCADE:-target/release/cascade}
NOOP=target/release/examples/noop
KIT=target/release/examples/load_kit
TICKS=$(getconf CLK_TCK)

work=$(mktemp -d)
pids=()
cleanup() { for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done; rm -rf "$work"; }
trap cleanup EXIT

# Waits until the log $2 of process $1 tells the address it listens on, and prints it.
address_of() {
  local pid=$1 log=$2
  for _ in $(seq 300); do
    local found
    found=$(grep -oE 'listening (for ext_proc )?on .*' "$log" | grep -oE '127\.0\.0\.1:[0-9]+' | head -1 || true)
    if [ -n "$found" ]; then echo "$found"; return; fi
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  echo "the server did not start:" >&2; cat "$log" >&2; return 1
}

# Starts `cascade serve` with the settings $1, its log in $2.
serve() {
  "$CASCADE" serve --config "$1" --catalog "$work/catalog" --listen 127.0.0.1:0 --admin 127.0.0.1:0 >"$2" 2>&1 &
  pids+=($!)
}

"$KIT" catalog "$work"
serve "$work/cascade.yaml" "$work/cascade.log"; cascade_pid=${pids[-1]}
cascade_at=$(address_of "$cascade_pid" "$work/cascade.log")
# What is measured is a whole decision: the override and the facts behind it.
"$KIT" check decision "$cascade_at" 1024 2>"$work/check" >"$work/size" || { cat "$work/check" >&2; exit 1; }
grep -q '"cascade"' "$work/check" || { echo "cascade decides no override: $(cat "$work/check")" >&2; exit 1; }
case $MODE in
decisions)
  POINTS="decision:1024:100000 decision:102400:20000 rename:1024:100000 rename:102400:20000 leave:1024:100000"
  base=noop name=cascade
  "$NOOP" 127.0.0.1:0 2>"$work/noop.log" & pids+=($!); base_pid=$!
  base_at=$(address_of "$base_pid" "$work/noop.log")
  name_pid=$cascade_pid name_at=$cascade_at
  ;;
sessions)
  POINTS="decision:1024:100000"
  base="no session" name="cached session"
  base_pid=$cascade_pid base_at=$cascade_at
  target/release/examples/session_directory 127.0.0.1:0 >"$work/directory.log" & pids+=($!)
  until directory=$(grep -oE 'http://127\.0\.0\.1:[0-9]+' "$work/directory.log"); do sleep 0.1; done
  # The placement takes the cluster of the first group that has the smaller share: the chain becomes longer by a group.
  key=s/tenant-05500/model-0500/7c0cb6b2-52ff-4b8e-9a4b-1b1a2a0d6f10
  curl --silent --fail -X PUT "$directory/$key" -d '{"selected_backend":"cluster_01"}'
  { cat "$work/cascade.yaml"; echo "session: {directory: http, ttl: 1h, url: \"$directory/s/{tenant}/{model}/{session}\"}"; } \
    >"$work/sessions.yaml"
  serve "$work/sessions.yaml" "$work/sessions.log"; name_pid=${pids[-1]}
  name_at=$(address_of "$name_pid" "$work/sessions.log")
  # The first one asks the directory; the second one must find the answer.
  for _ in 1 2; do "$KIT" check decision "$name_at" 1024 >/dev/null 2>&1; sleep 0.2; done
  admin=$(grep -oE 'listening for admin on [0-9.:]+' "$work/sessions.log" | grep -oE '[0-9.]+:[0-9]+$')
  curl --silent "http://$admin/metrics" | grep -q 'cascade_session_lookups_total{result="placed"} [1-9]' ||
    { echo "the session is not placed" >&2; cat "$work/sessions.log" >&2; exit 1; }
  ;;
esac
echo "cascade: $(cat "$work/size") bytes of answers per exchange; $(cat "$work/check")"

ticks() { awk '{print $14 + $15}' "/proc/$1/stat"; }

# One run: $1 name, $2 pid, $3 address, $4 kind, $5 body size, $6 exchanges. Prints µs of CPU per exchange.
run() {
  local name=$1 pid=$2 at=$3 kind=$4 size=$5 count=$6 before after out expected data role=()
  [ "$kind" = decision ] || role=(-H 'x-cascade-role: upstream')
  expected=$("$KIT" check "$kind" "$at" "$size" 2>"$work/$name.check") || { cat "$work/$name.check" >&2; return 1; }
  before=$(ticks "$pid")
  out=$(h2load -n "$count" -c "$CLIENTS" -m "$STREAMS" -t 1 -d "$work/$kind.$size.bin" "${role[@]}" \
    -H 'content-type: application/grpc' -H 'te: trailers' \
    "http://$at/envoy.service.ext_proc.v3.ExternalProcessor/Process")
  after=$(ticks "$pid")
  grep -q "$count succeeded, 0 failed, 0 errored" <<<"$out" || { echo "$name: $out" >&2; return 1; }
  # Answers must be real: an error would be headers without data.
  data=$(sed -nE 's/^traffic:.*\(([0-9]+)\) data$/\1/p' <<<"$out")
  awk -v data="$data" -v count="$count" -v expected="$expected" -v name="$name" 'BEGIN {
    average = data / count
    if (average < expected * 0.9 || average > expected * 1.1) {
      printf "%s: %d bytes of answers per exchange instead of %d\n", name, average, expected > "/dev/stderr"; exit 1
    }
  }'
  awk -v ticks=$((after - before)) -v hz="$TICKS" -v count="$count" 'BEGIN {printf "%.2f\n", ticks / hz * 1e6 / count}'
}

median() { sort -n | awk '{v[NR] = $1} END {print (NR % 2) ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }

for point in $POINTS; do
  IFS=: read -r kind size count <<<"$point"
  [[ " ${KINDS:-$kind} " = *" $kind "* ]] || continue
  "$KIT" exchange "$kind" "$size" "$work/$kind.$size.bin"
  : >"$work/base"; : >"$work/name"
  # The first run of each warms up and is not counted.
  for round in $(seq 0 "$ROUNDS"); do
    floor=$(run "$base" "$base_pid" "$base_at" "$kind" "$size" "$count")
    ours=$(run "$name" "$name_pid" "$name_at" "$kind" "$size" "$count")
    [ "$round" -eq 0 ] && continue
    echo "$floor" >>"$work/base"; echo "$ours" >>"$work/name"
    printf '%-8s %7d bytes, round %d: %s %6.2f µs, %s %6.2f µs\n' "$kind" "$size" "$round" "$base" "$floor" "$name" "$ours"
  done
  floor=$(median <"$work/base") ours=$(median <"$work/name")
  awk -v kind="$kind" -v size="$size" -v floor="$floor" -v ours="$ours" -v base="$base" -v name="$name" 'BEGIN {
    printf "%-8s %7d bytes, median:  %s %6.2f µs, %s %6.2f µs, ratio %.3f\n", kind, size, base, floor, name, ours, ours / floor
  }'
done
