#!/usr/bin/env bash
# Proves the CUDA engine on the GPU of this machine and measures it, in under 8 minutes: correctness, handoffs, the table.
#
#   run.sh [--arch sm_90] [--out FOLDER] [--models NAME,...]
#
# It runs the programs that lie beside it (a bundle, see README.md); from a checkout it builds that bundle for the GPU at hand,
# or for --arch, then also where no GPU is, installing what is missing where it may. FOLDER (default: gpu-results) gets
# records.jsonl, which grows while the run goes on, report.json, report.txt and a log of each step. Models are shapes with random
# weights.
#
# Exit status: 0 all results are right; 1 some are not, or a step did not end; 2 wrong arguments, or no programs and no way to
# build them; 77 no CUDA device. Missed targets of speed are printed and change nothing.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
arch='' out=gpu-results models=qwen2.5-0.5b,qwen2.5-1.5b,qwen2.5-7b
while [ $# -gt 0 ]; do
  case "$1" in
    --arch) arch=${2:?--arch needs a value} && shift 2 ;;
    --out) out=${2:?--out needs a value} && shift 2 ;;
    --models) models=${2:?--models needs a value} && shift 2 ;;
    --help | -h) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}" && exit 0 ;;
    *) echo "run.sh: unknown argument '$1'" >&2 && exit 2 ;;
  esac
done
started=$(date +%s)
budget=${BATON_GPU_BUDGET:-465}  # seconds for everything but a build

if [ -x "$here/gpu_bench" ]; then
  bin=$here
else
  root=$(cd "$here/../.." && pwd) bin=$(cd "$here/../.." && pwd)/build/gpu/bundle
  if [ -z "$arch" ]; then
    # Said before minutes of a build, not after them.
    if ! nvidia-smi -L >/dev/null 2>&1 && [ ! -e /dev/nvidia0 ]; then
      echo "no CUDA device: neither nvidia-smi nor /dev/nvidia0 shows one; --arch builds all the same"
      exit 77
    fi
    capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1)
    arch=sm_${capability//./}
    [ "$arch" != sm_ ] || arch=sm_90
  fi
  echo "== building for $arch"
  if ! command -v cmake >/dev/null || ! command -v ninja >/dev/null || ! command -v nvcc >/dev/null; then
    "$root/deploy/local/install-deps.sh" build || { echo "run.sh: no programs beside it, and nothing to build them with" >&2; exit 2; }
  fi
  (cd "$root" && cmake --preset gpu "-DCMAKE_CUDA_ARCHITECTURES=${arch#sm_}-real" && cmake --build --preset gpu) >&2 ||
    { echo "run.sh: the build failed" >&2; exit 2; }
  started=$(date +%s)
fi
mkdir -p "$out" || exit 2
out=$(cd "$out" && pwd)
records=$out/records.jsonl

# CUDA's libraries lie where the toolkit or PyTorch put them.
libraries=$(
  ls -d /usr/local/cuda/lib64 /usr/local/cuda-*/lib64 2>/dev/null
  for python in python3 /opt/torch/.venv/bin/python3; do
    command -v "$python" >/dev/null || continue
    site=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])' 2>/dev/null) || continue
    ls -d "$site"/nvidia/*/lib 2>/dev/null
  done
)
callers_libraries=${LD_LIBRARY_PATH:-}
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$(tr '\n' ':' <<<"$libraries")

left() { echo $((budget - ($(date +%s) - started))); }

failures=0
note() {  # NAME RESULT SECONDS
  printf '{"measure": "step", "name": "%s", "result": "%s", "seconds": %s}\n' "$@" >>"$records"
  printf '== %-28s %s (%s s)\n' "$@"
}

# step NAME SECONDS CRITICAL COMMAND...: runs it, but not longer, with its output in NAME.log. A program that does not even die is
# left behind. CRITICAL: yes, or no where the outcome says nothing about what is right.
step() {
  local name=$1 limit=$2 critical=$3 begin result status pid
  shift 3
  [ "$limit" -le "$(left)" ] || limit=$(left)
  if [ "$limit" -lt 5 ]; then
    note "$name" "no time left" 0
    [ "$critical" = no ] || failures=$((failures + 1))
    return
  fi
  begin=$(date +%s)
  "$@" >"$out/$name.log" 2>&1 &
  pid=$!
  while kill -0 "$pid" 2>/dev/null && [ $(($(date +%s) - begin)) -lt "$limit" ]; do sleep 0.2; done
  if kill -0 "$pid" 2>/dev/null; then
    kill -9 "$pid" 2>/dev/null
    result="timed out" status=1
  else
    wait "$pid"
    status=$?
    case $status in
      0) result=passed && ! grep -q '^\[  SKIPPED \]' "$out/$name.log" || result='passed, some skipped' ;;
      77) result=skipped status=0 ;;
      *) result="failed with $status" ;;
    esac
  fi
  note "$name" "$result" $(($(date +%s) - begin))
  if [ "$status" -ne 0 ]; then
    tail -n 15 "$out/$name.log"
    [ "$critical" = no ] || failures=$((failures + 1))
  fi
  report >/dev/null
}

report() { "$bin/gpu_report" "$records" "$out/report.json" 2>/dev/null | tee "$out/report.txt"; }

# Nothing else is worth trying without a device, or where it does not run what was built.
timeout -k 5 60 "$bin/gpu_bench" --records /dev/null --measures device >"$out/device.log" 2>&1
case $? in
  0) ;;
  77) sed 's/^gpu_bench: //' "$out/device.log" && exit 77 ;;
  124 | 137) echo "run.sh: the device did not answer within a minute" >&2 && exit 1 ;;
  *) cat "$out/device.log" >&2 && exit 1 ;;
esac
: >"$records" || exit 2  # not sooner: those of an earlier run stay where this one measures nothing

export BATON_TEST_SEED=${BATON_TEST_SEED:-$((RANDOM * 32768 + RANDOM))}
export BATON_DEMO_MODEL=$bin/demo
[ -d "$BATON_DEMO_MODEL" ] || unset BATON_DEMO_MODEL
echo "== seed $BATON_TEST_SEED (BATON_TEST_SEED gives the same inputs again), results in $out"

IFS=, read -r -a models <<<"$models"
small=${models[0]} large=${models[-1]}
# Other sizes are for trying this script out.
read -r -a sizes <<<"${BATON_GPU_SIZES:---batches 1,8,32,128 --lengths 512,2048,8192}"

step ceilings 40 yes "$bin/gpu_bench" --records "$records" "${sizes[@]}" --measures ceilings
step kernels 90 yes "$bin/gpu_kernels_test"
step runner 60 yes "$bin/gpu_runner_test"
for model in "${models[@]}"; do
  # The CPU's engine would need minutes for the largest.
  filter=$([ "$model" != qwen2.5-7b ] || echo '--gtest_filter=-*Cpus*')
  step "engine-$model" 60 yes env "BATON_GPU_MODEL=$model" "$bin/gpu_models_test" $filter
done
step staged-handoff 40 yes env "BATON_GPU_MODEL=$small" "$bin/gpu_staged_handoff_test"
step nccl-handoff 40 yes env "BATON_GPU_MODEL=$small" "$bin/gpu_nccl_handoff_test"
for model in "${models[@]}"; do
  step "bench-$model" 75 yes "$bin/gpu_bench" --records "$records" --model "$model" "${sizes[@]}" --measures decode,prefill,blocks
done
for python in python3 /opt/torch/.venv/bin/python3; do
  command -v "$python" >/dev/null && timeout 60 "$python" -c 'import torch, transformers' 2>/dev/null || continue
  for model in "$small" "$large"; do
    # With the libraries that torch brings, not those that the programs above take.
    step "transformers-$model" 70 no env "LD_LIBRARY_PATH=$callers_libraries" "$python" "$here/transformers_baseline.py" --model "$model" --records "$records"
  done
  break
done

echo
report
echo
echo "seed $BATON_TEST_SEED, $(($(date +%s) - started)) s"
[ "$failures" -eq 0 ] || echo "$failures steps did not pass"
[ "$failures" -eq 0 ]
