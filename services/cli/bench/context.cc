#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <sstream>

#include "common/base/status.h"
#include "common/engine/cpu_runner.h"
#include "common/model/make_model.h"
#include "common/model/shapes.h"
#include "services/cli/bench/bench.h"
#include "services/cli/bench/machine.h"

namespace baton::cli {

BenchContext::~BenchContext() {
  std::error_code ignored;
  if (!made_model_.empty()) std::filesystem::remove_all(made_model_, ignored);
}

void BenchContext::Step(const std::string& now) {
  progress_.ShowSteps(done_, std::max(done_ + 1, steps_), now);
  ++done_;
}

absl::StatusOr<std::string> BenchContext::ModelPath() {
  if (!options_.model.empty()) return options_.model;
  if (!made_model_.empty()) return made_model_;
  BATON_ASSIGN_OR_RETURN(const model::ModelConfig config, model::FindShape(options_.shape));
  std::error_code error;
  std::string path = (std::filesystem::temp_directory_path(error) / "baton-bench-XXXXXX").string();
  if (error || mkdtemp(path.data()) == nullptr) return Unavailable("no temporary directory can be made at %s", path);
  made_model_ = path;
  BATON_RETURN_IF_ERROR(model::MakeModel(config, {.seed = options_.seed}, path,
                                         [&](uint64_t done, uint64_t total) { progress_.ShowBytes(done, total); }));
  return path;
}

absl::StatusOr<std::vector<WeightsFormat>> BenchContext::AskedWeights() const {
  std::vector<WeightsFormat> asked;
  std::istringstream names(options_.weights);
  for (std::string name; std::getline(names, name, ',');) {
    const auto* const format = std::find_if(std::begin(kWeightsFormats), std::end(kWeightsFormats),
                                            [&](WeightsFormat f) { return WeightsFormatName(f) == name; });
    if (format == std::end(kWeightsFormats)) {
      return InvalidArgument("--weights has '%s', must be auto, f32, bf16, f16, int8 or int4", name);
    }
    asked.push_back(*format);
  }
  if (asked.empty()) return InvalidArgument("--weights is empty, must be auto, f32, bf16, f16, int8 or int4");
  return asked;
}

absl::StatusOr<std::shared_ptr<const CpuWeights>> BenchContext::Weights() {
  if (weights_) return weights_;
  BATON_ASSIGN_OR_RETURN(const std::string path, ModelPath());
  BATON_ASSIGN_OR_RETURN(const std::vector<WeightsFormat> formats, AskedWeights());
  if (formats.size() != 1) return InvalidArgument("--weights names %d formats; this bench takes one", formats.size());
  BATON_ASSIGN_OR_RETURN(const auto model, model::LoadModel(path));
  BATON_ASSIGN_OR_RETURN(weights_,
                         PackCpuWeights(*model, formats.front(), options_.threads,
                                        [&](uint64_t done, uint64_t total) { progress_.ShowBytes(done, total); }));
  return weights_;
}

BenchReport BenchContext::StartReport(std::string name, std::string title, std::string measured) const {
  if (measured.empty()) measured = absl::StrFormat("median of %d after a warm-up", options_.repetitions);
  BenchReport report{.name = std::move(name), .title = std::move(title)};
  const auto set = [&](std::string key, std::string value) {
    report.settings.emplace_back(std::move(key), std::move(value));
  };
  set("machine", MachineLine());
  if (options_.has_router) {
    set("router", options_.connection.router);
  } else {
    set("model", options_.model.empty() ? options_.shape + ", random bf16 weights" : options_.model);
    set("weights", options_.weights);
    set("threads", options_.threads == 0 ? "one a core" : std::to_string(options_.threads));
  }
  set("measured", absl::StrFormat("%s, seed %d%s", measured, options_.seed,
                                  options_.quick ? "; --quick: the times mean little" : ""));
  return report;
}

}  // namespace baton::cli
