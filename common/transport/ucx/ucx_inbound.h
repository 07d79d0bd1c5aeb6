#pragma once

// The target's side: who writes to the pool, and what happens to writes that come as messages. Lives on the engine's
// thread.

#include <ucp/api/ucp.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/transport/kv_transport.h"
#include "common/transport/ucx/ucx_engine.h"

namespace baton {

class UcxInbound {
 public:
  UcxInbound(UcxEngine* engine, uint64_t instance) : engine_(engine), instance_(instance) {}
  absl::Status RegisterHandlers();
  void SetPool(std::span<std::byte> pool) {
    pool_bytes_ = pool.size();
    pool_ = pool.data();
  }
  // Messages land in buffers of `staging`, of kUcxWriteBytes each, and go into the pool from there.
  void SetPool(uint64_t pool_bytes, std::unique_ptr<PoolStaging> staging) {
    pool_bytes_ = pool_bytes;
    staging_ = std::move(staging);
  }
  // After it the last gate is not called any more.
  void SetGate(WriteGate* gate) {
    FinishAll();
    gate_ = gate;
  }
  // Takes note of writes that are in the pool by now; true when it is worth calling again at once.
  bool FinishWrites();
  // Waits until nothing writes to the pool any more.
  void Release() {
    FinishAll();
    staging_.reset();
    pool_bytes_ = 0;
  }
  static constexpr size_t kBuffers = 8;
  // Says goodbye to all writers; `on_done` once their endpoints are closed.
  void Shutdown(std::function<void()> on_done);

 private:
  struct Writer {
    UcxInbound* owner = nullptr;
    uint64_t id = 0;              // of the session here
    uint64_t writer_session = 0;  // of the session there
    ucp_ep_h endpoint = nullptr;  // back to the writer
    bool closing = false;
    bool failed = false;                                 // a write of it could not be applied
    uint64_t writes = 0;                                 // that arrived
    std::vector<std::pair<uint64_t, uint64_t>> flushes;  // (flush, writes it waits for)
  };

  // A message that came, in order; admitted ones are being copied from their buffer.
  struct Arrival {
    uint64_t writer = 0;
    WriteStamp stamp;
    uint64_t offset = 0, bytes = 0;
    std::optional<size_t> buffer;
    bool failed = false;
  };

  static void OnEndpointError(void* argument, ucp_ep_h endpoint, ucs_status_t status);
  void OnOpen(uint64_t instance, uint64_t writer_session, const std::string& worker_address);
  void OnWrite(std::string_view header, std::string_view payload);
  void OnFlush(std::string_view header);
  void Arrive(Arrival arrival, std::string_view payload);
  void FinishFirst(const absl::Status& copied);
  void FinishAll();
  void CountWrite(uint64_t writer);
  void Fail(uint64_t id);
  void AnswerFlushes(Writer& writer);
  void Reply(Writer& writer, UcxMessageId id, std::string header);
  void Close(uint64_t id);
  void CloseAfterFlush(Writer& writer);
  void ReportIfDone();

  UcxEngine* const engine_;
  const uint64_t instance_;
  uint64_t pool_bytes_ = 0;
  std::byte* pool_ = nullptr;             // memory of this process, or
  std::unique_ptr<PoolStaging> staging_;  // the way into it
  size_t next_buffer_ = 0;
  size_t buffers_in_use_ = 0;
  std::deque<Arrival> arrivals_;  // not yet counted
  TimePoint poll_until_;
  bool poll_later_ = false;
  WriteGate* gate_ = nullptr;
  std::map<uint64_t, std::unique_ptr<Writer>> writers_;
  std::function<void()> on_done_;
};

}  // namespace baton
