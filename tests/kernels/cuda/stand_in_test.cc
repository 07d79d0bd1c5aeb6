// What the host stand-in catches: wrong kernels of every kind must not look right.

#include "tests/fakes/cuda/stand_in.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <thread>

#include "common/device/graph.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/primitives.h"
#include "tests/kernels/cuda/cuda_fixture.h"

namespace baton {
namespace {

using cuda::Lane;
using cuda::Launch;
using cuda::SharedArena;
using cuda::SharedBytes;
using testing::HasSubstr;

class StandIn : public CudaTest {
 protected:
  void TearDown() override {
    stand_in::SetOrder(std::nullopt);
    EXPECT_EQ(stand_in::TakeKernelError(), "");
  }
  std::string ErrorOfKernel() {
    const absl::Status status = device_stream().Synchronize();
    EXPECT_THAT(StatusMessage(status), HasSubstr("cudaErrorLaunchFailure"));
    return stand_in::TakeKernelError();
  }
};

// Reverses 64 numbers through shared memory.
__global__ void Reverse(const int* in, int* out, bool with_barrier) {
  SharedArena shared;
  int* numbers = shared.Take<int>(64);
  const int i = static_cast<int>(threadIdx.x);
  numbers[i] = in[i];
  if (with_barrier) cuda::BlockBarrier();
  out[i] = numbers[63 - i];
}

// Rotates by one, several times, in place: a barrier is needed between reading and writing, too.
__global__ void Rotate(int* numbers, int rounds, bool with_second_barrier) {
  const int i = static_cast<int>(threadIdx.x);
  for (int round = 0; round < rounds; ++round) {
    const int next = numbers[(i + 1) % 64];
    if (with_second_barrier) cuda::BlockBarrier();
    numbers[i] = next;
    cuda::BlockBarrier();
  }
}

TEST_F(StandIn, AMissingBarrierShowsInShuffledOrders) {
  std::vector<int> in(64), reversed(64);
  std::iota(in.begin(), in.end(), 0);
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  const int* numbers = ToDevice(in);
  for (uint64_t seed = 0; seed < 8; ++seed) {
    stand_in::SetOrder(seed);
    for (const bool with_barrier : {true, false}) {
      int* out = NewDevice<int>(64);
      Expect(Launch(Reverse, {dim3(1), dim3(64), SharedBytes<int>(64), stream()}, numbers, out, with_barrier));
      EXPECT_EQ(ToHost(out, 64) == reversed, with_barrier) << seed;
    }
  }
}

TEST_F(StandIn, AMissingBarrierBetweenReadingAndWritingShows) {
  std::vector<int> in(64);
  std::iota(in.begin(), in.end(), 0);
  std::vector<int> rotated = in;
  std::rotate(rotated.begin(), rotated.begin() + 5, rotated.end());
  for (uint64_t seed = 0; seed < 8; ++seed) {
    stand_in::SetOrder(seed);
    for (const bool with_barrier : {true, false}) {
      int* numbers = ToDevice(in);
      Expect(Launch(Rotate, {dim3(1), dim3(64), 0, stream()}, numbers, 5, with_barrier));
      EXPECT_EQ(ToHost(numbers, 64) == rotated, with_barrier) << seed;
    }
  }
}

__global__ void LeaveEarly(int leaver) {
  if (static_cast<int>(threadIdx.x) == leaver) return;
  cuda::BlockBarrier();
}

TEST_F(StandIn, AThreadThatEndsWhileOthersWaitIsAnError) {
  for (const int leaver : {0, 40, 63}) {
    Expect(Launch(LeaveEarly, {dim3(2), dim3(64), 0, stream()}, leaver));
    EXPECT_THAT(ErrorOfKernel(), testing::AnyOf(HasSubstr("ended while"), HasSubstr("have ended")));
  }
}

__global__ void TwoBarriers() {
  if (threadIdx.x < 32) {
    cuda::BlockBarrier();
  } else {
    cuda::BlockBarrier();
  }
}

TEST_F(StandIn, WaitingAtDifferentBarriersIsAnError) {
  Expect(Launch(TwoBarriers, {dim3(1), dim3(64), 0, stream()}));
  EXPECT_THAT(ErrorOfKernel(), HasSubstr("others in line"));
}

__global__ void HalfAWarp(int* out) {
  if (Lane() < 16) out[Lane()] = cuda::ShuffleXor(Lane(), 1);
}

__global__ void LanesAtTheBlockBarrier() {
  if (Lane() < 16) {
    cuda::WarpBarrier();
  } else {
    cuda::BlockBarrier();
  }
}

TEST_F(StandIn, AWarpWithoutAllItsLanesIsAnError) {
  Expect(Launch(HalfAWarp, {dim3(1), dim3(32), 0, stream()}, NewDevice<int>(32)));
  EXPECT_THAT(ErrorOfKernel(), HasSubstr("warp"));
  Expect(Launch(LanesAtTheBlockBarrier, {dim3(1), dim3(32), 0, stream()}));
  EXPECT_THAT(ErrorOfKernel(), HasSubstr("waits for ever"));
}

TEST_F(StandIn, KernelsRunAgainAfterAnError) {
  Expect(Launch(LeaveEarly, {dim3(1), dim3(64), 0, stream()}, 1));
  ErrorOfKernel();
  Expect(Launch(LeaveEarly, {dim3(1), dim3(64), 0, stream()}, -1));
  EXPECT_TRUE(device_stream().Synchronize().ok());
}

__global__ void TakeTooMuch() {
  SharedArena shared;
  shared.Take<int>(64)[threadIdx.x] = 0;
}

TEST_F(StandIn, SharedMemoryBeyondWhatTheLaunchAskedForIsAnError) {
  Expect(Launch(TakeTooMuch, {dim3(1), dim3(64), 255, stream()}));
  EXPECT_THAT(ErrorOfKernel(), HasSubstr("takes 256 bytes of shared memory, the launch asked for 255"));
}

TEST_F(StandIn, BlocksOfOddSizesAreErrors) {
  Expect(Launch(LeaveEarly, {dim3(1), dim3(33), 0, stream()}, -1));
  EXPECT_THAT(ErrorOfKernel(), HasSubstr("whole warps"));
}

TEST_F(StandIn, LaunchesBeyondWhatADeviceTakesAreRefused) {
  const auto launch = [&](dim3 grid, dim3 block, size_t shared_bytes) {
    return static_cast<int>(Launch(LeaveEarly, {grid, block, shared_bytes, stream()}, -1));
  };
  EXPECT_EQ(launch(dim3(1), dim3(0), 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(dim3(1), dim3(1056), 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(dim3(1), dim3(1, 1, 96), 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(dim3(1, 65536), dim3(32), 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(dim3(1, 1, 65536), dim3(32), 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(dim3(1), dim3(32), (227 << 10) + 1), cudaErrorInvalidValue);
  EXPECT_EQ(launch(dim3(1), dim3(32), 227 << 10), cudaSuccess);
  EXPECT_TRUE(device_stream().Synchronize().ok());
}

__global__ void NothingAtAll() {}

TEST_F(StandIn, MuchSharedMemoryMustBeAllowedFirst) {
  const void* kernel = reinterpret_cast<const void*>(NothingAtAll);
  const auto launch = [&](size_t shared_bytes) {
    return stand_in::LaunchKernel(kernel, dim3(1), dim3(32), shared_bytes, stream(), [] {}, {});
  };
  EXPECT_EQ(launch(48 << 10), cudaSuccess);
  EXPECT_EQ(launch((48 << 10) + 16), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10), cudaSuccess);
  EXPECT_EQ(launch(64 << 10), cudaSuccess);
  EXPECT_EQ(launch((64 << 10) + 16), cudaErrorInvalidValue);
  EXPECT_TRUE(device_stream().Synchronize().ok());
}

__global__ void CopyFrom(const int* in, int elements_beyond, bool into) {
  SharedArena shared;
  int* numbers = shared.Take<int>(8);
  cuda::CopyAsync16(numbers + (into ? elements_beyond : 0), in + (into ? 0 : elements_beyond), true);
  cuda::CommitCopies();
  cuda::WaitCopies<0>();
}

__global__ void LoadTile(int elements_beyond) {
  SharedArena shared;
  uint16_t* numbers = shared.Take<uint16_t>(512);
  uint32_t matrices[4];
  cuda::LoadMatrices(matrices, numbers + 8 * Lane() + elements_beyond);
}

TEST_F(StandIn, CopiesAndTilesThatAreNotAlignedAreErrors) {
  const int* in = ToDevice(std::vector<int>(8));
  for (const bool into : {false, true}) {
    Expect(Launch(CopyFrom, {dim3(1), dim3(32), SharedBytes<int>(8), stream()}, in, 4, into));
    EXPECT_TRUE(device_stream().Synchronize().ok());
    Expect(Launch(CopyFrom, {dim3(1), dim3(32), SharedBytes<int>(8), stream()}, in, 2, into));
    EXPECT_THAT(ErrorOfKernel(), HasSubstr(into ? "copies to 8 bytes beyond" : "copies from 8 bytes beyond"));
  }
  Expect(Launch(LoadTile, {dim3(1), dim3(32), SharedBytes<uint16_t>(512), stream()}, 0));
  EXPECT_TRUE(device_stream().Synchronize().ok());
  Expect(Launch(LoadTile, {dim3(1), dim3(32), SharedBytes<uint16_t>(512), stream()}, 4));
  EXPECT_THAT(ErrorOfKernel(), HasSubstr("loads a tile's row 8 bytes beyond a multiple of 16"));
}

__global__ void ReadWithoutWaiting(const int* in, int* out, bool wait) {
  SharedArena shared;
  int* numbers = shared.Take<int>(128);
  cuda::CopyAsync16(numbers + 4 * Lane(), in + 4 * Lane(), true);
  cuda::CommitCopies();
  if (wait) cuda::WaitCopies<0>();
  for (int i = 0; i < 4; ++i) out[4 * Lane() + i] = numbers[4 * Lane() + i];
}

TEST_F(StandIn, AnAsynchronousCopyIsNotThereBeforeItIsWaitedFor) {
  std::vector<int> in(128);
  std::iota(in.begin(), in.end(), 0);
  for (const bool wait : {true, false}) {
    int* out = NewDevice<int>(128);
    Expect(Launch(ReadWithoutWaiting, {dim3(1), dim3(32), SharedBytes<int>(128), stream()}, ToDevice(in), out, wait));
    EXPECT_EQ(ToHost(out, 128) == in, wait);
  }
}

__global__ void Overrun(int* global, int global_index, int shared_index) {
  SharedArena shared;
  int* first = shared.Take<int>(10);
  int* second = shared.Take<int>(10);
  second[0] = 0;
  first[shared_index] = 1;
  global[global_index] = first[shared_index];
}

TEST_F(StandIn, AddressSanitizerSeesAccessesBeyondArrays) {
  int* global = NewDevice<int>(10);
  const auto run = [&](int global_index, int shared_index) {
    Expect(
        Launch(Overrun, {dim3(1), dim3(32), 2 * SharedBytes<int>(10), stream()}, global, global_index, shared_index));
    return device_stream().Synchronize();
  };
  EXPECT_TRUE(run(9, 9).ok());
#if defined(__SANITIZE_ADDRESS__)
  EXPECT_DEATH(run(10, 9).IgnoreError(), "heap-buffer-overflow");
  EXPECT_DEATH(run(9, 10).IgnoreError(), "heap-buffer-overflow");
#else
  GTEST_SKIP() << "needs AddressSanitizer";
#endif
}

__global__ void Increment(int* number) {
  if (threadIdx.x == 0) *number += 1;
}

TEST_F(StandIn, WorkRunsWhenItIsWaitedFor) {
  int* number = ToDevice(std::vector<int>{0});
  ASSERT_TRUE(device_stream().Synchronize().ok());
  const uint64_t before = stand_in::KernelsRun();
  Expect(Launch(Increment, {dim3(1), dim3(32), 0, stream()}, number));
  EXPECT_EQ(stand_in::KernelsRun(), before);
  EXPECT_EQ(ToHost(number, 1)[0], 1);
  EXPECT_EQ(stand_in::KernelsRun(), before + 1);
}

TEST_F(StandIn, AStreamSeesAnothersWorkOnlyAfterItsEvent) {
  for (const bool wait : {true, false}) {
    auto other = device::Stream::Create();
    auto event = device::Event::Create();
    ASSERT_TRUE(other.ok() && event.ok());
    int* number = ToDevice(std::vector<int>{0});
    ASSERT_TRUE(device_stream().Synchronize().ok());
    Expect(Launch(Increment, {dim3(1), dim3(32), 0, other->get()}, number));
    ASSERT_TRUE(other->Record(*event).ok());
    if (wait) {
      ASSERT_TRUE(device_stream().WaitFor(*event).ok());
    }
    EXPECT_EQ(ToHost(number, 1)[0], wait ? 1 : 0);
    ASSERT_TRUE(event->Wait().ok());
    EXPECT_EQ(ToHost(number, 1)[0], 1);
    const auto reached = event->Reached();
    ASSERT_TRUE(reached.ok());
    EXPECT_TRUE(*reached);
  }
}

TEST_F(StandIn, APinnedSourceIsReadWhenTheStreamGetsThere) {
  auto pinned = device::Memory::Allocate(device::MemoryKind::kPinned, sizeof(int));
  ASSERT_TRUE(pinned.ok());
  int pageable = 1;
  *pinned->as<int>() = 1;
  int* numbers = NewDevice<int>(2);
  ASSERT_TRUE(device_stream().Copy(numbers, pinned->data(), sizeof(int)).ok());
  ASSERT_TRUE(device_stream().Copy(numbers + 1, &pageable, sizeof(int)).ok());
  *pinned->as<int>() = pageable = 2;
  EXPECT_EQ(ToHost(numbers, 2), (std::vector<int>{2, 1}));
}

TEST_F(StandIn, AGraphReplaysWhatWasRecorded) {
  int* number = ToDevice(std::vector<int>{0});
  auto graph = device::Graph::Record(device_stream(), [&] {
    for (int i = 0; i < 3; ++i) Expect(Launch(Increment, {dim3(1), dim3(32), 0, stream()}, number));
    return absl::OkStatus();
  });
  ASSERT_TRUE(graph.ok()) << StatusMessage(graph.status());
  EXPECT_EQ(ToHost(number, 1)[0], 0);
  const uint64_t before = stand_in::GraphsLaunched();
  ASSERT_TRUE(graph->Launch(device_stream()).ok());
  ASSERT_TRUE(graph->Launch(device_stream()).ok());
  EXPECT_EQ(ToHost(number, 1)[0], 6);
  EXPECT_EQ(stand_in::GraphsLaunched(), before + 2);
}

TEST_F(StandIn, AllocatingOrWaitingWhileRecordingFails) {
  const auto allocates = device::Graph::Record(
      device_stream(), [] { return device::Memory::Allocate(device::MemoryKind::kDevice, 16).status(); });
  EXPECT_THAT(StatusMessage(allocates.status()), HasSubstr("cudaErrorStreamCaptureUnsupported"));
  const auto waits = device::Graph::Record(device_stream(), [&] { return device_stream().Synchronize(); });
  EXPECT_THAT(StatusMessage(waits.status()), HasSubstr("cudaErrorStreamCaptureUnsupported"));
  EXPECT_TRUE(device_stream().Synchronize().ok());
}

TEST_F(StandIn, MemoryThatIsNotThereIsRefusedWithNumbers) {
  stand_in::SetDeviceBytes(uint64_t{64} << 20);
  const auto memory = device::Memory::Allocate(device::MemoryKind::kDevice, (uint64_t{64} << 20) + 1);
  stand_in::SetDeviceBytes(uint64_t{1} << 30);
  ASSERT_EQ(memory.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(StatusMessage(memory.status()),
              testing::MatchesRegex("no 67108865 bytes of device memory; [0-9]+ of 67108864 are free"));
}

TEST_F(StandIn, EveryThreadOfTheHostMayLaunch) {
  int* numbers = ToDevice(std::vector<int>(4, 0));
  ASSERT_TRUE(device_stream().Synchronize().ok());
  std::vector<std::thread> threads;
  std::atomic<int> failures = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&failures, number = numbers + i] {
      auto own = device::Stream::Create();
      for (int round = 0; round < 50; ++round) {
        if (Launch(Increment, {dim3(1), dim3(64), 0, own->get()}, number) != cuda::Error::kNone) ++failures;
        if (!own->Synchronize().ok()) ++failures;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(ToHost(numbers, 4), std::vector<int>(4, 50));
}

// Two devices, a stream and a number on each.
class StandInDevices : public StandIn {
 protected:
  void SetUp() override {
    stand_in::SetDeviceCount(2);
    StandIn::SetUp();
    for (int device : {1, 0}) {
      ASSERT_TRUE(device::Open(device).ok());
      auto stream = device::Stream::Create();
      ASSERT_TRUE(stream.ok());
      streams_[device] = *std::move(stream);
      numbers_[device] = NewDevice<int>(1);
      ASSERT_TRUE(streams_[device].Fill(numbers_[device], 0, sizeof(int)).ok());
    }
  }
  void TearDown() override {
    stand_in::SetDeviceCount(1);
    StandIn::TearDown();
  }
  int NumberOf(int device) {
    EXPECT_TRUE(streams_[device].Synchronize().ok());
    return *numbers_[device];  // the host's memory after all
  }

  device::Stream streams_[2];
  int* numbers_[2];
};

int CodeOf(cuda::Error error) { return static_cast<int>(error); }

TEST_F(StandInDevices, AKernelGoesToTheThreadsDeviceAndItsMemory) {
  const auto launch = [&](int stream, int number) {
    return CodeOf(Launch(Increment, {dim3(1), dim3(32), 0, streams_[stream].get()}, numbers_[number]));
  };
  EXPECT_EQ(launch(0, 0), cudaSuccess);
  EXPECT_EQ(launch(1, 1), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(launch(0, 1), cudaErrorPeerAccessNotEnabled);
  ASSERT_TRUE(device::Use(1).ok());
  EXPECT_EQ(launch(1, 1), cudaSuccess);
  EXPECT_EQ(launch(1, 0), cudaErrorPeerAccessNotEnabled);
  EXPECT_EQ(launch(0, 0), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(NumberOf(0), 1);
  EXPECT_EQ(NumberOf(1), 1);
  EXPECT_EQ(device::Use(2).code(), absl::StatusCode::kInternal);
  EXPECT_THAT(StatusMessage(device::Open(2).status()), HasSubstr("CUDA device 2; there are 2"));
}

TEST_F(StandInDevices, MemoryOfOneDoesNotCountAsTheOthers) {
  stand_in::SetDeviceBytes(uint64_t{100} << 20);
  const auto allocate = [] { return device::Memory::Allocate(device::MemoryKind::kDevice, uint64_t{60} << 20); };
  const auto first = allocate();
  EXPECT_TRUE(first.ok());
  EXPECT_FALSE(allocate().ok());
  ASSERT_TRUE(device::Use(1).ok());
  EXPECT_TRUE(allocate().ok());
  stand_in::SetDeviceBytes(uint64_t{1} << 30);
}

TEST_F(StandInDevices, CopiesAndEventsReachBothButAnEventHasItsDevice) {
  auto event = device::Event::Create();
  ASSERT_TRUE(event.ok());
  EXPECT_FALSE(streams_[1].Record(*event).ok());
  Expect(Launch(Increment, {dim3(1), dim3(32), 0, streams_[0].get()}, numbers_[0]));
  ASSERT_TRUE(streams_[0].Record(*event).ok());
  ASSERT_TRUE(streams_[1].WaitFor(*event).ok());
  ASSERT_TRUE(streams_[1].Copy(numbers_[1], numbers_[0], sizeof(int)).ok());
  EXPECT_EQ(NumberOf(1), 1);
}

TEST_F(StandInDevices, OnesErrorIsNotTheOthers) {
  stand_in::FailKernel(1, 1);
  for (int device : {0, 1}) {
    ASSERT_TRUE(device::Use(device).ok());
    for (int i = 0; i < 2; ++i) {
      Expect(Launch(Increment, {dim3(1), dim3(32), 0, streams_[device].get()}, numbers_[device]));
    }
  }
  EXPECT_EQ(NumberOf(0), 2);
  EXPECT_THAT(StatusMessage(streams_[1].Synchronize()), HasSubstr("cudaErrorLaunchFailure"));
  EXPECT_EQ(stand_in::TakeKernelError(), "a test made it fail");
  EXPECT_EQ(NumberOf(1), 1);
}

TEST_F(StandInDevices, StreamsOfBothAreRecordedAtOnce) {
  const device::Stream* const streams[] = {&streams_[0], &streams_[1]};
  auto graphs = device::Graph::Record(streams, [&] {
    for (int device : {0, 1, 0}) {
      BATON_RETURN_IF_ERROR(device::Use(device));
      Expect(Launch(Increment, {dim3(1), dim3(32), 0, streams_[device].get()}, numbers_[device]));
    }
    return absl::OkStatus();
  });
  ASSERT_TRUE(graphs.ok()) << StatusMessage(graphs.status());
  for (int device : {0, 1}) ASSERT_TRUE((*graphs)[device].Launch(streams_[device]).ok());
  EXPECT_EQ(NumberOf(0), 2);
  EXPECT_EQ(NumberOf(1), 1);
  EXPECT_FALSE(device::Graph::Record(streams, [] { return InvalidArgument("not now"); }).ok());
  EXPECT_TRUE(streams_[0].Synchronize().ok() && streams_[1].Synchronize().ok());
}

TEST_F(StandInDevices, RowsAreCopiedWithTheirStrides) {
  std::vector<int> from(12);
  std::iota(from.begin(), from.end(), 0);
  const int* rows = ToDevice(from);
  int* to = ToDevice(std::vector<int>(6, -1));
  ASSERT_TRUE(device_stream().CopyRows(to, 3 * sizeof(int), rows, 6 * sizeof(int), 2 * sizeof(int), 2).ok());
  EXPECT_EQ(ToHost(to, 6), (std::vector<int>{0, 1, -1, 6, 7, -1}));
}

}  // namespace
}  // namespace baton
