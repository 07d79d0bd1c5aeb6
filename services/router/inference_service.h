#pragma once

// baton.v1.InferenceService: wire types in, generations out.

#include <atomic>

#include "baton/v1/inference.grpc.pb.h"
#include "services/router/generation.h"

namespace baton {

class InferenceServiceImpl final : public v1::InferenceService::CallbackService {
 public:
  explicit InferenceServiceImpl(const GenerationContext& context) : context_(context) {}

  // New requests get UNAVAILABLE from now on.
  void StopAccepting() { accepting_ = false; }

  grpc::ServerUnaryReactor* Generate(grpc::CallbackServerContext* context, const v1::GenerateRequest* request,
                                     v1::GenerateResponse* response) override;
  grpc::ServerWriteReactor<v1::StreamGenerateResponse>* StreamGenerate(
      grpc::CallbackServerContext* context, const v1::StreamGenerateRequest* request) override;
  grpc::ServerUnaryReactor* Abort(grpc::CallbackServerContext* context, const v1::AbortRequest* request,
                                  v1::AbortResponse* response) override;
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context, const v1::TokenizeRequest* request,
                                     v1::TokenizeResponse* response) override;
  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* context, const v1::DetokenizeRequest* request,
                                       v1::DetokenizeResponse* response) override;
  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* context, const v1::ListModelsRequest* request,
                                       v1::ListModelsResponse* response) override;

 private:
  // Checks a request; not OK: the call's end. Counts requests that end here.
  grpc::Status Plan(const v1::GenerateRequest& request, GenerationPlan* plan);
  std::shared_ptr<Generation> MakeGeneration(const grpc::CallbackServerContext& context, GenerationPlan plan,
                                             TimePoint arrived, std::shared_ptr<GenerationSink> sink);

  const GenerationContext context_;
  std::atomic<bool> accepting_{true};
};

}  // namespace baton
