#include "common/transport/ucx/ucx_inbound.h"

#include <cstring>

#include "common/base/hash.h"
#include "common/base/status.h"

namespace baton {
namespace {

constexpr Duration kFarewell = std::chrono::milliseconds(500);
constexpr Duration kPollFor = std::chrono::milliseconds(1);
constexpr Duration kPollInterval = std::chrono::milliseconds(1);

}  // namespace

absl::Status UcxInbound::RegisterHandlers() {
  BATON_RETURN_IF_ERROR(engine_->SetMessageHandler(kUcxOpen, [this](std::string_view header, std::string_view payload) {
    UcxOpen open;
    if (!ReadHeader(header, &open)) return;
    // Endpoints are made outside of UCX's own callbacks.
    engine_->Post(
        [this, open, address = std::string(payload)] { OnOpen(open.target_instance, open.writer_session, address); });
  }));
  BATON_RETURN_IF_ERROR(engine_->SetMessageHandler(
      kUcxWrite, [this](std::string_view header, std::string_view payload) { OnWrite(header, payload); }));
  BATON_RETURN_IF_ERROR(
      engine_->SetMessageHandler(kUcxFlush, [this](std::string_view header, std::string_view) { OnFlush(header); }));
  return engine_->SetMessageHandler(kUcxClose, [this](std::string_view header, std::string_view) {
    UcxClose close;
    if (ReadHeader(header, &close)) engine_->Post([this, close] { Close(close.target_session); });
  });
}

void UcxInbound::OnOpen(uint64_t instance, uint64_t writer_session, const std::string& worker_address) {
  if (on_done_) return;  // shutting down: the writer's time-out tells it
  auto writer = std::make_unique<Writer>();
  writer->owner = this;
  writer->id = RandomU64() | 1;
  writer->writer_session = writer_session;
  auto endpoint = engine_->Connect(worker_address, &UcxInbound::OnEndpointError, writer.get());
  if (!endpoint.ok()) return;  // the same
  writer->endpoint = *endpoint;
  Writer& added = *(writers_[writer->id] = std::move(writer));
  const bool known = instance == instance_;
  Reply(added, kUcxOpened, HeaderBytes(UcxOpened{writer_session, known ? added.id : 0}));
  if (!known) CloseAfterFlush(added);
}

void UcxInbound::OnWrite(std::string_view header, std::string_view payload) {
  UcxWrite write;
  if (!ReadHeader(header, &write)) return;
  if (!writers_.contains(write.target_session)) return;
  const WriteStamp stamp{LeaseId{write.lease}, write.generation};
  const bool inside = write.offset <= pool_bytes_ && payload.size() <= pool_bytes_ - write.offset;
  if (staging_ != nullptr) {
    const bool fits = inside && payload.size() <= kUcxWriteBytes;
    return Arrive({write.target_session, stamp, write.offset, fits ? payload.size() : 0, {}}, payload);
  }
  if (inside && gate_ != nullptr && gate_->Admit(stamp, write.offset, payload.size())) {
    std::memcpy(pool_ + write.offset, payload.data(), payload.size());
    gate_->Written(stamp, write.offset, payload.size());
  }
  CountWrite(write.target_session);
}

void UcxInbound::Arrive(Arrival arrival, std::string_view payload) {
  // A buffer that is still being copied from holds up the thread, as the copy into memory of its own would.
  while (buffers_in_use_ == kBuffers) {
    const std::optional<size_t> buffer = arrivals_.front().buffer;
    FinishFirst(buffer ? staging_->Wait(*buffer) : absl::OkStatus());
  }
  if (arrival.bytes > 0 && gate_ != nullptr && gate_->Admit(arrival.stamp, arrival.offset, arrival.bytes)) {
    arrival.buffer = next_buffer_++ % kBuffers;
    ++buffers_in_use_;
    std::memcpy(staging_->buffer(*arrival.buffer), payload.data(), payload.size());
    const PoolRun into{arrival.offset, arrival.bytes, 0};
    arrival.failed = !staging_->Write(*arrival.buffer, {&into, 1}).ok();
    poll_until_ = std::chrono::steady_clock::now() + kPollFor;
  }
  arrivals_.push_back(arrival);
  FinishWrites();
}

// The first one is over.
void UcxInbound::FinishFirst(const absl::Status& copied) {
  const Arrival arrival = arrivals_.front();
  arrivals_.pop_front();
  if (arrival.buffer) {
    // Also after an error: until it returns, copies may be under way.
    if (!copied.ok()) (void)staging_->Wait(*arrival.buffer);
    --buffers_in_use_;
    gate_->Written(arrival.stamp, arrival.offset, arrival.bytes);
  }
  if (copied.ok() && !arrival.failed) return CountWrite(arrival.writer);
  Fail(arrival.writer);
}

// Ends the writer's session. From here on no flush is answered: a later write must not count for the one that failed.
void UcxInbound::Fail(uint64_t id) {
  const auto it = writers_.find(id);
  if (it == writers_.end() || std::exchange(it->second->failed, true)) return;
  // Not from inside a callback of UCX's.
  engine_->Post([this, id] {
    const auto writer = writers_.find(id);
    if (writer == writers_.end() || writer->second->closing) return;
    Reply(*writer->second, kUcxGoodbye, HeaderBytes(UcxGoodbye{writer->second->writer_session}));
    CloseAfterFlush(*writer->second);
  });
}

bool UcxInbound::FinishWrites() {
  while (!arrivals_.empty()) {
    absl::StatusOr<bool> done = true;
    if (arrivals_.front().buffer) done = staging_->Done(*arrivals_.front().buffer);
    if (done.ok() && !*done) {
      if (std::chrono::steady_clock::now() < poll_until_) return true;
      if (!std::exchange(poll_later_, true)) {
        engine_->RunAt(std::chrono::steady_clock::now() + kPollInterval, [this] { poll_later_ = false; });
      }
      return false;
    }
    FinishFirst(done.status());
  }
  return false;
}

void UcxInbound::FinishAll() {
  while (!arrivals_.empty()) {
    const std::optional<size_t> buffer = arrivals_.front().buffer;
    FinishFirst(buffer ? staging_->Wait(*buffer) : absl::OkStatus());
  }
}

void UcxInbound::CountWrite(uint64_t writer) {
  const auto it = writers_.find(writer);
  if (it == writers_.end()) return;
  ++it->second->writes;
  AnswerFlushes(*it->second);
}

void UcxInbound::OnFlush(std::string_view header) {
  UcxFlush flush;
  if (!ReadHeader(header, &flush)) return;
  const auto it = writers_.find(flush.target_session);
  if (it == writers_.end()) return;
  it->second->flushes.emplace_back(flush.flush, flush.writes);
  AnswerFlushes(*it->second);
}

// UCX may deliver messages of several lanes out of order: a flush is answered when all writes before it were seen.
void UcxInbound::AnswerFlushes(Writer& writer) {
  if (writer.failed) return;
  std::erase_if(writer.flushes, [&](const std::pair<uint64_t, uint64_t>& flush) {
    if (flush.second > writer.writes) return false;
    Reply(writer, kUcxFlushed, HeaderBytes(UcxFlushed{writer.writer_session, flush.first}));
    return true;
  });
}

void UcxInbound::Reply(Writer& writer, UcxMessageId id, std::string header) {
  if (writer.closing) return;
  // A reply that fails is the endpoint's failure, which its handler reports.
  engine_->Send(writer.endpoint, id, std::move(header), {}, [](ucs_status_t) {});
}

void UcxInbound::OnEndpointError(void* argument, ucp_ep_h, ucs_status_t) {
  const auto* writer = static_cast<const Writer*>(argument);
  writer->owner->engine_->Post([owner = writer->owner, id = writer->id] { owner->Close(id); });
}

void UcxInbound::CloseAfterFlush(Writer& writer) {
  const auto close = [this, id = writer.id] { Close(id); };
  engine_->Flush(writer.endpoint, [this, close](ucs_status_t) { engine_->Post(close); });
  engine_->RunAt(std::chrono::steady_clock::now() + kFarewell, close);
}

void UcxInbound::Close(uint64_t id) {
  const auto it = writers_.find(id);
  if (it == writers_.end() || std::exchange(it->second->closing, true)) return;
  engine_->Close(it->second->endpoint, [this, id](ucs_status_t) {
    engine_->Post([this, id] {
      writers_.erase(id);
      ReportIfDone();
    });
  });
}

void UcxInbound::Shutdown(std::function<void()> on_done) {
  on_done_ = std::move(on_done);
  for (auto& [id, writer] : writers_) {
    if (writer->closing) continue;
    Reply(*writer, kUcxGoodbye, HeaderBytes(UcxGoodbye{writer->writer_session}));
    CloseAfterFlush(*writer);
  }
  ReportIfDone();
}

void UcxInbound::ReportIfDone() {
  if (on_done_ && writers_.empty()) std::exchange(on_done_, [] {})();
}

}  // namespace baton
