// Streams prompts from several threads at once and prints what each saw beside what the router reports, a line of JSON
// a request. C++ and one thread a stream, so that what the client adds to a latency is little.
//   latency_client ROUTER STREAMS REQUESTS_EACH PROMPT_TOKENS MAX_TOKENS

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <latch>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "baton/v1/inference.grpc.pb.h"
#include "google/protobuf/util/json_util.h"

namespace {

using Clock = std::chrono::steady_clock;
namespace v1 = baton::v1;

double Seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  const int streams = std::atoi(argv[2]), requests = std::atoi(argv[3]), prompt = std::atoi(argv[4]);
  const auto channel = grpc::CreateChannel(argv[1], grpc::InsecureChannelCredentials());
  // Connecting is not a request's time.
  if (!channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(30))) return 1;
  const auto stub = v1::InferenceService::NewStub(channel);
  std::latch start(streams);
  std::mutex printing;
  bool failed = false;
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < streams; ++thread) {
    threads.emplace_back([&, thread] {
      start.arrive_and_wait();
      for (int i = 0; i < requests; ++i) {
        v1::StreamGenerateRequest request;
        auto* ids = request.mutable_request()->add_prompts()->mutable_tokens();
        for (int k = 0; k < prompt; ++k) ids->add_ids(3 + (thread * 131 + i * 17 + k * 7) % 1000);
        auto* sampling = request.mutable_request()->mutable_sampling();
        sampling->set_max_tokens(static_cast<uint32_t>(std::atoi(argv[5])));
        sampling->set_ignore_eos(true);
        grpc::ClientContext context;
        v1::StreamGenerateResponse message;
        v1::PromptReport report;
        const Clock::time_point sent = Clock::now();
        const auto reader = stub->StreamGenerate(&context, request);
        Clock::time_point last = sent;
        while (reader->Read(&message)) {
          if (message.reports().empty()) continue;
          last = Clock::now();
          report = message.reports(0);
        }
        const bool ok = reader->Finish().ok();
        std::string json;
        google::protobuf::util::JsonPrintOptions options;
        options.preserve_proto_field_names = true;
        options.always_print_primitive_fields = true;
        const bool printed = google::protobuf::util::MessageToJsonString(report.timings(), &json, options).ok();
        const std::lock_guard lock(printing);
        failed = failed || !ok || !printed;
        std::printf("{\"client_seconds\": %.9f, \"timings\": %s}\n", Seconds(last - sent), json.c_str());
      }
    });
  }
  threads.clear();
  return failed ? 1 : 0;
}
