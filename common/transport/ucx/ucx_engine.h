#pragma once

// One UCX context and worker, and the thread that alone calls UCX. It sleeps on the worker's wake-up descriptor; a
// thread that spins would take a core from the model.

#include <ucp/api/ucp.h>

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/base/clock.h"
#include "common/transport/catalogue.h"
#include "common/transport/framed_socket.h"
#include "common/transport/ucx/ucx_messages.h"

namespace baton {

class UcxEngine {
 public:
  // Work of one kind that the thread goes on with as long as there is some; true when it did something.
  using Pump = std::function<bool()>;

  static absl::StatusOr<std::unique_ptr<UcxEngine>> Start(const TransportOptions& options);
  ~UcxEngine() { Stop(); }
  // Ends the thread after the tasks that are posted by now, and with it UCX's worker and context. Timers do not run any
  // more.
  void Stop();

  // From any thread: runs `task` on the engine's thread, soon; or waits for that.
  void Post(std::function<void()> task);
  void Call(const std::function<void()>& task);

  // The rest: on the engine's thread only.
  ucp_context_h context() const { return context_; }
  ucp_worker_h worker() const { return worker_; }
  const std::string& worker_address() const { return worker_address_; }
  // UCX reads and writes CUDA memory itself.
  bool reaches_devices() const { return reaches_devices_; }
  void RunAt(TimePoint when, std::function<void()> task);
  void SetPump(Pump pump) { pump_ = std::move(pump); }
  // Calls `handler` with header and payload of every message of this id; both are gone when it returns.
  using MessageHandler = std::function<void(std::string_view header, std::string_view payload)>;
  absl::Status SetMessageHandler(UcxMessageId id, MessageHandler handler);

  using OnComplete = std::function<void(ucs_status_t)>;
  // `on_complete` is called exactly once, perhaps before these return. Send copies header and payload; the
  // bytes of a put must stay until then.
  void Send(ucp_ep_h endpoint, UcxMessageId id, std::string header, std::string_view payload, OnComplete on_complete);
  void Put(ucp_ep_h endpoint, std::string_view bytes, uint64_t address, ucp_rkey_h key, OnComplete on_complete);
  void Flush(ucp_ep_h endpoint, OnComplete on_complete);
  // Forced: what is under way ends with an error before `on_complete`.
  void Close(ucp_ep_h endpoint, OnComplete on_complete);
  // An endpoint whose failure is reported to `on_error`, from inside a UCX call: it must only take note.
  absl::StatusOr<ucp_ep_h> Connect(const std::string& worker_address, ucp_err_handler_cb_t on_error, void* argument);

 private:
  UcxEngine() = default;
  absl::Status Open(const TransportOptions& options);
  void Run();
  bool RunTasks();
  int RunTimers();
  void Sleep(int timeout_ms) const;
  void Release();
  bool Drain();
  OnComplete Counted(OnComplete on_complete);

  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int event_fd_ = -1;     // the worker's
  size_t under_way_ = 0;  // operations that have not called back
  std::string worker_address_;
  bool reaches_devices_ = false;
  const WakeFd wake_;
  std::map<UcxMessageId, std::unique_ptr<MessageHandler>> handlers_;
  std::multimap<TimePoint, std::function<void()>> timers_;
  Pump pump_;

  absl::Mutex mutex_;
  std::vector<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// A message header's bytes, and back; false when the size is not the struct's.
template <typename Header>
std::string HeaderBytes(const Header& header) {
  return std::string(reinterpret_cast<const char*>(&header), sizeof(header));
}
template <typename Header>
bool ReadHeader(std::string_view bytes, Header* header) {
  if (bytes.size() != sizeof(Header)) return false;
  std::memcpy(header, bytes.data(), sizeof(Header));
  return true;
}

}  // namespace baton
