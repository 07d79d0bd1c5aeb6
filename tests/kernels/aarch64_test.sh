#!/usr/bin/env bash
# The kernels as NEON computes them: built for 64-bit Arm, compared with the reference under qemu. 77: not here.
#   aarch64_test.sh BUILD_FOLDER
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
for program in aarch64-linux-gnu-g++ qemu-aarch64; do
  command -v "$program" >/dev/null || { echo "SKIPPED: $program is not installed"; exit 77; }
done
for file in cmake/hwy/hwy-config.cmake cmake/GTest/GTestConfig.cmake cmake/absl/abslConfig.cmake; do
  [ -e "/usr/lib/aarch64-linux-gnu/$file" ] || { echo "SKIPPED: no $file for arm64 is installed"; exit 77; }
done
cmake --preset aarch64 -B "$1" >/dev/null
cmake --build "$1" -j 2
ctest --test-dir "$1" -j 2 --output-on-failure --no-tests=error -R "${BATON_AARCH64_TESTS:-Reference|Saturate|Targets}"
