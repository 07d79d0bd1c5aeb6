#include "common/transport/ucx/ucx_engine.h"

#include <poll.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/synchronization/notification.h"
#include "common/base/start_thread.h"
#include "common/base/status.h"
#include "common/telemetry/log.h"
#include "common/transport/ucx/ucx_config.h"
#include "common/transport/ucx/ucx_status.h"

namespace baton {
namespace {

constexpr Duration kSettle = std::chrono::milliseconds(20);
constexpr Duration kDrain = std::chrono::seconds(1);
constexpr int kProgressPerRound = 64;  // tasks and timers get their turn under any traffic

// What lives until UCX is done with a request: the bytes of a message, and whom to tell.
struct Operation {
  std::string header, payload;
  UcxEngine::OnComplete on_complete;
};

void Finish(Operation* operation, ucs_status_t status) {
  const std::unique_ptr<Operation> owned(operation);
  owned->on_complete(status);
}

void OnRequestDone(void* request, ucs_status_t status, void* user_data) {
  ucp_request_free(request);
  Finish(static_cast<Operation*>(user_data), status);
}

ucp_request_param_t RequestParameters(Operation* operation, uint32_t flags = 0) {
  ucp_request_param_t parameters{};
  parameters.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  parameters.flags = flags;
  parameters.cb.send = OnRequestDone;
  parameters.user_data = operation;
  return parameters;
}

// What a call returned at once: done, failed, or under way with the callback to come.
void FinishIfImmediate(ucs_status_ptr_t request, Operation* operation) {
  if (!UCS_PTR_IS_PTR(request)) Finish(operation, UCS_PTR_STATUS(request));
}

ucs_status_t OnMessage(void* argument, const void* header, size_t header_length, void* data, size_t length,
                       const ucp_am_recv_param_t* parameters) {
  // Senders ask for eager messages; a rendezvous offer is nobody of ours and dropped.
  if ((parameters->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) return UCS_OK;
  (*static_cast<UcxEngine::MessageHandler*>(argument))(
      std::string_view(static_cast<const char*>(header), header_length),
      std::string_view(static_cast<const char*>(data), length));
  return UCS_OK;
}

}  // namespace

absl::StatusOr<std::unique_ptr<UcxEngine>> UcxEngine::Start(const TransportOptions& options) {
  std::unique_ptr<UcxEngine> engine(new UcxEngine());
  absl::Status opened;
  absl::Notification ready;
  const auto run = [&opened, &ready, &options, raw = engine.get()] {
    opened = raw->Open(options);
    const bool ok = opened.ok();
    ready.Notify();  // `opened` and `options` may be gone from here on
    if (ok) raw->Run();
    raw->Release();
  };
  BATON_ASSIGN_OR_RETURN(engine->thread_, StartThread([&] { return std::thread(run); }));
  ready.WaitForNotification();
  if (!opened.ok()) return opened;
  return engine;
}

void UcxEngine::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  wake_.Wake();
  if (thread_.joinable()) thread_.join();
}

absl::Status UcxEngine::Open(const TransportOptions& options) {
  TameUcx();
  BATON_ASSIGN_OR_RETURN(context_, MakeUcxContext(options));
  ucp_context_attr_t attributes{};
  attributes.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
  BATON_RETURN_IF_ERROR(UcxStatus(ucp_context_query(context_, &attributes), "UCX context"));
  reaches_devices_ = (attributes.memory_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA)) != 0;
  ucp_worker_params_t parameters{};
  parameters.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  parameters.thread_mode = UCS_THREAD_MODE_SINGLE;
  BATON_RETURN_IF_ERROR(UcxStatus(ucp_worker_create(context_, &parameters, &worker_), "UCX worker"));
  BATON_RETURN_IF_ERROR(UcxStatus(ucp_worker_get_efd(worker_, &event_fd_), "UCX wake-up descriptor"));
  ucp_address_t* address = nullptr;
  size_t bytes = 0;
  BATON_RETURN_IF_ERROR(UcxStatus(ucp_worker_get_address(worker_, &address, &bytes), "UCX worker address"));
  worker_address_.assign(reinterpret_cast<const char*>(address), bytes);
  ucp_worker_release_address(worker_, address);
  return absl::OkStatus();
}

void UcxEngine::Release() {
  if (worker_ != nullptr && !Drain()) {
    // To destroy a worker that has messages under way can fail an assertion in UCX (1.13: a reply of its own to a new
    // connection). So it stays, deliberately: it is small and ends with the process, which a crash would end now.
    Logger("ucx", LogLevel::kWarning)
        .Write(LogLevel::kWarning, "left a UCX worker behind: a stopped or dead peer did not take what was sent to it",
               {});
    return;
  }
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
  if (context_ != nullptr) ucp_cleanup(context_);
}

// Waits until UCX has nothing under way, of ours or of its own (connections that peers began), but not for long: a
// stopped peer may never take its share. Callbacks still count down what they belong to; new tasks do not run any more.
bool UcxEngine::Drain() {
  const TimePoint deadline = std::chrono::steady_clock::now() + kDrain;
  const auto progress_until = [&](TimePoint end, const std::function<bool()>& done) {
    while (!done()) {
      const TimePoint now = std::chrono::steady_clock::now();
      if (now >= end) return false;
      if (ucp_worker_progress(worker_) == 0 && ucp_worker_arm(worker_) == UCS_OK) Sleep(PollTimeout(end, now));
    }
    return true;
  };
  // A connection that is being made holds UCX's own messages, which a flush does not see: its answer comes soon.
  progress_until(std::chrono::steady_clock::now() + kSettle, [] { return false; });
  const auto flushed = std::make_shared<bool>(false);
  auto* operation = new Operation{{}, {}, [flushed](ucs_status_t) { *flushed = true; }};
  const ucp_request_param_t parameters = RequestParameters(operation);
  FinishIfImmediate(ucp_worker_flush_nbx(worker_, &parameters), operation);
  return progress_until(deadline, [&] { return *flushed && under_way_ == 0; });
}

void UcxEngine::Post(std::function<void()> task) {
  {
    absl::MutexLock lock(&mutex_);
    tasks_.push_back(std::move(task));
  }
  wake_.Wake();
}

void UcxEngine::Call(const std::function<void()>& task) {
  absl::Notification done;
  Post([&] {
    task();
    done.Notify();
  });
  done.WaitForNotification();
}

void UcxEngine::Run() {
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      if (stopping_ && tasks_.empty()) break;
    }
    bool busy = RunTasks();
    const int timeout_ms = RunTimers();
    if (pump_ && pump_()) busy = true;
    for (int i = 0; i < kProgressPerRound && ucp_worker_progress(worker_) != 0; ++i) busy = true;
    if (busy) continue;
    // Arming fails as long as something has arrived since the last look.
    if (ucp_worker_arm(worker_) == UCS_OK) Sleep(timeout_ms);
  }
}

bool UcxEngine::RunTasks() {
  std::vector<std::function<void()>> tasks;
  {
    absl::MutexLock lock(&mutex_);
    tasks.swap(tasks_);
  }
  for (const auto& task : tasks) task();
  return !tasks.empty();
}

int UcxEngine::RunTimers() {
  const TimePoint now = std::chrono::steady_clock::now();
  while (!timers_.empty() && timers_.begin()->first <= now) {
    const auto task = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    task();
  }
  return timers_.empty() ? -1 : PollTimeout(timers_.begin()->first, now);
}

void UcxEngine::Sleep(int timeout_ms) const {
  std::array<pollfd, 2> entries = {pollfd{event_fd_, POLLIN, 0}, pollfd{wake_.get(), POLLIN, 0}};
  poll(entries.data(), entries.size(), timeout_ms);
  wake_.Drain();
}

void UcxEngine::RunAt(TimePoint when, std::function<void()> task) { timers_.emplace(when, std::move(task)); }

absl::Status UcxEngine::SetMessageHandler(UcxMessageId id, MessageHandler handler) {
  handlers_[id] = std::make_unique<MessageHandler>(std::move(handler));
  ucp_am_handler_param_t parameters{};
  parameters.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                          UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  parameters.id = id;
  parameters.flags = UCP_AM_FLAG_WHOLE_MSG;
  parameters.cb = OnMessage;
  parameters.arg = handlers_[id].get();
  return UcxStatus(ucp_worker_set_am_recv_handler(worker_, &parameters), "UCX message handler");
}

UcxEngine::OnComplete UcxEngine::Counted(OnComplete on_complete) {
  ++under_way_;
  return [this, on_complete = std::move(on_complete)](ucs_status_t status) {
    --under_way_;
    on_complete(status);
  };
}

void UcxEngine::Send(ucp_ep_h endpoint, UcxMessageId id, std::string header, std::string_view payload,
                     OnComplete on_complete) {
  auto* operation = new Operation{std::move(header), std::string(payload), Counted(std::move(on_complete))};
  // Eager: a rendezvous would let the bytes land after the target was asked about them.
  const ucp_request_param_t parameters = RequestParameters(operation, UCP_AM_SEND_FLAG_EAGER);
  FinishIfImmediate(ucp_am_send_nbx(endpoint, id, operation->header.data(), operation->header.size(),
                                    operation->payload.data(), operation->payload.size(), &parameters),
                    operation);
}

void UcxEngine::Put(ucp_ep_h endpoint, std::string_view bytes, uint64_t address, ucp_rkey_h key,
                    OnComplete on_complete) {
  auto* operation = new Operation{{}, {}, Counted(std::move(on_complete))};
  const ucp_request_param_t parameters = RequestParameters(operation);
  FinishIfImmediate(ucp_put_nbx(endpoint, bytes.data(), bytes.size(), address, key, &parameters), operation);
}

void UcxEngine::Flush(ucp_ep_h endpoint, OnComplete on_complete) {
  auto* operation = new Operation{{}, {}, Counted(std::move(on_complete))};
  const ucp_request_param_t parameters = RequestParameters(operation);
  FinishIfImmediate(ucp_ep_flush_nbx(endpoint, &parameters), operation);
}

void UcxEngine::Close(ucp_ep_h endpoint, OnComplete on_complete) {
  auto* operation = new Operation{{}, {}, Counted(std::move(on_complete))};
  const ucp_request_param_t parameters = RequestParameters(operation, UCP_EP_CLOSE_FLAG_FORCE);
  FinishIfImmediate(ucp_ep_close_nbx(endpoint, &parameters), operation);
}

absl::StatusOr<ucp_ep_h> UcxEngine::Connect(const std::string& worker_address, ucp_err_handler_cb_t on_error,
                                            void* argument) {
  ucp_ep_params_t parameters{};
  parameters.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  parameters.address = reinterpret_cast<const ucp_address_t*>(worker_address.data());
  parameters.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  parameters.err_handler = {on_error, argument};
  ucp_ep_h endpoint = nullptr;
  if (const ucs_status_t status = ucp_ep_create(worker_, &parameters, &endpoint); status != UCS_OK) {
    return Unavailable("no UCX lane to the peer: %s (UCX status %d)", ucs_status_string(status),
                       static_cast<int>(status));
  }
  return endpoint;
}

}  // namespace baton
