#pragma once

// A stream and device copies of test data. The same test is linked against the host stand-in and against CUDA; without
// a device the latter says so and skips.

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/device/device.h"
#include "common/device/memory.h"
#include "common/device/stream.h"
#include "kernels/cuda/stream.h"

namespace baton {

class CudaTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto info = device::Open(0);
    if (!info.ok()) {
      ASSERT_EQ(info.status().code(), absl::StatusCode::kFailedPrecondition) << StatusMessage(info.status());
      GTEST_SKIP() << StatusMessage(info.status());
    }
    auto stream = device::Stream::Create();
    ASSERT_TRUE(stream.ok()) << StatusMessage(stream.status());
    stream_ = *std::move(stream);
  }

  cuda::Stream stream() const { return stream_.get(); }
  const device::Stream& device_stream() const { return stream_; }

  // `count` elements of device memory, which lives as long as the test; undefined content.
  template <typename T>
  T* NewDevice(size_t count) {
    auto memory = device::Memory::Allocate(device::MemoryKind::kDevice, count * sizeof(T));
    EXPECT_TRUE(memory.ok()) << StatusMessage(memory.status());
    memory_.push_back(*std::move(memory));
    return memory_.back().as<T>();
  }
  template <typename T>
  T* ToDevice(const std::vector<T>& values) {
    T* to = NewDevice<T>(values.size());
    const absl::Status status = stream_.Copy(to, values.data(), values.size() * sizeof(T));
    EXPECT_TRUE(status.ok()) << StatusMessage(status);
    return to;
  }
  // Waits for the stream.
  template <typename T>
  std::vector<T> ToHost(const T* from, size_t count) {
    std::vector<T> values(count);
    absl::Status status = stream_.Copy(values.data(), from, count * sizeof(T));
    EXPECT_TRUE(status.ok()) << StatusMessage(status);
    status = stream_.Synchronize();
    EXPECT_TRUE(status.ok()) << StatusMessage(status);
    return values;
  }
  void Expect(cuda::Error error) {
    EXPECT_EQ(static_cast<int>(error), 0) << StatusMessage(device::ToStatus(static_cast<int>(error), "enqueueing"));
  }

 private:
  device::Stream stream_;
  std::vector<device::Memory> memory_;
};

}  // namespace baton
