#include "services/decode/decode_service.h"

int main(int argc, char** argv) {
  baton::DecodeConfig decode;
  baton::WorkerProgram program;
  program.name = "baton-decode";
  program.description = "Takes prompts' KV blocks from prefill workers and generates.";
  program.readiness = baton::internal::v1::DecodeService::service_full_name();
  program.role = baton::internal::v1::ROLE_DECODE;
  program.add_flags = [&](baton::Flags& flags) { decode.AddTo(flags); };
  program.make_role = [&](const baton::WorkerConfig& config, const baton::Logger& log, baton::Metrics& metrics,
                          baton::WorkerMetrics& worker_metrics) -> std::unique_ptr<baton::WorkerRole> {
    return std::make_unique<baton::DecodeServiceImpl>(decode, config, log, metrics, worker_metrics);
  };
  return baton::RunWorker(program, argc, argv);
}
