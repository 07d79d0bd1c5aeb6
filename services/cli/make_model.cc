#include "common/model/make_model.h"

#include <CLI/CLI.hpp>
#include <iostream>

#include "common/base/status.h"
#include "common/config/number_check.h"
#include "common/model/shapes.h"
#include "services/cli/command.h"
#include "services/cli/format.h"
#include "services/cli/progress.h"

namespace baton::cli {
namespace {

struct MakeModelFlags {
  std::string shape = "qwen2.5-0.5b", dtype = "bf16", format = "safetensors", out;
  uint64_t seed = 1;
};

absl::Status MakeModel(const MakeModelFlags& flags) {
  BATON_ASSIGN_OR_RETURN(const model::ModelConfig config, model::FindShape(flags.shape));
  model::MakeModelOptions options;
  options.seed = flags.seed;
  options.format = flags.format == "gguf" ? model::FileFormat::kGguf : model::FileFormat::kSafetensors;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0}) {
    if (DTypeName(dtype) == flags.dtype) options.dtype = dtype;
  }
  uint64_t bytes = 0;
  {
    Progress progress("writing weights");
    BATON_RETURN_IF_ERROR(model::MakeModel(config, options, flags.out, [&](uint64_t done, uint64_t total) {
      bytes = total;
      progress.ShowBytes(done, total);
    }));
  }
  std::cerr << flags.out << ": " << flags.shape << ", " << FormatBytes(static_cast<double>(bytes)) << " of random "
            << flags.dtype << " weights, " << flags.format << ", seed " << flags.seed << "\n";
  return absl::OkStatus();
}

int RunMakeModel(const MakeModelFlags& flags) {
  const absl::Status status = MakeModel(flags);
  return status.ok() ? 0 : Fail(status);
}

}  // namespace

Command AddMakeModel(CLI::App& program) {
  CLI::App* command = program.add_subcommand(
      "make-model", "Writes a model of a real shape with random weights, for benchmarks without downloads");
  auto flags = std::make_shared<MakeModelFlags>();
  std::vector<std::string> shapes;
  for (const std::string_view name : model::ShapeNames()) shapes.emplace_back(name);
  command->add_option("--shape", flags->shape, "Whose layers, widths and vocabulary")
      ->check(CLI::IsMember(shapes))
      ->capture_default_str();
  command
      ->add_option("--dtype", flags->dtype,
                   "Number format of matrices; q8_0 and q4_0 in GGUF only, q4_0 with embedding and head in q8_0")
      ->check(CLI::IsMember({"f32", "bf16", "f16", "q8_0", "q4_0"}))
      ->capture_default_str();
  command->add_option("--format", flags->format, "File format")
      ->check(CLI::IsMember({"safetensors", "gguf"}))
      ->capture_default_str();
  command->add_option("--out", flags->out, "Directory to write to; must be empty or not there")->required();
  command->add_option("--seed", flags->seed, "Equal seeds give equal weights in every format but q4_0, which rounds")
      ->check(WholeNumberCheck<uint64_t>())
      ->capture_default_str();
  command->footer(
      "The tokenizer knows bytes, <|im_start|>, <|im_end|> and made-up words, so any text goes in and every id can be\n"
      "read. The answers mean nothing.\n"
      "Examples:\n"
      "  baton make-model --shape qwen2.5-0.5b --out /tmp/qwen\n"
      "  baton make-model --shape qwen2.5-0.5b --dtype q8_0 --format gguf --out /tmp/qwen-q8_0");
  return {command, [flags] { return RunMakeModel(*flags); }};
}

}  // namespace baton::cli
