#!/usr/bin/env bash
# How large a catalog may be: `check` of one line beside the same with line breaks, the memory of `serve` after the first load and
# after RELOADS further ones, and MILLION tenants in eight files. Linux only (/proc).
#
#   benches/scale.sh                                # 100,000 tenants, 1,000 models, 20 reloads, a release build
#   BIN=target/debug/cascade TENANTS=10000 RELOADS=5 MILLION=0 benches/scale.sh
set -euo pipefail
cd "$(dirname "$0")/.."
TENANTS=${TENANTS:-100000} MODELS=${MODELS:-1000} RELOADS=${RELOADS:-20} MILLION=${MILLION:-1000000}
BIN=${BIN:-target/release/cascade}
[ -x "$BIN" ] || cargo build --release
home=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$home"' EXIT

# generate FORMAT FROM TO LABEL: a catalog with these tenants, as json, line (json without a line break) or yaml.
generate() {
  awk -v format="$1" -v from="$2" -v to="$3" -v label="$4" -v models="$MODELS" 'BEGIN {
    json = format != "yaml"; nl = format == "line" ? "" : "\n"
    head = "\"version\": 1"
    if (label != "") head = head ", \"label\": \"" label "\""
    printf "{%s,%s", head, nl
    if (label != "") {
      printf "\"providers\": {\"p\": {}, \"q\": {}},%s", nl
      printf "\"clusters\": {%s", nl
      for (c = 0; c < 40; c++) printf "%s\"cluster-%d\": {\"provider\": \"%s\", \"tags\": [\"%s\"]}%s", c ? "," : "", c, c % 2 ? "p" : "q", c % 3 ? "eu" : "us", nl
      printf "},%s\"priority_groups\": {%s", nl, nl
      for (g = 0; g < 20; g++) printf "%s\"group-%d\": {\"clusters\": [{\"cluster_name\": \"cluster-%d\", \"weight\": 80}, {\"cluster_name\": \"cluster-%d\", \"weight\": 20}]}%s", g ? "," : "", g, 2 * g, 2 * g + 1, nl
      printf "},%s\"models\": {%s", nl, nl
      for (m = 0; m < models; m++) printf "%s\"model-%d\": {\"aliases\": [\"alias-%d\", \"model-%d-*\"], \"chain\": [\"group-%d\", \"group-%d\", \"group-%d\"]}%s", m ? "," : "", m, m, m, m % 20, (m + 1) % 20, (m + 2) % 20, nl
      printf "},%s\"tiers\": {\"gold\": {}, \"eu\": {\"require_tags\": [\"eu\"], \"chains\": {\"model-1\": [\"group-3\", \"model_chain\"]}}},%s", nl, nl
    }
    printf "\"tenants\": {%s", nl
    for (t = from; t < to; t++) {
      printf "%s\"tenant-%07d\": {\"tier\": \"%s\", \"api_keys\": [\"sha256:%064x\"]", (t > from ? "," : ""), t, t % 4 ? "gold" : "eu", t
      if (t % 10 == 0) printf ", \"denied_models\": [\"model-%d\"]", t % models
      printf "}%s", nl
    }
    printf "}}\n"
  }'
}
seconds() { local from=$EPOCHREALTIME; "$@" >/dev/null; echo "$EPOCHREALTIME $from" | awk '{printf "%.2f", $1 - $2}'; }
megabytes() { awk -v field="$2:" '$1 == field {printf "%.0f", $2 / 1024}' "/proc/$1/status"; }
status() { curl --silent --unix-socket "$home/admin.sock" http://cascade/catalog/status; }
await() { # LABEL
  for _ in $(seq 1200); do
    if status | grep -q "\"label\": *\"$1\""; then return; fi
    kill -0 "$server" || { cat "$home/log"; exit 1; }
    sleep 0.1
  done
  echo "label $1 did not come into use"; status; exit 1
}

generate json 0 "$TENANTS" v0 > "$home/lines.json"
generate line 0 "$TENANTS" v0 > "$home/one.json"
echo "$TENANTS tenants, $MODELS models: $(du -k "$home/one.json" | cut -f1) KiB of JSON"
lines=$(seconds "$BIN" check --catalog "$home/lines.json")
one=$(seconds "$BIN" check --catalog "$home/one.json")
echo "check with line breaks: $lines s; on one line: $one s; ratio $(awk "BEGIN {printf \"%.2f\", $one / $lines}") (at most 1.5)"
rm "$home/lines.json"

mv "$home/one.json" "$home/catalog.json"
CASCADE_CATALOG__SETTLE=50ms CASCADE_CATALOG__SETTLE_LOOSENING=50ms "$BIN" serve --catalog "$home/catalog.json" \
  --listen "unix:$home/grpc.sock" --admin "unix:$home/admin.sock" 2> "$home/log" &
server=$!
await v0
sleep 2
first=$(megabytes $server VmRSS)
echo "serve: resident $first MB after the first load, $(megabytes $server VmHWM) MB at its highest"
most=0
for round in $(seq "$RELOADS"); do
  generate line 0 "$TENANTS" "v$round" > "$home/.next"
  mv "$home/.next" "$home/catalog.json"
  await "v$round"
  sleep 1
  now=$(megabytes $server VmRSS)
  [ "$now" -le "$most" ] || most=$now
done
sleep 2
last=$(megabytes $server VmRSS)
echo "after $RELOADS reloads: resident $last MB (most $most MB between them), $(megabytes $server VmHWM) MB at its highest; ratio $(awk "BEGIN {printf \"%.2f\", $last / $first}") (at most 1.3; at most 300 MB)"
kill $server; wait $server || true; server=

if [ "$MILLION" -gt 0 ]; then
  mkdir "$home/million"
  part=$((MILLION / 8))
  for file in 0 1 2 3 4 5 6 7; do
    generate line $((file * part)) $(((file + 1) * part)) "$([ $file -gt 0 ] || echo million)" > "$home/million/$file.json"
  done
  echo "$MILLION tenants in eight files: $(du -mc "$home"/million/* | tail -1 | cut -f1) MiB"
  "$BIN" check --catalog "$home/million" > "$home/out" 2>&1 &
  checker=$!
  high=0 from=$EPOCHREALTIME
  while kill -0 $checker 2>/dev/null; do
    now=$(megabytes $checker VmHWM 2>/dev/null || echo 0)
    [ "${now:-0}" -le "$high" ] || high=$now
    sleep 0.2
  done
  code=0; wait $checker || code=$?
  echo "check: exit $code after $(echo "$EPOCHREALTIME $from" | awk '{printf "%.1f", $1 - $2}') s, $high MB at its highest: $(tail -1 "$home/out")"
fi
