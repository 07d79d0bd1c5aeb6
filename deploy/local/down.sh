#!/usr/bin/env bash
# Stops what up.sh started: SIGTERM, so that running work drains, SIGKILL after 40 seconds.
set -euo pipefail
case "${1:-}" in
  "") ;;
  -h|--help) sed -n '2s/^# //p' "${BASH_SOURCE[0]}"; exit 0 ;;
  *) echo "down.sh: takes no arguments, has '$1'" >&2; exit 2 ;;
esac
run=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/build/local
for name in router prefill decode; do
  [ -f "$run/$name.pid" ] || continue
  pid=$(cat "$run/$name.pid")
  rm -f "$run/$name.pid"
  grep -qs "baton-$name" "/proc/$pid/cmdline" || continue  # the number belongs to another process now
  kill -TERM "$pid" 2>/dev/null || continue
  for _ in $(seq 1 400); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
  if kill -KILL "$pid" 2>/dev/null; then echo "down.sh: $name had to be killed" >&2; fi
done
rm -f "$run/model"
