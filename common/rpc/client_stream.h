#pragma once

// Client side of bidirectional calls on gRPC's callback API: messages may be sent and the call cancelled from any
// thread.

#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include <functional>
#include <memory>
#include <utility>

#include "common/rpc/outgoing_queue.h"

namespace baton {

// Called on gRPC's threads, one call at a time.
template <typename Response>
class ClientStreamHandler {
 public:
  virtual ~ClientStreamHandler() = default;
  virtual void OnMessage(Response message) = 0;
  // The call's status. Once, last.
  virtual void OnEnd(const grpc::Status& status) = 0;
};

// Keeps itself until the call is over, and its handler until OnEnd has returned.
template <typename Request, typename Response>
class ClientBidiStream final : public grpc::ClientBidiReactor<Request, Response> {
 public:
  // `start` calls the stub: [&](grpc::ClientContext* context, auto* reactor) { stub->async()->Prefill(context,
  // reactor); }
  template <typename StartFunction>
  static std::shared_ptr<ClientBidiStream> Start(std::shared_ptr<ClientStreamHandler<Response>> handler,
                                                 const StartFunction& start) {
    auto stream = std::shared_ptr<ClientBidiStream>(new ClientBidiStream());
    stream->self_ = stream;
    stream->handler_ = std::move(handler);
    start(&stream->context_, stream.get());
    stream->AddHold();  // for writes that start outside of reactions
    stream->StartRead(&stream->response_);
    stream->StartCall();
    return stream;
  }

  void Send(Request message) { queue_.Push(std::move(message)); }
  // No further messages from this side.
  void HalfClose() { queue_.Finish(HalfCloseMark{}); }
  // OnEnd follows with CANCELLED (or with what came first).
  void Cancel() { context_.TryCancel(); }

  void OnReadDone(bool ok) override {
    if (ok) {
      handler_->OnMessage(std::move(response_));
      response_ = Response();
      this->StartRead(&response_);
      return;
    }
    queue_.Close();
    this->RemoveHold();
  }
  void OnWriteDone(bool ok) override { queue_.OnWritten(ok); }
  void OnDone(const grpc::Status& status) override {
    handler_->OnEnd(status);
    handler_.reset();
    self_.reset();
  }

 private:
  struct HalfCloseMark {};
  ClientBidiStream() = default;

  grpc::ClientContext context_;
  OutgoingQueue<Request, HalfCloseMark> queue_{[this](const Request& message) { this->StartWrite(&message); },
                                               [this](const HalfCloseMark&) { this->StartWritesDone(); }};
  Response response_;
  std::shared_ptr<ClientStreamHandler<Response>> handler_;
  std::shared_ptr<ClientBidiStream> self_;
};

// The same for calls with one request and many responses.
template <typename Request, typename Response>
class ClientReadStream final : public grpc::ClientReadReactor<Response> {
 public:
  // `start` calls the stub: [&](context, const Request* request, auto* reactor) { stub->async()->WatchState(...); }
  template <typename StartFunction>
  static std::shared_ptr<ClientReadStream> Start(Request request,
                                                 std::shared_ptr<ClientStreamHandler<Response>> handler,
                                                 const StartFunction& start) {
    auto stream = std::shared_ptr<ClientReadStream>(new ClientReadStream());
    stream->self_ = stream;
    stream->request_ = std::move(request);
    stream->handler_ = std::move(handler);
    start(&stream->context_, &stream->request_, stream.get());
    stream->StartRead(&stream->response_);
    stream->StartCall();
    return stream;
  }

  void Cancel() { context_.TryCancel(); }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    handler_->OnMessage(std::move(response_));
    response_ = Response();
    this->StartRead(&response_);
  }
  void OnDone(const grpc::Status& status) override {
    handler_->OnEnd(status);
    handler_.reset();
    self_.reset();
  }

 private:
  ClientReadStream() = default;

  grpc::ClientContext context_;
  Request request_;
  Response response_;
  std::shared_ptr<ClientStreamHandler<Response>> handler_;
  std::shared_ptr<ClientReadStream> self_;
};

}  // namespace baton
