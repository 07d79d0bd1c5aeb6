#include <array>

#include "services/cli/bench/benches.h"

namespace baton::cli {
namespace {

constexpr auto kHere = Bench::Place::kInProcess;
constexpr auto kRouter = Bench::Place::kRouterOrOwn;
constexpr auto kOwn = Bench::Place::kOwnProcesses;

constexpr std::array kBenches = {
    Bench{"engine", "prefill and decode by length, batch and weights, beside the machine's ceilings", kHere, RunEngine},
    Bench{"kv-cache", "time of a token with and without KV cache", kHere, RunKvCache},
    Bench{"batching", "static, dynamic and continuous batching; one by one against together", kHere, RunBatching},
    Bench{"paging", "KV memory reserved for the longest answer against blocks", kHere, RunPaging},
    Bench{"prefix", "prefix cache: a shared system prompt, a conversation", kHere, RunPrefix},
    Bench{"chunked", "what streams feel while a long prompt is read, whole or in chunks", kHere, RunChunked},
    Bench{"streaming", "when an answer becomes visible: blocking against streaming", kRouter, RunStreaming},
    Bench{"handoff", "what moving KV costs, by length and transport", kRouter, RunHandoff},
    Bench{"load", "latency and goodput under an open load", kRouter, RunLoad},
    Bench{"disagg", "prefill and decode together against apart, on the same cores", kOwn, RunDisagg},
};

}  // namespace

std::span<const Bench> Benches() { return kBenches; }

}  // namespace baton::cli
