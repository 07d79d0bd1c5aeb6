#include "common/engine/catalogue.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/engine/cpu_engine.h"
#ifdef BATON_WITH_CUDA
#include "common/engine/cuda_engine.h"
#endif

namespace baton {
namespace {

struct Entry {
  const char* name;
  // Null: not in this build.
  absl::Status (*check)(const ComputeOptions& options);
  absl::StatusOr<ComputeModel> (*load)(std::shared_ptr<const model::Model> model, const ComputeOptions& options,
                                       KvTransport& transport, const WeightsProgress& progress);
};

constexpr Entry kEngines[] = {
    {"cpu", CheckCpuEngine, LoadOnCpu},
#ifdef BATON_WITH_CUDA
    {"cuda", CheckCudaEngine, LoadOnCuda},
#else
    {"cuda", nullptr, nullptr},
#endif
};

absl::StatusOr<const Entry*> Find(const std::string& name) {
  std::string built_in;
  for (const Entry& entry : kEngines) {
    if (entry.load != nullptr) built_in += (built_in.empty() ? "" : ", ") + std::string(entry.name);
  }
  for (const Entry& entry : kEngines) {
    if (name != entry.name) continue;
    if (entry.load != nullptr) return &entry;
    return FailedPrecondition(
        "this build is without engine %s: what it needs was not found when it was configured; it has %s", name,
        built_in);
  }
  return InvalidArgument("unknown engine \"%s\"; this build has %s", name, built_in);
}

}  // namespace

absl::Status RefuseGiven(const ComputeOptions& options, std::string_view owner,
                         std::initializer_list<std::string_view> flags) {
  for (const std::string_view flag : flags) {
    if (std::ranges::find(options.given, flag) == options.given.end()) continue;
    return InvalidArgument("--%s is set; only engine %s takes it, and this is engine %s", flag, owner, options.engine);
  }
  return absl::OkStatus();
}

std::vector<std::string> EngineNames() {
  std::vector<std::string> names;
  for (const Entry& entry : kEngines) names.emplace_back(entry.name);
  return names;
}

absl::Status CheckEngine(const ComputeOptions& options) {
  BATON_ASSIGN_OR_RETURN(const Entry* entry, Find(options.engine));
  return entry->check(options);
}

absl::StatusOr<ComputeModel> LoadOnEngine(std::shared_ptr<const model::Model> model, const ComputeOptions& options,
                                          KvTransport& transport, const WeightsProgress& progress) {
  BATON_ASSIGN_OR_RETURN(const Entry* entry, Find(options.engine));
  return entry->load(std::move(model), options, transport, progress);
}

}  // namespace baton
