#!/usr/bin/env bash
# Stops what up.sh started: SIGTERM, so that running work drains, SIGKILL after 40 seconds.
set -euo pipefail
case "${1:-}" in
  "") ;;
  -h|--help) sed -n '2s/^# //p' "${BASH_SOURCE[0]}"; exit 0 ;;
  *) echo "down.sh: takes no arguments, has '$1'" >&2; exit 2 ;;
esac
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
run=$here/../../build/local
. "$here/processes.sh"
for name in router prefill decode; do
  if alive "$name"; then
    pid=$(cat "$run/$name.pid")
    kill -TERM "$pid" 2>/dev/null || true
    for _ in $(seq 1 400); do alive "$name" || break; sleep 0.1; done
    if alive "$name" && kill -KILL "$pid" 2>/dev/null; then echo "down.sh: $name had to be killed" >&2; fi
  fi
  rm -f "$run/$name.pid"
done
rm -f "$run/model"
