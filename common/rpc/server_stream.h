#pragma once

// Server side of streaming calls on gRPC's callback API: messages may be sent and the call ended from any thread.
//
// Lifetime: a stream keeps itself until gRPC reports the call done; the handler may keep a shared_ptr longer, sends are
// then dropped. The stream lets go of its handler at the end, so the two may point at each other.

#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "common/rpc/outgoing_queue.h"

namespace baton {

// Called on gRPC's threads, one call at a time except OnGone, which may come beside OnMessage.
template <typename Request>
class ServerStreamHandler {
 public:
  virtual ~ServerStreamHandler() = default;
  virtual void OnMessage(Request message) = 0;
  // The client cancelled, its deadline passed, its connection broke, or the call ended. Once; nothing follows.
  virtual void OnGone() = 0;
};

template <typename Request, typename Response>
class ServerBidiStream final : public grpc::ServerBidiReactor<Request, Response> {
 public:
  static std::shared_ptr<ServerBidiStream> Create() {
    auto stream = std::shared_ptr<ServerBidiStream>(new ServerBidiStream());
    stream->self_ = stream;
    return stream;
  }

  // Starts reading. Once, before the reactor is returned to gRPC; left out when the call is ended at once.
  void Start(std::shared_ptr<ServerStreamHandler<Request>> handler) {
    handler_ = std::move(handler);
    this->StartRead(&request_);
  }

  void Send(Response message) { queue_.Push(std::move(message)); }
  void End(grpc::Status status) { queue_.Finish(std::move(status)); }

  void OnReadDone(bool ok) override {
    if (!ok) {
      // Nothing will ever say what this call is for.
      if (!heard_) End(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "the call has no message"));
      return;
    }
    heard_ = true;
    handler_->OnMessage(std::move(request_));
    request_ = Request();
    this->StartRead(&request_);
  }
  void OnWriteDone(bool ok) override { queue_.OnWritten(ok); }
  void OnCancel() override {
    Gone();
    // Nobody is there to read an end of the handler's; without one the call would never be over.
    queue_.Finish(grpc::Status::CANCELLED);
  }
  void OnDone() override {
    queue_.Close();
    Gone();
    handler_.reset();
    self_.reset();
  }

 private:
  ServerBidiStream() = default;

  void Gone() {
    if (!gone_.exchange(true) && handler_) handler_->OnGone();
  }

  OutgoingQueue<Response, grpc::Status> queue_{[this](const Response& message) { this->StartWrite(&message); },
                                               [this](const grpc::Status& status) { this->Finish(status); }};
  Request request_;
  bool heard_ = false;                                     // by the reads, which come one at a time
  std::shared_ptr<ServerStreamHandler<Request>> handler_;  // null when the call was ended at once
  std::atomic<bool> gone_{false};
  std::shared_ptr<ServerBidiStream> self_;
};

// The same for calls with one request and many responses. `on_gone` as ServerStreamHandler::OnGone.
template <typename Response>
class ServerWriteStream final : public grpc::ServerWriteReactor<Response> {
 public:
  static std::shared_ptr<ServerWriteStream> Create() {
    auto stream = std::shared_ptr<ServerWriteStream>(new ServerWriteStream());
    stream->self_ = stream;
    return stream;
  }

  // Before the reactor is returned to gRPC; may be left out when the call ends at once.
  void SetOnGone(std::function<void()> on_gone) { on_gone_ = std::move(on_gone); }

  void Send(Response message) { queue_.Push(std::move(message)); }
  void End(grpc::Status status) { queue_.Finish(std::move(status)); }
  // Messages not yet taken by gRPC: a slow reader's backlog.
  size_t backlog() const { return queue_.size(); }
  size_t backlog_bytes() const { return queue_.bytes(); }

  void OnWriteDone(bool ok) override { queue_.OnWritten(ok); }
  void OnCancel() override {
    Gone();
    // Nobody is there to read an end of the handler's; without one the call would never be over.
    queue_.Finish(grpc::Status::CANCELLED);
  }
  void OnDone() override {
    queue_.Close();
    Gone();
    on_gone_ = nullptr;
    self_.reset();
  }

 private:
  ServerWriteStream() = default;

  void Gone() {
    if (!gone_.exchange(true) && on_gone_) on_gone_();
  }

  OutgoingQueue<Response, grpc::Status> queue_{[this](const Response& message) { this->StartWrite(&message); },
                                               [this](const grpc::Status& status) { this->Finish(status); }};
  std::function<void()> on_gone_;
  std::atomic<bool> gone_{false};
  std::shared_ptr<ServerWriteStream> self_;
};

}  // namespace baton
