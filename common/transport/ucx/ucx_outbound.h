#pragma once

// The writer's side of one session: an endpoint, a queue of pieces, a bounded window of them under way. Lives on the
// engine's thread; only status() may be called from others.

#include <ucp/api/ucp.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/transport/kv_transport.h"
#include "common/transport/ucx/ucx_descriptor.h"
#include "common/transport/ucx/ucx_engine.h"
#include "common/transport/ucx/ucx_reader.h"

namespace baton {

class UcxOutbound : public std::enable_shared_from_this<UcxOutbound> {
 public:
  using OnStatus = std::function<void(const absl::Status&)>;

  UcxOutbound(UcxEngine* engine, uint64_t id, UcxDescriptor target, const PutSource& source, bool message_puts)
      : engine_(engine),
        id_(id),
        target_(std::move(target)),
        messages_(message_puts || target_.refuse_one_sided || target_.remote_key.empty()),
        reader_(source, engine->reaches_devices()) {}

  // Connects and asks the target's process for an answer; `on_open` hears of success or of the end, once.
  void Open(Duration timeout, OnStatus on_open);
  void AddPut(const WriteStamp& stamp, std::span<const PutRun> runs);
  void AddFlush(OnStatus done);
  // Sends what the window allows; true when it sent something.
  bool SendSome();
  // Open flushes report CANCELLED; `on_closed` is called when UCX holds no memory of the session's
  // owner any more; messages to a peer that does not read leave later, or when the peer dies.
  void Close(std::function<void()> on_closed);

  void OnOpened(uint64_t target_session);
  void OnFlushed(uint64_t flush);
  void OnGoodbye();

  absl::Status status() const;  // any thread; the error that ended the session
  uint64_t pool_bytes() const { return target_.pool_bytes; }
  std::string_view lane() const { return lane_; }

 private:
  struct Piece {
    WriteStamp stamp;
    PutRun run;
  };
  // A piece, or with `flush` set the flush of that number.
  struct Item {
    Piece piece;
    uint64_t flush = 0;
    std::optional<size_t> read;  // the reader's buffer, once its read was started
  };

  static void OnEndpointError(void* argument, ucp_ep_h endpoint, ucs_status_t status);
  absl::Status ConnectEndpoint();
  void ChooseLane();
  void SendPiece(const Piece& piece, UcxEngine::OnComplete on_complete);
  absl::Status StartReads();
  // Whether the first item may be sent; puts in the source of a piece that was read.
  absl::StatusOr<bool> Ready(Item& item);
  void SendFlush(uint64_t flush);
  UcxEngine::OnComplete Track();
  void FinishFlush(uint64_t flush, const absl::Status& status);
  void End(const absl::Status& status);
  void CloseEndpoint();
  void CloseEndpointWhenSent();
  void ReportIfClosed();

  UcxEngine* const engine_;
  const uint64_t id_;
  const UcxDescriptor target_;
  bool messages_;  // puts travel as messages that the target may refuse
  std::string_view lane_ = "tcp";
  std::byte* mapped_pool_ = nullptr;  // the peer's pool in this address space, where shared memory reaches it
  ucp_ep_h endpoint_ = nullptr;
  ucp_rkey_h remote_key_ = nullptr;
  bool endpoint_failed_ = false;
  bool closing_endpoint_ = false;
  bool flushing_out_ = false;
  bool lingering_ = false;  // closed for its owner; messages that UCX has copies of still leave
  uint64_t target_session_ = 0;
  OnStatus on_open_;
  std::function<void()> on_closed_;

  std::deque<Item> queue_;
  bool poll_later_ = false;  // a timer will look after the first item's read
  size_t read_items_ = 0;    // of the first ones, whose reads were started as far as they need one
  UcxReader reader_;
  size_t under_way_ = 0;  // operations that UCX has not finished
  uint64_t writes_sent_ = 0;
  uint64_t last_flush_ = 0;
  std::map<uint64_t, OnStatus> flushes_;

  mutable absl::Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton
