#include "common/engine/catalogue.h"

#include <gtest/gtest.h>

#include <string>

namespace baton {
namespace {

void ExpectRefused(const ComputeOptions& options, const std::string& flag) {
  const absl::Status status = CheckEngine(options);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << flag;
  const std::string message(status.message());
  EXPECT_NE(message.find(flag), std::string::npos) << message;
  EXPECT_NE(message.find("engine cpu"), std::string::npos) << message;
}

TEST(Catalogue, TheCpuEngineTakesTheDefaults) { EXPECT_TRUE(CheckEngine({}).ok()); }

TEST(Catalogue, TheCpuEngineRefusesWhatOnlyCudaTakes) {
  ExpectRefused({.kv_dtype = "fp8"}, "--kv_dtype is fp8");
  ExpectRefused({.devices = {0, 1}}, "--tensor_parallel is 2");
  ExpectRefused({.devices = {5}}, "--device is 5");
  ExpectRefused({.gpu_memory_utilization = 0.5}, "--gpu_memory_utilization is 0.5");
  ExpectRefused({.cuda_graphs = false}, "--cuda_graphs is false");
  ExpectRefused({.deterministic = true}, "--deterministic is true");
}

TEST(Catalogue, TheCpuEngineRefusesFlagsOfCudaThatWereSetToTheirDefaults) {
  for (const char* flag : {"tensor_parallel", "device", "gpu_memory_utilization", "cuda_graphs", "deterministic"}) {
    ExpectRefused({.given = {"model", flag}}, "--" + std::string(flag) + " is set");
  }
  EXPECT_TRUE(CheckEngine({.given = {"model", "threads", "pin_threads", "kv_gib"}}).ok());
}

}  // namespace
}  // namespace baton
