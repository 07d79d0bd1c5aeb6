#pragma once

// The target's side: who writes to the pool, and what happens to writes that come as messages. Lives on the engine's
// thread.

#include <ucp/api/ucp.h>

#include <functional>
#include <map>
#include <memory>
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
  void SetPool(std::span<std::byte> pool) { pool_ = pool; }
  void SetGate(WriteGate* gate) { gate_ = gate; }
  // Says goodbye to all writers; `on_done` once their endpoints are closed.
  void Shutdown(std::function<void()> on_done);

 private:
  struct Writer {
    UcxInbound* owner = nullptr;
    uint64_t id = 0;              // of the session here
    uint64_t writer_session = 0;  // of the session there
    ucp_ep_h endpoint = nullptr;  // back to the writer
    bool closing = false;
    uint64_t writes = 0;                                 // that arrived
    std::vector<std::pair<uint64_t, uint64_t>> flushes;  // (flush, writes it waits for)
  };

  static void OnEndpointError(void* argument, ucp_ep_h endpoint, ucs_status_t status);
  void OnOpen(uint64_t instance, uint64_t writer_session, const std::string& worker_address);
  void OnWrite(std::string_view header, std::string_view payload);
  void OnFlush(std::string_view header);
  void AnswerFlushes(Writer& writer);
  void Reply(Writer& writer, UcxMessageId id, std::string header);
  void Close(uint64_t id);
  void CloseAfterFlush(Writer& writer);
  void ReportIfDone();

  UcxEngine* const engine_;
  const uint64_t instance_;
  std::span<std::byte> pool_;
  WriteGate* gate_ = nullptr;
  std::map<uint64_t, std::unique_ptr<Writer>> writers_;
  std::function<void()> on_done_;
};

}  // namespace baton
