#include "common/transport/ucx/ucx_reader.h"

#include "common/base/status.h"

namespace baton {
namespace {

constexpr size_t kBuffers = 4;
constexpr Duration kPollFor = std::chrono::milliseconds(1);

}  // namespace

absl::StatusOr<std::optional<size_t>> UcxReader::Start(const PutRun& run, uint64_t most, bool put) {
  if (staging_ == nullptr) {
    BATON_ASSIGN_OR_RETURN(staging_, source_.pool->MakeStaging(StagingPlace::kHost, kBuffers, most));
    buffers_.resize(kBuffers);
  }
  for (size_t i = 0; i < buffers_.size(); ++i) {
    Buffer& buffer = buffers_[i];
    if (buffer.in_use) continue;
    buffer = {.in_use = true};
    const PoolRun from{run.source_offset, run.bytes, 0};
    const std::span<std::byte> device = source_.pool->device();
    const bool direct = put && direct_ && !device.empty() && source_.key_order == source_.pool->layout().key_order;
    if (direct) buffer.direct = device.data() + run.source_offset;
    BATON_RETURN_IF_ERROR(staging_->Read(i, std::span(&from, direct ? 0 : 1), source_.key_order));
    poll_until_ = std::chrono::steady_clock::now() + kPollFor;
    return i;
  }
  return std::nullopt;
}

absl::StatusOr<const std::byte*> UcxReader::Bytes(size_t buffer) {
  BATON_ASSIGN_OR_RETURN(const bool done, staging_->Done(buffer));
  waiting_ = !done;
  if (!done) return nullptr;
  return buffers_[buffer].direct != nullptr ? buffers_[buffer].direct : staging_->buffer(buffer);
}

}  // namespace baton
