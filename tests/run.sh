#!/usr/bin/env bash
# Installs what the tests need, builds everything and runs all tests; ends with ctest's summary.
#   run.sh [--preset cpu|asan|tsan] [ctest arguments...]       e.g. run.sh -L unit
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=cpu
if [ "${1:-}" = --preset ]; then preset=$2; shift 2; fi
deploy/local/install-deps.sh test
cmake --preset "$preset"
cmake --build --preset "$preset"
# UCX's memory hooks are what ThreadSanitizer cannot follow.
[ "$preset" != tsan ] || export UCX_MEM_EVENTS=n
ctest --preset "$preset" -j "$(nproc)" "$@"
