#pragma once

// What a bench is: a name, one question, and a function that measures the answer. catalogue.cc lists them.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/engine/cpu_weights.h"
#include "services/cli/bench/report.h"
#include "services/cli/bench/workload.h"
#include "services/cli/client.h"
#include "services/cli/progress.h"

namespace baton::cli {

struct BenchOptions {
  std::string model;  // path; empty: random weights of `shape`
  std::string shape = "smollm2-135m";
  std::string weights = "auto";  // engine: a list with commas
  int threads = 0;               // 0: one per core
  int repetitions = 3;           // after a warm-up; medians are reported
  uint64_t seed = 1;
  bool quick = false;  // tiny sizes: shows that the bench works, its times mean little
  ConnectionOptions connection;
  bool has_router = false;  // a running deployment was named

  // engine; empty: its own
  std::vector<uint32_t> lengths, depths, batches;
  bool only_stored = false;  // weights as stored in the file alone, not int8 and int4 beside them
  DType kv_dtype = DType::kF16;
  bool steal = false;  // every step once more while another thread takes a core

  // load, disagg: an open loop
  double rate = 0;                                // requests a second; 0: several rates around what the target can do
  uint32_t requests = 0;                          // a rate; 0: by time
  uint32_t prompt_tokens = 0, output_tokens = 0;  // means of what is drawn; 0: the bench's own
  std::string trace;                              // file to replay instead
  double ttft_ms = 500, itl_ms = 100;             // objectives of goodput
};

// What a bench works with. One thread.
class BenchContext {
 public:
  BenchContext(BenchOptions options, std::string name) : options_(std::move(options)), progress_(std::move(name)) {}
  ~BenchContext();  // removes a model that was made

  const BenchOptions& options() const { return options_; }
  template <typename T>
  T Pick(T full, T quick) const {
    return options_.quick ? quick : full;
  }

  // Tells what comes now; `steps` in total may grow.
  void Step(const std::string& now);
  void ExpectSteps(uint64_t steps) { steps_ += steps; }

  // The model's files: the given path, or random weights of the shape in a temporary directory, made once.
  absl::StatusOr<std::string> ModelPath();
  // What --weights names. INVALID_ARGUMENT for an unknown format.
  absl::StatusOr<std::vector<WeightsFormat>> AskedWeights() const;
  // The model's weights packed for this process, once.
  absl::StatusOr<std::shared_ptr<const CpuWeights>> Weights();

  // Settings that every report begins with: machine, model, threads, and what was measured: medians of the repetitions
  // unless told otherwise.
  BenchReport StartReport(std::string name, std::string title, std::string measured = "") const;

 private:
  const BenchOptions options_;
  std::string made_model_;
  std::shared_ptr<const CpuWeights> weights_;
  Progress progress_;
  uint64_t done_ = 0, steps_ = 0;
};

struct Bench {
  enum class Place : uint8_t {
    kInProcess,     // an engine in this process
    kRouterOrOwn,   // a deployment that --router names, else processes of its own
    kOwnProcesses,  // always processes of its own
  };
  std::string_view name;
  std::string_view question;  // one line of the help
  Place place;
  absl::StatusOr<BenchReport> (*run)(BenchContext& context);
};

// In the order of the help.
std::span<const Bench> Benches();

}  // namespace baton::cli
