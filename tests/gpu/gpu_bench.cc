// Measures the CUDA engine on the GPU at hand. Exit status 0; 1 when a measure failed; 2 for wrong arguments; 77
// without a CUDA device.

#include <CLI/CLI.hpp>
#include <iostream>

#include "common/base/status.h"
#include "tests/gpu/measures.h"

namespace baton {
namespace {

struct Flags {
  BenchShape shape;
  CeilingSizes ceilings;
  std::string records;
  std::vector<std::string> measures;
};

absl::Status Measure(const Flags& flags) {
  Records records(flags.records);
  std::unique_ptr<BenchEngine> engine;
  for (const std::string& measure : flags.measures) {
    if (measure == "device") {
      BATON_RETURN_IF_ERROR(CheckDevice());
      continue;
    }
    if (measure == "ceilings") {
      BATON_RETURN_IF_ERROR(MeasureCeilings(flags.ceilings, records));
      continue;
    }
    if (engine == nullptr) {
      BATON_ASSIGN_OR_RETURN(engine, BenchEngine::Start(flags.shape));
      BATON_RETURN_IF_ERROR(records.Write({{"measure", "load"},
                                           {"model", flags.shape.model},
                                           {"bytes", engine->weights().matrix_bytes},
                                           {"seconds", engine->load_seconds()}}));
    }
    BATON_RETURN_IF_ERROR(measure == "decode"    ? MeasureDecode(*engine, records)
                          : measure == "prefill" ? MeasurePrefill(*engine, records)
                                                 : MeasureBlocks(*engine, records));
  }
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App program("Measures the CUDA engine on the GPU at hand");
  program
      .add_option("--measures", flags.measures,
                  "device (nothing: whether there is one that runs what was built), ceilings, decode, prefill, blocks")
      ->delimiter(',')
      ->check(CLI::IsMember({"device", "ceilings", "decode", "prefill", "blocks"}))
      ->required();
  program.add_option("--records", flags.records, "File that JSON lines are appended to")->required();
  program.add_option("--model", flags.shape.model, "Shape of the model")->capture_default_str();
  program.add_option("--batches", flags.shape.batches, "Sequences of a decode step")->delimiter(',');
  program.add_option("--context", flags.shape.context, "Positions before a decode step")->capture_default_str();
  program.add_option("--lengths", flags.shape.lengths, "Positions of a prompt")->delimiter(',');
  program.add_option("--rounds", flags.shape.rounds.rounds, "At least so many")->capture_default_str();
  program.add_option("--seconds", flags.shape.rounds.seconds, "At least so long a figure")->capture_default_str();
  program.add_option("--ceiling_bytes", flags.ceilings.bytes, "Memory that is read and copied")->capture_default_str();
  program.add_option("--ceiling_product", flags.ceilings.product, "Edge of the product")->capture_default_str();
  CLI11_PARSE(program, argc, argv);
  flags.ceilings.rounds = flags.shape.rounds;
  const absl::StatusOr<device::DeviceInfo> device = device::Open(0);
  if (!device.ok()) {
    std::cerr << "gpu_bench: " << StatusMessage(device.status()) << "\n";
    return device.status().code() == absl::StatusCode::kFailedPrecondition ? 77 : 1;
  }
  const absl::Status status = Measure(flags);
  if (!status.ok()) std::cerr << "gpu_bench: " << StatusMessage(status) << "\n";
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) { return baton::Main(argc, argv); }
