#include "services/cli/bench/bench.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>

#include "common/base/status.h"
#include "common/config/number_check.h"
#include "common/model/shapes.h"
#include "services/cli/bench/svg.h"
#include "services/cli/command.h"

namespace baton::cli {
namespace {

struct BenchFlags {
  BenchOptions options;
  std::string json, svg;
};

absl::Status WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  return file ? absl::OkStatus() : FailedPrecondition("%s cannot be written", path);
}

absl::Status Show(const BenchReport& report, const BenchFlags& flags) {
  std::cout << ReportText(report);
  if (!flags.json.empty()) BATON_RETURN_IF_ERROR(WriteFile(flags.json, ReportJson(report)));
  if (!flags.svg.empty()) BATON_RETURN_IF_ERROR(WriteFile(flags.svg, ReportSvg(report)));
  return absl::OkStatus();
}

// Before minutes of measuring: whether the files can be written.
absl::Status CheckFiles(const BenchFlags& flags) {
  for (const std::string& path : {flags.json, flags.svg}) {
    if (path.empty()) continue;
    std::error_code ignored;
    const bool existed = std::filesystem::exists(path, ignored);
    if (!std::ofstream(path, std::ios::binary | std::ios::app)) return FailedPrecondition("%s cannot be written", path);
    if (!existed) std::filesystem::remove(path, ignored);
  }
  return absl::OkStatus();
}

int RunBench(const Bench& bench, const BenchFlags& flags) {
  if (const absl::Status writable = CheckFiles(flags); !writable.ok()) return Fail(writable);
  absl::StatusOr<BenchReport> report = [&] {
    BenchOptions options = flags.options;
    options.has_router = bench.place == Bench::Place::kRouterOrOwn && !options.connection.router.empty();
    BenchContext context(options, std::string(bench.name));
    return bench.run(context);
  }();
  if (!report.ok()) return Fail(report.status());
  if (const absl::Status shown = Show(*report, flags); !shown.ok()) return Fail(shown);
  return report->ok() ? 0 : 1;
}

std::map<std::string, DType> KvFormats() {
  std::map<std::string, DType> formats;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kI8}) {
    formats.emplace(DTypeName(dtype), dtype);
  }
  return formats;
}

void AddFlags(CLI::App& command, const Bench& bench, BenchFlags& flags) {
  BenchOptions& options = flags.options;
  command.add_option("--model", options.model, "Model to load; without it random weights of --shape");
  std::vector<std::string> shapes;
  for (const std::string_view name : model::ShapeNames()) shapes.emplace_back(name);
  command.add_option("--shape", options.shape, "Shape of a random model")
      ->check(CLI::IsMember(shapes))
      ->capture_default_str();
  command
      .add_option("--weights", options.weights,
                  "How matrices are kept in memory, as the worker's flag; engine takes several, with commas")
      ->capture_default_str();
  command.add_option("--threads", options.threads, "Threads of an engine; 0: one per core")
      ->check(WholeNumberCheck(0, 1024))
      ->capture_default_str();
  if (bench.name != "load") {  // one run at each rate
    command.add_option("--repetitions", options.repetitions, "Measured rounds after the warm-up")
        ->check(WholeNumberCheck(1, 1000))
        ->capture_default_str();
  }
  command.add_option("--seed", options.seed, "Of drawn prompts, lengths and arrivals")
      ->check(WholeNumberCheck<uint64_t>())
      ->capture_default_str();
  command.add_flag("--quick", options.quick, "Tiny sizes: shows that the bench works, its times mean little");
  if (bench.name == "engine") {
    command.add_option("--lengths", options.lengths, "Prompt lengths")
        ->delimiter(',')
        ->check(WholeNumberCheck(1, 1 << 20));
    command.add_option("--depths", options.depths, "Tokens before a decode step")
        ->delimiter(',')
        ->check(WholeNumberCheck(0, 1 << 20));
    command.add_option("--batches", options.batches, "Sequences of a decode step")
        ->delimiter(',')
        ->check(WholeNumberCheck(1, 1024));
    command.add_flag("--only_stored", options.only_stored, "Weights as stored, not int8 and int4 beside them");
    command.add_option("--kv_dtype", options.kv_dtype, "KV cache format")
        ->transform(CLI::CheckedTransformer(KvFormats()))
        ->default_str(std::string(DTypeName(options.kv_dtype)));
    command.add_flag("--steal", options.steal, "Every step once more while another thread takes one of the cores");
  }
  if (bench.place == Bench::Place::kRouterOrOwn) {
    options.connection.router.clear();
    options.connection.AddTo(command);
    command.get_option("--router")->description("A running deployment; without it processes of its own are started");
  }
  if (bench.name == "load" || bench.name == "disagg") {
    command.add_option("--rate", options.rate, "Requests a second; 0: several around what the service can do")
        ->check(RealNumberCheck(0, 1e6));
    command.add_option("--requests", options.requests, "Requests a rate; without it what arrives in some seconds")
        ->check(WholeNumberCheck<uint32_t>());
    command.add_option("--prompt_tokens", options.prompt_tokens, "Mean length of prompts")
        ->check(WholeNumberCheck<uint32_t>());
    command.add_option("--output_tokens", options.output_tokens, "Mean length of answers")
        ->check(WholeNumberCheck<uint32_t>());
  }
  if (bench.name == "load") {
    command.add_option("--trace", options.trace,
                       "File to replay instead: lines of ARRIVAL_SECONDS PROMPT_TOKENS OUTPUT_TOKENS");
    command.add_option("--ttft_ms", options.ttft_ms, "Objective: time to first token")
        ->check(RealNumberCheck(0, 1e9))
        ->capture_default_str();
    command.add_option("--itl_ms", options.itl_ms, "Objective: 99th percentile of a request's gaps")
        ->check(RealNumberCheck(0, 1e9))
        ->capture_default_str();
  }
  command.add_option("--json", flags.json, "File for the figures as JSON; replaced");
  command.add_option("--svg", flags.svg, "File for the pictures; replaced");
}

}  // namespace

Command AddBench(CLI::App& program) {
  CLI::App* command = program.add_subcommand("bench", "Measures what an idea is worth on this machine");
  command->require_subcommand(1);
  auto flags = std::make_shared<BenchFlags>();
  for (const Bench& bench : Benches()) {
    AddFlags(*command->add_subcommand(std::string(bench.name), std::string(bench.question)), bench, *flags);
  }
  command->footer(
      "Prints a table; a bench whose statement does not hold exits with 1.\n"
      "Examples:\n"
      "  baton bench batching --quick\n"
      "  baton bench kv-cache --shape qwen2.5-0.5b --svg kv-cache.svg --json kv-cache.json");
  return {command, [flags, command] {
            const std::string name = command->get_subcommands().front()->get_name();
            for (const Bench& bench : Benches()) {
              if (bench.name == name) return RunBench(bench, *flags);
            }
            return 2;
          }};
}

}  // namespace baton::cli
