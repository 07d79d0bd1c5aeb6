#include "services/cli/bench/deployment_load.h"

#include <chrono>
#include <thread>

#include "common/base/status.h"
#include "services/cli/format.h"

namespace baton::cli {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

double SecondsSince(SteadyTime start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

v1::GenerateRequest ToProto(const BenchRequest& request) {
  v1::GenerateRequest out;
  v1::TokenIds& ids = *out.add_prompts()->mutable_tokens();
  ids.mutable_ids()->Add(request.prompt.begin(), request.prompt.end());
  v1::SamplingParameters& sampling = *out.mutable_sampling();
  sampling.set_max_tokens(request.max_tokens);
  sampling.set_temperature(0);
  sampling.set_ignore_eos(true);
  return out;
}

absl::Status ToStatus(const CallStatus& status) {
  if (status.ok()) return absl::OkStatus();
  return MakeStatus(static_cast<absl::StatusCode>(status.code), CallErrorMessage(status));
}

void TakeReport(const v1::PromptReport& report, RequestTrace* trace) {
  trace->cached_tokens = report.usage().cached_prompt_tokens();
  trace->transfer_seconds = report.timings().transfer_seconds();
  trace->transfer_tail_seconds = report.timings().transfer_tail_seconds();
  trace->transfer_bytes = report.route().kv_bytes();
  trace->transport = report.route().kv_transport();
}

RequestTrace Call(Client& client, const BenchRequest& request, bool stream, SteadyTime start, double arrival) {
  RequestTrace trace{.arrival = arrival, .prompt_tokens = static_cast<uint32_t>(request.prompt.size())};
  const auto add = [&](const std::string& text, const auto& ids) {
    const double now = SecondsSince(start);
    trace.token_times.insert(trace.token_times.end(), static_cast<size_t>(ids.size()), now);
    trace.ids.insert(trace.ids.end(), ids.begin(), ids.end());
    trace.text += text;
    if (!text.empty()) trace.text_times.emplace_back(now, TextWidth(trace.text));
  };
  if (stream) {
    v1::StreamGenerateRequest call;
    *call.mutable_request() = ToProto(request);
    trace.status = ToStatus(client.StreamGenerate(call, [&](const v1::StreamGenerateResponse& message) {
      for (const v1::ChoiceDelta& delta : message.deltas()) add(delta.text(), delta.token_ids());
      for (const v1::PromptReport& report : message.reports()) TakeReport(report, &trace);
    }));
  } else {
    v1::GenerateResponse response;
    trace.status = ToStatus(client.Generate(ToProto(request), &response));
    for (const v1::Choice& choice : response.choices()) add(choice.text(), choice.token_ids());
    for (const v1::PromptReport& report : response.reports()) TakeReport(report, &trace);
  }
  trace.end = SecondsSince(start);
  return trace;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DeploymentLoad>> DeploymentLoad::Connect(const ConnectionOptions& options) {
  BATON_ASSIGN_OR_RETURN(const auto client, Client::Create(options));
  v1::ListModelsResponse models;
  BATON_RETURN_IF_ERROR(ToStatus(client->ListModels(&models)));
  if (models.models_size() != 1) {
    return FailedPrecondition("the router serves %d models; a bench wants one", models.models_size());
  }
  if (!models.models(0).ready()) return FailedPrecondition("model '%s' has no ready workers", models.models(0).name());
  std::unique_ptr<DeploymentLoad> load(new DeploymentLoad(options));
  load->vocab_ = models.models(0).vocab_size();
  load->max_model_len_ = models.models(0).max_model_len();
  return load;
}

std::vector<RequestTrace> DeploymentLoad::Run(std::span<const BenchRequest> requests) const {
  std::vector<RequestTrace> traces(requests.size());
  std::vector<std::thread> threads;
  const SteadyTime start = std::chrono::steady_clock::now();
  for (size_t i = 0; i < requests.size(); ++i) {
    auto client = Client::Create(options_);  // connections are shared; a client runs one call at a time
    if (!client.ok()) {
      traces[i].status = client.status();
      continue;
    }
    std::this_thread::sleep_until(start + std::chrono::duration_cast<std::chrono::nanoseconds>(
                                              std::chrono::duration<double>(requests[i].arrival)));
    threads.emplace_back([client = *std::move(client), &request = requests[i], &trace = traces[i], start] {
      trace = Call(*client, request, true, start, request.arrival);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return traces;
}

RequestTrace DeploymentLoad::RunOne(const BenchRequest& request, bool stream) const {
  auto client = Client::Create(options_);
  if (!client.ok()) return {.status = client.status()};
  return Call(**client, request, stream, std::chrono::steady_clock::now(), 0);
}

}  // namespace baton::cli
