#include "common/transport/ucx/ucx_outbound.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "common/base/status.h"
#include "common/transport/put_runs.h"
#include "common/transport/ucx/ucx_status.h"

namespace baton {
namespace {

constexpr uint64_t kPutPieceBytes = 4 << 20;     // a shared-memory put is a copy on the engine's thread
constexpr uint64_t kStagedPieceBytes = 1 << 20;  // a session has a few buffers of it, pinned
constexpr size_t kWindow = 32;                   // pieces under way
constexpr int kPiecesPerTurn = 4;                // then other sessions have theirs
constexpr Duration kReadPoll = std::chrono::milliseconds(1);
constexpr Duration kFarewell = std::chrono::milliseconds(500);

std::string_view Bytes(const PutRun& run) {
  return {reinterpret_cast<const char*>(run.source), static_cast<size_t>(run.bytes)};
}

// The kind of transport that UCX chose for the endpoint. Its only interface that says so in every version is this
// print.
std::string_view LaneOf(ucp_ep_h endpoint) {
  char* text = nullptr;
  size_t size = 0;
  FILE* stream = open_memstream(&text, &size);
  if (stream == nullptr) return "tcp";
  ucp_ep_print_info(endpoint, stream);
  std::fclose(stream);
  const std::string info(text, size);
  std::free(text);
  const auto has = [&](std::string_view part) { return info.find(part) != std::string::npos; };
  if (has("rc_") || has("dc_")) return "rdma";
  return has("posix") || has("sysv") ? "shm" : "tcp";
}

}  // namespace

void UcxOutbound::Open(Duration timeout, OnStatus on_open) {
  on_open_ = std::move(on_open);
  if (const absl::Status status = ConnectEndpoint(); !status.ok()) return End(status);
  engine_->Send(endpoint_, kUcxOpen, HeaderBytes(UcxOpen{target_.instance, id_}), engine_->worker_address(), Track());
  engine_->RunAt(std::chrono::steady_clock::now() + timeout, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self != nullptr && self->on_open_) self->End(Unavailable("the peer did not answer in time"));
  });
}

absl::Status UcxOutbound::ConnectEndpoint() {
  BATON_ASSIGN_OR_RETURN(endpoint_, engine_->Connect(target_.worker_address, &UcxOutbound::OnEndpointError, this));
  if (target_.remote_key.empty()) return absl::OkStatus();
  const ucs_status_t status = ucp_ep_rkey_unpack(endpoint_, target_.remote_key.data(), &remote_key_);
  if (status != UCS_OK) {
    return Unavailable("the peer's pool cannot be reached: %s", ucs_status_string(status));
  }
  return absl::OkStatus();
}

void UcxOutbound::ChooseLane() {
  void* mapped = nullptr;
  if (remote_key_ == nullptr) {
    lane_ = LaneOf(endpoint_);
  } else if (ucp_rkey_ptr(remote_key_, target_.pool_address, &mapped) == UCS_OK) {
    lane_ = "shm";
    mapped_pool_ = static_cast<std::byte*>(mapped);
  } else if (LaneOf(endpoint_) == "rdma") {
    lane_ = "rdma";
  } else {
    messages_ = true;  // UCX would emulate puts by messages that nobody can refuse
  }
}

void UcxOutbound::OnOpened(uint64_t target_session) {
  if (!on_open_) return;
  if (target_session == 0) return End(Unavailable("the peer restarted: its pool is another one"));
  target_session_ = target_session;
  ChooseLane();
  std::exchange(on_open_, nullptr)(absl::OkStatus());
}

void UcxOutbound::AddPut(const WriteStamp& stamp, std::span<const PutRun> runs) {
  if (!status().ok()) return;
  const bool staged = std::ranges::any_of(runs, [](const PutRun& run) { return run.source == nullptr; });
  for (const PutRun& run : ArrangeRuns(runs, messages_ ? kUcxWriteBytes
                                             : staged  ? kStagedPieceBytes
                                                       : kPutPieceBytes)) {
    queue_.push_back({{stamp, run}, 0});
  }
}

void UcxOutbound::AddFlush(OnStatus done) {
  if (const absl::Status ended = status(); !ended.ok()) return done(ended);
  flushes_.emplace(++last_flush_, std::move(done));
  queue_.push_back({{}, last_flush_});
}

bool UcxOutbound::SendSome() {
  if (queue_.empty() || !status().ok()) return false;
  int sent = 0;
  absl::Status read = StartReads();
  while (read.ok() && !queue_.empty() && under_way_ < kWindow && sent < kPiecesPerTurn && status().ok()) {
    Item& first = queue_.front();
    const absl::StatusOr<bool> ready = Ready(first);
    read = ready.status();
    if (!ready.ok() || !*ready) break;
    const Item item = std::move(first);
    queue_.pop_front();
    read_items_ -= std::min<size_t>(read_items_, 1);
    ++sent;
    if (item.flush != 0) {
      SendFlush(item.flush);
    } else {
      SendPiece(item.piece, [this, self = shared_from_this(), buffer = item.read](ucs_status_t) {
        if (buffer) reader_.Release(*buffer);
      });
    }
  }
  if (!read.ok()) End(WithContext(read, "reading the source"));
  return sent > 0 || reader_.worth_polling();
}

// In the order of the queue, as far as there are buffers.
absl::Status UcxOutbound::StartReads() {
  for (; read_items_ < queue_.size(); ++read_items_) {
    Item& item = queue_[read_items_];
    if (item.flush != 0 || item.piece.run.source != nullptr) continue;
    BATON_ASSIGN_OR_RETURN(item.read, reader_.Start(item.piece.run, messages_ ? kUcxWriteBytes : kStagedPieceBytes,
                                                    !messages_ && mapped_pool_ == nullptr));
    if (!item.read) return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> UcxOutbound::Ready(Item& item) {
  if (item.flush != 0 || item.piece.run.source != nullptr) return true;
  if (!item.read) return false;
  BATON_ASSIGN_OR_RETURN(const std::byte* const bytes, reader_.Bytes(*item.read));
  if (bytes == nullptr) {
    if (!reader_.worth_polling() && !std::exchange(poll_later_, true)) {
      engine_->RunAt(std::chrono::steady_clock::now() + kReadPoll, [weak = weak_from_this()] {
        if (const auto self = weak.lock()) self->poll_later_ = false;
      });
    }
    return false;
  }
  item.piece.run.source = bytes;
  return true;
}

// `on_complete` when the source's bytes are not needed any more, whatever became of them.
void UcxOutbound::SendPiece(const Piece& piece, UcxEngine::OnComplete on_complete) {
  if (messages_) {
    ++writes_sent_;
    const UcxWrite header{target_session_, piece.stamp.lease.value, piece.stamp.generation, piece.run.target_offset};
    engine_->Send(endpoint_, kUcxWrite, HeaderBytes(header), Bytes(piece.run), Track());
    on_complete(UCS_OK);
  } else if (mapped_pool_ != nullptr) {
    // What UCX's own put would do, without the risk that it picks another lane for it.
    std::memcpy(mapped_pool_ + piece.run.target_offset, piece.run.source, piece.run.bytes);
    on_complete(UCS_OK);
  } else {
    engine_->Put(endpoint_, Bytes(piece.run), target_.pool_address + piece.run.target_offset, remote_key_,
                 [track = Track(), on_complete = std::move(on_complete)](ucs_status_t status) {
                   on_complete(status);
                   track(status);
                 });
  }
}

void UcxOutbound::SendFlush(uint64_t flush) {
  if (messages_) {
    engine_->Send(endpoint_, kUcxFlush, HeaderBytes(UcxFlush{target_session_, flush, writes_sent_}), {}, Track());
    return;
  }
  if (mapped_pool_ != nullptr) return FinishFlush(flush, absl::OkStatus());
  engine_->Flush(endpoint_, [this, flush, track = Track()](ucs_status_t status) {
    const auto self = shared_from_this();
    if (status == UCS_OK) FinishFlush(flush, absl::OkStatus());
    track(status);
  });
}

void UcxOutbound::OnFlushed(uint64_t flush) { FinishFlush(flush, absl::OkStatus()); }
void UcxOutbound::OnGoodbye() { End(Unavailable("the peer closed its pool, or could not write to it")); }

void UcxOutbound::FinishFlush(uint64_t flush, const absl::Status& status) {
  auto node = flushes_.extract(flush);
  if (!node.empty()) node.mapped()(status);
}

// Counts an operation until UCX has finished it, and keeps this session alive so long.
UcxEngine::OnComplete UcxOutbound::Track() {
  ++under_way_;
  return [self = shared_from_this()](ucs_status_t status) {
    --self->under_way_;
    if (status != UCS_OK) {
      self->endpoint_failed_ = true;
      // Not from inside the call that failed: ending closes the endpoint.
      self->engine_->Post([self, status] { self->End(Unavailable("put: %s", ucs_status_string(status))); });
    }
    self->ReportIfClosed();
  };
}

void UcxOutbound::OnEndpointError(void* argument, ucp_ep_h, ucs_status_t status) {
  const auto self = static_cast<UcxOutbound*>(argument)->shared_from_this();
  self->endpoint_failed_ = true;
  self->engine_->Post(
      [self, status] { self->End(Unavailable("connection to the peer: %s", ucs_status_string(status))); });
}

void UcxOutbound::End(const absl::Status& status) {
  absl::Status ended;
  {
    absl::MutexLock lock(&mutex_);
    if (status_.ok()) status_ = status;
    ended = status_;
  }
  queue_.clear();
  read_items_ = 0;
  if (on_open_) std::exchange(on_open_, nullptr)(ended);
  for (auto& [flush, done] : std::exchange(flushes_, {})) done(ended);
  if (target_session_ == 0 || endpoint_failed_) {
    CloseEndpoint();
  } else if (ended.code() != absl::StatusCode::kCancelled) {
    CloseEndpointWhenSent();
  }
}

void UcxOutbound::Close(std::function<void()> on_closed) {
  on_closed_ = std::move(on_closed);
  End(Cancelled("the session was closed"));
  if (endpoint_ != nullptr && !closing_endpoint_) {
    engine_->Send(endpoint_, kUcxClose, HeaderBytes(UcxClose{target_session_}), {}, Track());
    CloseEndpointWhenSent();
  }
  ReportIfClosed();
}

// UCX's tcp lane does not survive a forced close with a message half sent: it cuts the stream there, keeps the socket
// for the other direction, and reads freed memory when the peer closes its side (1.13 and later). So an endpoint with
// messages stays until they have left or the peer is gone. Puts refer to their owner's memory and do not wait so long.
void UcxOutbound::CloseEndpointWhenSent() {
  if (endpoint_ == nullptr || closing_endpoint_ || std::exchange(flushing_out_, true)) return;
  engine_->Flush(endpoint_, [self = shared_from_this(), track = Track()](ucs_status_t status) {
    self->engine_->Post([self] { self->CloseEndpoint(); });
    track(status);
  });
  engine_->RunAt(std::chrono::steady_clock::now() + kFarewell, [self = shared_from_this()] {
    if (!self->messages_) return self->CloseEndpoint();
    self->lingering_ = true;
    self->ReportIfClosed();
  });
}

void UcxOutbound::CloseEndpoint() {
  if (endpoint_ == nullptr || std::exchange(closing_endpoint_, true)) return;
  engine_->Close(endpoint_, [self = shared_from_this()](ucs_status_t) {
    self->endpoint_ = nullptr;
    self->ReportIfClosed();
  });
}

void UcxOutbound::ReportIfClosed() {
  if (!on_closed_ || (!lingering_ && (endpoint_ != nullptr || under_way_ > 0))) return;
  if (remote_key_ != nullptr) ucp_rkey_destroy(std::exchange(remote_key_, nullptr));
  reader_.Close();
  std::exchange(on_closed_, nullptr)();
}

absl::Status UcxOutbound::status() const {
  absl::MutexLock lock(&mutex_);
  return status_;
}

}  // namespace baton
