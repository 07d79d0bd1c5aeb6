#include "services/router/inference_service.h"

#include <chrono>

#include "common/base/status.h"
#include "common/rpc/server_stream.h"
#include "common/rpc/status.h"

namespace baton {
namespace {

// Who a request belongs to: the TLS identity and the authorization header, as far as there are any.
std::string OwnerOf(const grpc::CallbackServerContext& context) {
  std::string owner;
  if (const auto auth = context.auth_context(); auth && auth->IsPeerAuthenticated()) {
    for (const auto& identity : auth->GetPeerIdentity()) owner.append(identity.data(), identity.size()) += '\n';
  }
  const auto header = context.client_metadata().find("authorization");
  if (header != context.client_metadata().end()) owner.append(header->second.data(), header->second.size());
  return owner;
}

// A header's value; empty when it is not there or longer than any that is taken.
std::string_view HeaderOf(const grpc::CallbackServerContext& context, const char* name) {
  constexpr size_t kLongest = 512;
  const auto header = context.client_metadata().find(name);
  if (header == context.client_metadata().end() || header->second.size() > kLongest) return "";
  return {header->second.data(), header->second.size()};
}

// A call that is over before its answer: by deadline or by the client.
grpc::Status GoneStatus(std::chrono::system_clock::time_point deadline) {
  if (std::chrono::system_clock::now() >= deadline) {
    return grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, "the deadline passed");
  }
  return grpc::Status(grpc::StatusCode::CANCELLED, "the client ended the call");
}

class StreamSink final : public GenerationSink {
 public:
  using Stream = ServerWriteStream<v1::StreamGenerateResponse>;
  StreamSink(std::shared_ptr<Stream> stream, const GenerationPlan& plan, size_t max_unread_bytes)
      : stream_(std::move(stream)),
        max_unread_bytes_(max_unread_bytes),
        request_id_(plan.request_id),
        model_(plan.model->name),
        seed_(plan.sampling.seed) {}

  grpc::Status OnDeltas(std::vector<v1::ChoiceDelta> deltas) override {
    if (const size_t unread = stream_->backlog_bytes(); unread > max_unread_bytes_) {
      return ToGrpc(
          ResourceExhausted("the client reads too slowly: %d bytes wait for it, %d may", unread, max_unread_bytes_));
    }
    v1::StreamGenerateResponse message = NewMessage();
    for (v1::ChoiceDelta& delta : deltas) *message.add_deltas() = std::move(delta);
    stream_->Send(std::move(message));
    return grpc::Status::OK;
  }
  void OnReport(const v1::PromptReport& report) override {
    v1::StreamGenerateResponse message = NewMessage();
    *message.add_reports() = report;
    stream_->Send(std::move(message));
  }
  void OnEnd(const grpc::Status& status) override { stream_->End(status); }

 private:
  v1::StreamGenerateResponse NewMessage() {
    v1::StreamGenerateResponse message;
    message.set_request_id(request_id_);
    if (!std::exchange(first_, false)) return message;
    message.set_model(model_);
    message.set_seed(seed_);
    return message;
  }

  const std::shared_ptr<Stream> stream_;
  const size_t max_unread_bytes_;
  const std::string request_id_, model_;
  const uint64_t seed_;
  bool first_ = true;
};

class UnaryCall final : public grpc::ServerUnaryReactor {
 public:
  explicit UnaryCall(std::chrono::system_clock::time_point deadline) : deadline_(deadline) {}
  void Run(std::shared_ptr<Generation> generation, const v1::GenerateRequest& request) {
    generation_ = std::move(generation);
    generation_->Start(request);
  }
  void OnCancel() override {
    if (generation_) generation_->Cancel(GoneStatus(deadline_));
  }
  void OnDone() override { delete this; }

 private:
  const std::chrono::system_clock::time_point deadline_;
  std::shared_ptr<Generation> generation_;
};

class UnarySink final : public GenerationSink {
 public:
  UnarySink(UnaryCall* call, v1::GenerateResponse* response, const GenerationPlan& plan, int prompts)
      : call_(call), response_(response), choices_(plan.choices) {
    response->set_request_id(plan.request_id);
    response->set_model(plan.model->name);
    response->set_seed(plan.sampling.seed);
    for (int prompt = 0; prompt < prompts; ++prompt) {
      response->add_reports();
      for (uint32_t index = 0; index < choices_; ++index) {
        v1::Choice* choice = response->add_choices();
        choice->set_prompt_index(static_cast<uint32_t>(prompt));
        choice->set_index(index);
      }
    }
  }

  grpc::Status OnDeltas(std::vector<v1::ChoiceDelta> deltas) override {
    for (v1::ChoiceDelta& delta : deltas) {
      v1::Choice* choice =
          response_->mutable_choices(static_cast<int>(delta.prompt_index() * choices_ + delta.index()));
      choice->mutable_text()->append(delta.text());
      choice->mutable_token_ids()->MergeFrom(delta.token_ids());
      choice->mutable_logprobs()->MergeFrom(delta.logprobs());
      choice->set_finish_reason(delta.finish_reason());
      choice->set_matched_stop(delta.matched_stop());
      if (delta.has_matched_stop_token_id()) choice->set_matched_stop_token_id(delta.matched_stop_token_id());
    }
    return grpc::Status::OK;
  }
  void OnReport(const v1::PromptReport& report) override {
    *response_->mutable_reports(static_cast<int>(report.prompt_index())) = report;
  }
  void OnEnd(const grpc::Status& status) override { call_->Finish(status); }

 private:
  UnaryCall* const call_;
  v1::GenerateResponse* const response_;
  const uint32_t choices_;
};

}  // namespace

grpc::Status InferenceServiceImpl::Plan(const v1::GenerateRequest& request, GenerationPlan* plan) {
  RouterMetrics& metrics = *context_.router.metrics;
  const auto find = [&]() -> absl::StatusOr<std::shared_ptr<const ServedModel>> {
    if (!accepting_) return Unavailable("this router is draining");
    return context_.router.directory->FindModel(request.model());
  };
  const auto model = find();
  if (!model.ok()) {
    const grpc::Status status = ToGrpc(model.status());
    metrics.OnRefusedRequest(status);
    return status;
  }
  const std::vector<FieldViolation> violations = CheckRequest(request, *context_.router.config, *model, plan);
  if (violations.empty()) return grpc::Status::OK;
  const grpc::Status status = InvalidFields(violations);
  metrics.Model((*model)->name).OnRequestEnd(status);
  return status;
}

std::shared_ptr<Generation> InferenceServiceImpl::MakeGeneration(const grpc::CallbackServerContext& context,
                                                                 GenerationPlan plan, TimePoint arrived,
                                                                 std::shared_ptr<GenerationSink> sink) {
  RequestTrace trace = StartTrace(HeaderOf(context, "traceparent"), HeaderOf(context, "tracestate"),
                                  context_.router.spans, context_.router.config->trace_sample_ratio);
  return std::make_shared<Generation>(context_, std::move(plan), OwnerOf(context), std::move(trace), arrived,
                                      std::move(sink));
}

grpc::ServerUnaryReactor* InferenceServiceImpl::Generate(grpc::CallbackServerContext* context,
                                                         const v1::GenerateRequest* request,
                                                         v1::GenerateResponse* response) {
  const TimePoint arrived = context_.router.clock->Now();
  GenerationPlan plan;
  if (const grpc::Status status = Plan(*request, &plan); !status.ok()) {
    auto* reactor = context->DefaultReactor();
    reactor->Finish(status);
    return reactor;
  }
  auto* call = new UnaryCall(context->deadline());
  auto sink = std::make_shared<UnarySink>(call, response, plan, request->prompts_size());
  call->Run(MakeGeneration(*context, std::move(plan), arrived, std::move(sink)), *request);
  return call;
}

grpc::ServerWriteReactor<v1::StreamGenerateResponse>* InferenceServiceImpl::StreamGenerate(
    grpc::CallbackServerContext* context, const v1::StreamGenerateRequest* request) {
  const TimePoint arrived = context_.router.clock->Now();
  auto stream = StreamSink::Stream::Create();
  GenerationPlan plan;
  if (const grpc::Status status = Plan(request->request(), &plan); !status.ok()) {
    stream->End(status);
    return stream.get();
  }
  auto sink = std::make_shared<StreamSink>(stream, plan, size_t{context_.router.config->max_unread_kib} << 10);
  const auto generation = MakeGeneration(*context, std::move(plan), arrived, std::move(sink));
  stream->SetOnGone([generation, deadline = context->deadline()] { generation->Cancel(GoneStatus(deadline)); });
  generation->Start(request->request());
  return stream.get();
}

grpc::ServerUnaryReactor* InferenceServiceImpl::Abort(grpc::CallbackServerContext* context,
                                                      const v1::AbortRequest* request, v1::AbortResponse*) {
  auto* reactor = context->DefaultReactor();
  if (request->request_id().empty()) {
    reactor->Finish(ToGrpc(InvalidArgument("request_id is missing")));
    return reactor;
  }
  const auto generation = context_.table->Find(request->request_id());
  if (!generation || generation->owner() != OwnerOf(*context)) {
    reactor->Finish(ToGrpc(NotFound("no request '%s' of this owner runs here", request->request_id())));
    return reactor;
  }
  generation->Cancel(grpc::Status(grpc::StatusCode::CANCELLED, "aborted by its owner"));
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerUnaryReactor* InferenceServiceImpl::Tokenize(grpc::CallbackServerContext* context,
                                                         const v1::TokenizeRequest* request,
                                                         v1::TokenizeResponse* response) {
  auto* reactor = context->DefaultReactor();
  const auto model = context_.router.directory->FindModel(request->model());
  std::vector<FieldViolation> violations;
  if (model.ok()) CheckPrompt(request->prompt(), "prompt", *context_.router.config, &violations);
  if (!model.ok() || !violations.empty()) {
    reactor->Finish(model.ok() ? InvalidFields(violations) : ToGrpc(model.status()));
    return reactor;
  }
  const bool accepted = context_.text->TryRun([context, request, response, reactor, model = *model] {
    const auto ids = TokenizePrompt(request->prompt(), "prompt", *model, [context] { return context->IsCancelled(); });
    if (ids.ok()) {
      for (const TokenId id : *ids) {
        response->add_ids(id);
        response->add_tokens(model->tokenizer->Decode(std::vector{id}, {false, false}));
      }
    }
    reactor->Finish(ToGrpc(ids.status()));
  });
  if (!accepted) reactor->Finish(ExhaustedRetry(TextQueueFull(*context_.router.config), std::chrono::seconds(1)));
  return reactor;
}

grpc::ServerUnaryReactor* InferenceServiceImpl::Detokenize(grpc::CallbackServerContext* context,
                                                           const v1::DetokenizeRequest* request,
                                                           v1::DetokenizeResponse* response) {
  auto* reactor = context->DefaultReactor();
  const auto model = context_.router.directory->FindModel(request->model());
  if (!model.ok()) {
    reactor->Finish(ToGrpc(model.status()));
    return reactor;
  }
  for (const TokenId id : request->ids()) {
    if (id >= 0 && static_cast<uint32_t>(id) < (*model)->vocab_size) continue;
    reactor->Finish(InvalidFields(
        {{"ids", absl::StrFormat("has token %d, the vocabulary has 0 to %d", id, (*model)->vocab_size - 1)}}));
    return reactor;
  }
  DecodeOptions options;
  if (request->has_skip_special_tokens()) options.skip_special_tokens = request->skip_special_tokens();
  response->set_text(
      (*model)->tokenizer->Decode(std::vector<TokenId>(request->ids().begin(), request->ids().end()), options));
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerUnaryReactor* InferenceServiceImpl::ListModels(grpc::CallbackServerContext* context,
                                                           const v1::ListModelsRequest*,
                                                           v1::ListModelsResponse* response) {
  const WorkerDirectory& directory = *context_.router.directory;
  for (const auto& model : directory.Models()) {
    v1::Model* out = response->add_models();
    out->set_name(model->name);
    out->set_ready(accepting_ && directory.Serves(*model));
    out->set_max_model_len(model->max_model_len);
    out->set_vocab_size(model->vocab_size);
    out->set_prefill_workers(static_cast<uint32_t>(directory.Ready(*model, internal::v1::ROLE_PREFILL).size()));
    out->set_decode_workers(static_cast<uint32_t>(directory.Ready(*model, internal::v1::ROLE_DECODE).size()));
    out->set_has_chat_template(model->chat_template.ok());
  }
  auto* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace baton
