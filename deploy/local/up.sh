#!/usr/bin/env bash
# Installs what is missing, builds, starts router + prefill + decode on this machine, asks a question and prints the stream.
#   up.sh [--model demo|smollm2|PATH|HUB/REPOSITORY] [--question TEXT] [--port PORT] [--disaggregation always|auto|never]
# The processes keep running; down.sh stops them. A second run uses what is there.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$root"

model=demo question="" port=8100 disaggregation=always
while [ $# -gt 0 ]; do
  case "$1" in
    --model|--question|--port|--disaggregation) [ $# -ge 2 ] || { echo "up.sh: $1 needs a value (--help)" >&2; exit 2; } ;;&
    --model) model=$2; shift 2 ;;
    --question) question=$2; shift 2 ;;
    --port) port=$2; shift 2 ;;
    --disaggregation) disaggregation=$2; shift 2 ;;
    -h|--help) sed -n '2,4s/^# //p' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) echo "up.sh: unknown argument '$1' (--help)" >&2; exit 2 ;;
  esac
done
# The programs take five more ports above it: two beside it, three for metrics.
if ! [[ $port =~ ^[0-9]{1,5}$ ]] || ((10#$port < 1 || 10#$port > 65523)); then
  echo "up.sh: --port is '$port', must be 1 to 65523" >&2; exit 2
fi
case "$disaggregation" in
  always|auto|never) ;;
  *) echo "up.sh: --disaggregation is '$disaggregation', must be always, auto or never" >&2; exit 2 ;;
esac

step() { printf '\033[1m== %s\033[0m\n' "$*" >&2; }

step "installing packages"
deploy/local/install-deps.sh build
step "building"
[ -f build/cpu/build.ninja ] || cmake --preset cpu >build-configure.log 2>&1 || { cat build-configure.log >&2; exit 1; }
rm -f build-configure.log
cmake --build --preset cpu --target baton-router baton-prefill baton-decode baton

case "$model" in
  demo) path=$root/deploy/models/demo; kv_gib=0.25; question=${question:-What is a KV block?} ;;
  *)
    if [ -e "$model" ]; then path=$(realpath "$model"); else path=$(deploy/local/get-model.sh "$model" | tail -n 1); fi
    kv_gib=1; question=${question:-Why is the sky blue? Answer in two sentences.} ;;
esac

run=$root/build/local
bin=$root/build/cpu/bin
mkdir -p "$run"
prefill_port=$((port + 1)) decode_port=$((port + 2))
. deploy/local/processes.sh

# What runs is kept only if it is what was asked for, and of this build.
wanted="$path $port $disaggregation $(stat -c %Y "$bin"/baton-{router,prefill,decode} | xargs)"
if [ "$(cat "$run/model" 2>/dev/null)" != "$wanted" ]; then deploy/local/down.sh; fi
echo "$wanted" >"$run/model"

start() {  # name program flags...
  local name=$1; shift
  if alive "$name"; then return; fi
  setsid "$bin/$1" "${@:2}" >"$run/$name.log" 2>&1 </dev/null &
  echo $! >"$run/$name.pid"
}
step "starting router, prefill and decode with $path"
start prefill baton-prefill --model "$path" --port "$prefill_port" --metrics_port $((port + 11)) --kv_gib "$kv_gib"
start decode baton-decode --model "$path" --port "$decode_port" --metrics_port $((port + 12)) --kv_gib "$kv_gib"
start router baton-router --port "$port" --metrics_port $((port + 10)) --disaggregation "$disaggregation" \
  --workers "127.0.0.1:$prefill_port,127.0.0.1:$decode_port"

wait_ready() {
  for _ in $(seq 1 1200); do
    for name in prefill decode router; do
      alive "$name" || { echo "up.sh: $name has stopped:" >&2; tail -n 5 "$run/$name.log" >&2; exit 1; }
    done
    # Somebody else's router may answer on the port.
    grep -q '"message":"listening"' "$run/router.log" || { sleep 0.25; continue; }
    if "$bin/baton" models --router "127.0.0.1:$port" --json 2>/dev/null | grep '"ready":true' | grep -q '"prefill_workers":[1-9]'; then return; fi
    sleep 0.25
  done
  echo "up.sh: not ready after 5 minutes; logs are in $run" >&2; exit 1
}
wait_ready

step "asking: $question"
"$bin/baton" generate --router "127.0.0.1:$port" --chat --temperature 0 --stats "$question"

cat >&2 <<EOF

router   gRPC 127.0.0.1:$port          metrics http://127.0.0.1:$((port + 10))/metrics
prefill  gRPC 127.0.0.1:$prefill_port          metrics http://127.0.0.1:$((port + 11))/metrics
decode   gRPC 127.0.0.1:$decode_port          metrics http://127.0.0.1:$((port + 12))/metrics
logs     $run/*.log
try      build/cpu/bin/baton chat --router 127.0.0.1:$port
         build/cpu/bin/baton top --router 127.0.0.1:$port
stop     deploy/local/down.sh
EOF
