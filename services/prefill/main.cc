#include "services/prefill/prefill_service.h"

int main(int argc, char** argv) {
  baton::WorkerProgram program;
  program.name = "baton-prefill";
  program.description = "Reads prompts and pushes their KV blocks to decode workers.";
  program.readiness = baton::internal::v1::PrefillService::service_full_name();
  program.role = baton::internal::v1::ROLE_PREFILL;
  program.make_role = [](const baton::WorkerConfig& config, const baton::Logger& log, baton::Metrics& metrics,
                         baton::WorkerMetrics& worker_metrics) -> std::unique_ptr<baton::WorkerRole> {
    return std::make_unique<baton::PrefillServiceImpl>(config, log, metrics, worker_metrics);
  };
  return baton::RunWorker(program, argc, argv);
}
