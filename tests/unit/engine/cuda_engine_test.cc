// The engine `cuda` of the catalogue, on the host stand-in: what it checks before it loads, and what it counts.

#include "common/engine/cuda_engine.h"

#include <gmock/gmock.h>

#include <numeric>
#include <vector>

#include "common/device/device.h"
#include "common/engine/cuda_runner.h"
#include "common/engine/cuda_status.h"
#include "common/transport/local/local_transport.h"
#include "tests/fakes/cuda/stand_in.h"
#include "tests/fakes/random_model.h"

namespace baton {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr uint64_t kDeviceBytes = uint64_t{1} << 30;

class CudaEngine : public testing::Test {
 protected:
  CudaEngine() { stand_in::SetDeviceCount(2); }
  ~CudaEngine() override {
    stand_in::SetDeviceBytes(kDeviceBytes);
    stand_in::SetDeviceCount(1);
  }

  absl::StatusOr<ComputeModel> Load(const ComputeOptions& options) {
    return LoadOnCuda(model_, options, *transport_, nullptr);
  }
  std::string Failure(const ComputeOptions& options) {
    const absl::Status status = CheckCudaEngine(options);
    return std::string(status.message());
  }
  ComputeOptions Options() const {
    ComputeOptions options;
    options.engine = "cuda";
    options.max_model_len = model_->config.max_length;
    options.max_batch = 4;
    options.max_step_tokens = 40;
    options.probe = false;
    return options;
  }

  const std::shared_ptr<const model::Model> model_ = fakes::MakeRandomModel(fakes::TinyConfig("Qwen2ForCausalLM"), 1);
  std::unique_ptr<KvTransport> transport_ = MakeLocalTransport(std::make_shared<LocalNetwork>(), false);
};

TEST_F(CudaEngine, FlagsOfTheCpuEngineAreRefused) {
  for (const std::string flag : {"threads", "pin_threads"}) {
    ComputeOptions options = Options();
    options.given = {"model", flag};
    EXPECT_THAT(Failure(options), HasSubstr("--" + flag + " is set; only engine cpu takes it"));
  }
}

TEST_F(CudaEngine, ARunnerTakesTheMemoryThatWasCounted) {
  for (const size_t ranks : {1, 2}) {
    for (const bool deterministic : {false, true}) {
      std::vector<int> devices(ranks);
      std::iota(devices.begin(), devices.end(), 0);
      const auto shards = LoadCudaShards(*model_, DType::kBF16, devices);
      ASSERT_TRUE(shards.ok());
      const model::ModelConfig& config = model_->config;
      const KvLayout layout{
          .dtype = DType::kBF16, .layers = config.layers, .kv_heads = config.kv_heads, .head_dim = config.head_dim};
      const CudaRunnerOptions options{
          .max_step_tokens = 40, .max_batch = 6, .graphs = false, .deterministic = deterministic};
      const auto pool = CudaPool::Create(layout, 8, devices);
      ASSERT_TRUE(pool.ok());
      const uint64_t before = device::Open(0)->free_bytes;
      const auto runner = CudaRunner::Create(*shards, **pool, options);
      ASSERT_TRUE(runner.ok()) << runner.status().message();
      EXPECT_EQ(before - device::Open(0)->free_bytes, CudaRunner::ActivationBytes(shards->front(), layout, options))
          << ranks << " ranks";
    }
  }
}

TEST_F(CudaEngine, ThePoolIsWhatIsLeftOfTheDevicesShare) {
  for (const double share : {0.2, 0.3}) {
    const auto transport = MakeLocalTransport(std::make_shared<LocalNetwork>(), false);
    const uint64_t before = device::Open(0)->free_bytes;
    ComputeOptions options = Options();
    options.gpu_memory_utilization = share;
    const auto loaded = LoadOnCuda(model_, options, *transport, nullptr);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    const auto taken = static_cast<double>(before - device::Open(0)->free_bytes);
    EXPECT_LE(taken, share * kDeviceBytes);
    EXPECT_GT(taken, share * kDeviceBytes - 2.0 * loaded->layout.BytesPerBlock());
    EXPECT_EQ(loaded->layout.key_order, KeyOrder::kBySlot);
  }
}

// Nothing of the device is left for what would come later: graphs, and what the first steps of their kind load.
TEST_F(CudaEngine, AllOfADeviceIsEnoughForEveryStep) {
  stand_in::SetDeviceBytes(uint64_t{128} << 20);
  ComputeOptions options = Options();
  options.gpu_memory_utilization = 1;
  for (const bool graphs : {true, false}) {
    options.cuda_graphs = graphs;
    const auto transport = MakeLocalTransport(std::make_shared<LocalNetwork>(), false);
    const auto loaded = LoadOnCuda(model_, options, *transport, nullptr);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    EXPECT_LT(device::Open(0)->free_bytes, 3 * loaded->layout.BytesPerBlock());
    std::vector<TokenId> prompt(40);
    std::iota(prompt.begin(), prompt.end(), 1);
    const std::vector<BlockId> blocks = {3, 1, 0};
    const std::span<const TokenId> tokens(prompt);
    std::span<float> logits;
    for (StepSequence sequence : {StepSequence{.tokens = tokens.first(39), .blocks = blocks},
                                  StepSequence{.tokens = tokens.last(1), .position = 39, .blocks = blocks}}) {
      sequence.wants_logits = true;
      const absl::Status ran = loaded->runner->Step({&sequence, 1}, {&logits, 1});
      EXPECT_TRUE(ran.ok()) << ran.message();
    }
  }
}

TEST_F(CudaEngine, OutOfMemoryOfTheDeviceHasTheNumbers) {
  stand_in::SetDeviceBytes(1000);
  constexpr int kMemoryAllocation = 2;  // a cudaError_t
  const absl::Status none = device::ToStatus(kMemoryAllocation, "recording a graph");
  EXPECT_TRUE(absl::IsResourceExhausted(none));
  EXPECT_THAT(std::string(none.message()), AllOf(HasSubstr("recording a graph: out of memory of the CUDA device; "),
                                                 HasSubstr(" of 1000 bytes are free")));
  const absl::Status product = Enqueued(static_cast<cuda::Error>(cuda::kGemmError + 3), "enqueueing a matrix product");
  EXPECT_TRUE(absl::IsResourceExhausted(product));
}

TEST_F(CudaEngine, MemoryThatOthersTookIsNotPromised) {
  stand_in::SetDeviceBytes(uint64_t{64} << 20);
  const auto others = device::Memory::Allocate(device::MemoryKind::kDevice, uint64_t{32} << 20);
  ASSERT_TRUE(others.ok());
  const absl::Status status = Load(Options()).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("--gpu_memory_utilization 0.9 of device 0's 0.062 GiB, 0.031 GiB of which are free"),
                    HasSubstr("leaves -")));
}

TEST_F(CudaEngine, AGivenPoolIsTakenAsItIs) {
  ComputeOptions options = Options();
  options.kv_gib = 0.001;
  const auto loaded = Load(options);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ(loaded->memory->blocks(), static_cast<uint32_t>(0.001 * (1 << 30)) / loaded->layout.BytesPerBlock());
}

TEST_F(CudaEngine, ATransportIsGivenNoPoolThatAFailedLoadTakesAway) {
  ComputeOptions options = Options();
  options.kv_gib = 0.001;
  auto loaded = Load(options);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  const uint64_t taken = kDeviceBytes - device::Open(0)->free_bytes;
  const uint64_t activations = loaded->activation_bytes;
  transport_.reset();
  loaded = absl::CancelledError("gone");

  // Enough for weights and pool, not for what the runner works in.
  stand_in::SetDeviceBytes(taken - activations / 2);
  const auto transport = MakeLocalTransport(std::make_shared<LocalNetwork>(), false);
  const absl::Status status = LoadOnCuda(model_, options, *transport, nullptr).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_TRUE(absl::IsFailedPrecondition(transport->Describe().status())) << "it was given a pool that is gone";
}

TEST_F(CudaEngine, FormatsAndDevicesAreCheckedBeforeAModelIsRead) {
  ComputeOptions options = Options();
  EXPECT_EQ(Failure(options), "");
  options.weights = "int8";
  EXPECT_THAT(Failure(options), HasSubstr("--weights is int8; engine cuda takes auto, f32, bf16 and f16"));
  options = Options();
  options.kv_dtype = "int8";
  EXPECT_THAT(Failure(options), HasSubstr("--kv_dtype is int8 and the weights are bf16"));
  options = Options();
  options.devices = {2};
  EXPECT_THAT(Failure(options), HasSubstr("CUDA device 2; there are 2"));
  stand_in::SetDeviceCount(0);
  EXPECT_THAT(Failure(Options()), HasSubstr("no CUDA device"));
}

TEST_F(CudaEngine, KvHasTheFormatOfTheWeightsOrHalfOfIt) {
  ComputeOptions options = Options();
  options.weights = "f16";
  options.kv_gib = 0.001;
  const auto loaded = Load(options);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ(loaded->layout.dtype, DType::kF16);
  EXPECT_EQ(loaded->weights_format, "f16");
  options.kv_dtype = "fp8";
  const auto transport = MakeLocalTransport(std::make_shared<LocalNetwork>(), false);
  const auto halved = LoadOnCuda(model_, options, *transport, nullptr);
  ASSERT_TRUE(halved.ok()) << halved.status().message();
  EXPECT_LT(halved->layout.BytesPerBlock(), loaded->layout.BytesPerBlock());
  options.kv_dtype = "bf16";
  EXPECT_THAT(std::string(Load(options).status().message()),
              HasSubstr("--kv_dtype is bf16 and the weights are f16; engine cuda keeps KV in the weights' format"));
}

}  // namespace
}  // namespace baton
