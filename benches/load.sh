#!/usr/bin/env bash
# CPU microseconds per exchange of `cascade serve`, beside those of examples/noop.rs (a processor that does nothing), taken in turns
# on this machine under h2load: one gRPC stream per exchange with the two messages of BUFFERED. Prints each round, then the medians
# of the times and of the rounds' ratios. The catalog has 1,000 models and 10,000 tenants. Measured are a decision (1 KB, 100 KB) and an attempt in the
# upstream role: one whose model is renamed in the body (1 KB, 100 KB), and one that leaves the body with Envoy (headers alone).
#
#   benches/load.sh [ROUNDS]            default 3
#   benches/load.sh sessions [ROUNDS]   what a session costs whose placement is cached (default 80, two minutes): the same requests to three
#                                       `cascade serve`: two without a session directory, to see how far measurements of the same
#                                       thing differ, and one with (over HTTP, asked once)
#   CASCADE="path/to/cascade" benches/load.sh    measures another binary
#   KINDS="rename leave" benches/load.sh         measures these alone
set -euo pipefail
cd "$(dirname "$0")/.."

MODE=decisions ROUNDS=3
if [ "${1:-}" = sessions ]; then MODE=sessions ROUNDS=80; shift; fi
ROUNDS=${1:-$ROUNDS}
CLIENTS=4 STREAMS=32

command -v h2load >/dev/null || { echo "h2load is missing: apt-get install -y nghttp2-client" >&2; exit 2; }
cargo build --release --quiet --bin cascade --example noop --example load_kit --example session_directory
CASCADE=${CASCADE:-target/release/cascade}
NOOP=target/release/examples/noop
KIT=target/release/examples/load_kit

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

names=() pids_of=() addresses=() times=()
# $1 is measured from now on: process $2, which says in the log $3 where it listens. The first one is what the others are compared with.
takes_part() {
  local at
  at=$(address_of "$2" "$3")
  names+=("$1") pids_of+=("$2") addresses+=("$at")
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
  "$NOOP" 127.0.0.1:0 2>"$work/noop.log" & pids+=($!)
  takes_part noop ${pids[-1]} "$work/noop.log"
  takes_part cascade "$cascade_pid" "$work/cascade.log"
  ;;
sessions)
  POINTS="decision:1024:30000"
  takes_part "no session" "$cascade_pid" "$work/cascade.log"
  # The same once more: what its ratio differs from 1 is what this measurement cannot tell.
  serve "$work/cascade.yaml" "$work/again.log"; takes_part "no session, again" ${pids[-1]} "$work/again.log"
  target/release/examples/session_directory 127.0.0.1:0 >"$work/directory.log" & pids+=($!)
  until directory=$(grep -oE 'http://127\.0\.0\.1:[0-9]+' "$work/directory.log"); do sleep 0.1; done
  # The placement takes the cluster of the first group that has the smaller share: the chain becomes longer by a group.
  key=s/tenant-05500/model-0500/7c0cb6b2-52ff-4b8e-9a4b-1b1a2a0d6f10
  curl --silent --fail -X PUT "$directory/$key" -d '{"selected_backend":"cluster_01"}'
  { cat "$work/cascade.yaml"; echo "session: {directory: http, ttl: 1h, url: \"$directory/s/{tenant}/{model}/{session}\"}"; } \
    >"$work/sessions.yaml"
  serve "$work/sessions.yaml" "$work/sessions.log"; takes_part "cached session" ${pids[-1]} "$work/sessions.log"
  # The first one asks the directory; another one must find the answer.
  admin=$(grep -oE 'listening for admin on [0-9.:]+' "$work/sessions.log" | grep -oE '[0-9.]+:[0-9]+$')
  for try in $(seq 20); do
    "$KIT" check decision "${addresses[-1]}" 1024 >/dev/null 2>&1
    curl --silent "http://$admin/metrics" | grep -qE 'cascade_session_lookups_total\{result="placed"\} [2-9]' && break
    [ "$try" -lt 20 ] || { echo "the session is not placed" >&2; cat "$work/sessions.log" >&2; exit 1; }
  done
  ;;
esac
echo "cascade: $(cat "$work/size") bytes of answers per exchange; $(cat "$work/check")"

# Nanoseconds of CPU that the process has had.
cpu() { awk '{sum += $1} END {printf "%.0f\n", sum}' "/proc/$1/task"/*/schedstat; }

# One run: $1 name, $2 pid, $3 address, $4 kind, $5 body size, $6 exchanges. Prints µs of CPU per exchange.
run() {
  local name=$1 pid=$2 at=$3 kind=$4 size=$5 count=$6 before after out expected data role=()
  [ "$kind" = decision ] || role=(-H 'x-cascade-role: upstream')
  expected=$("$KIT" check "$kind" "$at" "$size" 2>"$work/check") || { cat "$work/check" >&2; return 1; }
  before=$(cpu "$pid")
  out=$(h2load -n "$count" -c "$CLIENTS" -m "$STREAMS" -t 1 -d "$work/$kind.$size.bin" "${role[@]}" \
    -H 'content-type: application/grpc' -H 'te: trailers' \
    "http://$at/envoy.service.ext_proc.v3.ExternalProcessor/Process")
  after=$(cpu "$pid")
  grep -q "$count succeeded, 0 failed, 0 errored" <<<"$out" || { echo "$name: $out" >&2; return 1; }
  # Answers must be real: an error would be headers without data.
  data=$(sed -nE 's/^traffic:.*\(([0-9]+)\) data$/\1/p' <<<"$out")
  awk -v data="$data" -v count="$count" -v expected="$expected" -v name="$name" 'BEGIN {
    average = data / count
    if (average < expected * 0.9 || average > expected * 1.1) {
      printf "%s: %d bytes of answers per exchange instead of %d\n", name, average, expected > "/dev/stderr"; exit 1
    }
  }'
  awk -v time=$((after - before)) -v count="$count" 'BEGIN {printf "%.2f\n", time / 1000 / count}'
}

median() { sort -n | awk '{v[NR] = $1} END {print (NR % 2) ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }

for point in $POINTS; do
  IFS=: read -r kind size count <<<"$point"
  [[ " ${KINDS:-$kind} " = *" $kind "* ]] || continue
  "$KIT" exchange "$kind" "$size" "$work/$kind.$size.bin"
  rm -f "$work"/times.*
  # The first run of each warms up and is not counted. Who begins changes from round to round, so that nobody always has the
  # better place; ratios are taken within a round, whose runs see the same machine.
  for round in $(seq 0 "$ROUNDS"); do
    line=
    for turn in "${!names[@]}"; do
      who=$(((turn + round) % ${#names[@]}))
      times[who]=$(run "${names[who]}" "${pids_of[who]}" "${addresses[who]}" "$kind" "$size" "$count")
    done
    [ "$round" -eq 0 ] && continue
    for who in "${!names[@]}"; do
      echo "${times[who]}" >>"$work/times.$who"
      awk -v time="${times[who]}" -v floor="${times[0]}" 'BEGIN {print time / floor}' >>"$work/times.$who.ratio"
      line+=$(printf ', %s %6.2f µs' "${names[who]}" "${times[who]}")
    done
    printf '%-8s %7d bytes, round %d%s\n' "$kind" "$size" "$round" "$line"
  done
  for who in "${!names[@]}"; do
    printf '%-8s %7d bytes, median: %-18s %6.2f µs, %.3f of %s\n' "$kind" "$size" "${names[who]}" \
      "$(median <"$work/times.$who")" "$(median <"$work/times.$who.ratio")" "${names[0]}"
  done
done
