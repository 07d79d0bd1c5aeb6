// Speed of the CPU kernels on the shapes of Qwen2.5-0.5B. BATON_BENCH_TARGETS=AVX2 keeps to that SIMD target.

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "hwy/targets.h"
#include "kernels/attention.h"
#include "kernels/linear.h"
#include "kernels/rms_norm.h"
#include "kernels/swiglu.h"
#include "tests/bench/simd_target.h"

namespace baton {
namespace {

std::vector<int64_t> QuantizedFormats() {
  return {static_cast<int64_t>(DType::kQ8_0), static_cast<int64_t>(DType::kQ4_0), static_cast<int64_t>(DType::kQ4_1)};
}

// args: threads, rows, outputs, inputs, dtype
void BM_Linear(benchmark::State& state) {
  ThreadPool pool(static_cast<int>(state.range(0)));
  const int64_t rows = state.range(1), outputs = state.range(2), inputs = state.range(3);
  cpu::PanelMatrix matrix{static_cast<DType>(state.range(4)), outputs, inputs, nullptr};
  AlignedBuffer memory(matrix.bytes());
  matrix.data = memory.data();
  std::memset(memory.data(), 0x3c, matrix.bytes());
  const AlignedBuffer x = ZeroedFloats(rows * inputs), y = ZeroedFloats(rows * cpu::PaddedToPanel(outputs));
  const cpu::LinearWorkspace workspace(rows, inputs, pool.threads());
  for (auto _ : state) {
    cpu::Linear(matrix, nullptr, x.floats(), inputs, rows, y.floats(), cpu::PaddedToPanel(outputs), workspace, pool);
  }
  state.counters["GFLOP/s"] = benchmark::Counter(2e-9 * static_cast<double>(rows * outputs * inputs),
                                                 benchmark::Counter::kIsIterationInvariantRate);
  state.counters["GB/s"] =
      benchmark::Counter(1e-9 * static_cast<double>(matrix.bytes()), benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(BM_Linear)
    ->UseRealTime()
    ->ArgNames({"threads", "rows", "outputs", "inputs", "dtype"})
    ->ArgsProduct({{1, 2}, {1, 4, 16, 512}, {9728}, {896}, {static_cast<int64_t>(DType::kBF16)}})
    ->ArgsProduct({{1, 2}, {1, 4, 16, 512}, {896}, {4864}, {static_cast<int64_t>(DType::kBF16)}})
    ->ArgsProduct({{1, 2}, {1}, {151936}, {896}, {static_cast<int64_t>(DType::kBF16)}})
    ->ArgsProduct({{2}, {1, 512}, {9728}, {896}, {static_cast<int64_t>(DType::kF32)}})
    ->ArgsProduct({{2}, {1, 512}, {9728}, {896}, {static_cast<int64_t>(DType::kF16)}})
    ->ArgsProduct({{1, 2}, {1, 2, 4, 8, 16, 512}, {9728}, {896}, QuantizedFormats()})
    ->ArgsProduct({{1, 2}, {1, 8, 16, 512}, {896}, {4864}, QuantizedFormats()})
    ->ArgsProduct({{1, 2}, {1, 8, 16}, {151936}, {896}, QuantizedFormats()});

// args: threads, queries, position, KV format; 14 query heads, 2 kv heads of 64. As many layers as exceed the caches.
void BM_Attention(benchmark::State& state) {
  constexpr int64_t kLayers = 24;
  ThreadPool pool(static_cast<int>(state.range(0)));
  const int64_t queries = state.range(1), position = state.range(2), blocks = (position + queries + 15) / 16;
  const auto dtype = static_cast<DType>(state.range(3));
  const int64_t head_stride = static_cast<int64_t>(BytesOf(dtype, 16 * 64)) + (dtype == DType::kI8 ? 64 : 0);
  const cpu::AttentionShape shape{dtype, 14, 2, 64, 16, head_stride, kLayers * 4 * head_stride, 0.125f, 0};
  const AlignedBuffer kv = ZeroedFloats(blocks * shape.block_stride / 4);
  std::vector<BlockId> table(blocks);
  for (int64_t i = 0; i < blocks; ++i) table[i] = static_cast<BlockId>(i);
  const AlignedBuffer q = ZeroedFloats(queries * 14 * 64), out = ZeroedFloats(queries * 14 * 64);
  const cpu::AttentionSequence sequence{0, queries, position, table};
  cpu::AttentionWorkspace workspace(pool.threads(), 1);
  int64_t layer = 0;
  for (auto _ : state) {
    const std::byte* keys = kv.data() + layer * 4 * head_stride;
    cpu::Attention(shape, {&sequence, 1}, keys, keys + 2 * head_stride, q.floats(), 14 * 64, out.floats(), 14 * 64,
                   workspace, pool);
    layer = (layer + 1) % kLayers;
  }
  const double pairs = static_cast<double>(queries) * (static_cast<double>(position) + 0.5 * (queries + 1));
  state.counters["GFLOP/s"] = benchmark::Counter(4e-9 * 14 * 64 * pairs, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["GB/s"] = benchmark::Counter(1e-9 * 4 / 16 * static_cast<double>(head_stride * (position + queries)),
                                              benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(BM_Attention)
    ->UseRealTime()
    ->ArgNames({"threads", "queries", "position", "kv"})
    ->ArgsProduct({{1, 2}, {512}, {0, 512, 3584}, {static_cast<int64_t>(DType::kBF16)}})
    ->ArgsProduct({{1, 2},
                   {1},
                   {48, 1024, 4096},
                   {static_cast<int64_t>(DType::kBF16), static_cast<int64_t>(DType::kF16),
                    static_cast<int64_t>(DType::kI8)}});

void BM_SwiGlu(benchmark::State& state) {
  const AlignedBuffer gate_up = ZeroedFloats(2 * 4864), out = ZeroedFloats(4864);
  for (auto _ : state) cpu::SwiGlu(gate_up.floats(), gate_up.floats() + 4864, 4864, out.floats());
}
BENCHMARK(BM_SwiGlu);

void BM_AddRmsNorm(benchmark::State& state) {
  const AlignedBuffer hidden = ZeroedFloats(896), delta = ZeroedFloats(896), weight = ZeroedFloats(896),
                      out = ZeroedFloats(896);
  for (auto _ : state) {
    cpu::AddRmsNorm(hidden.floats(), delta.floats(), 896, weight.floats(), 1e-6f, 1, 896, out.floats());
  }
}
BENCHMARK(BM_AddRmsNorm);

void BM_EmptyRun(benchmark::State& state) {
  ThreadPool pool(static_cast<int>(state.range(0)));
  for (auto _ : state) pool.Run(pool.threads(), [](int64_t, int) {});
}
BENCHMARK(BM_EmptyRun)->UseRealTime()->Arg(1)->Arg(2);

}  // namespace
}  // namespace baton

int main(int argc, char** argv) {
  baton::KeepToSimdTargetOfEnvironment();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
