#include <CLI/CLI.hpp>
#include <iostream>

#include "services/cli/bar.h"
#include "services/cli/command.h"
#include "services/cli/inspect_report.h"
#include "services/cli/progress.h"

namespace baton::cli {
namespace {

struct InspectFlags {
  InspectOptions options;
  std::string path, kv_dtype = "bf16";
  bool json = false;
};

int RunInspect(const InspectFlags& flags) {
  const auto model = [&] {
    Progress progress("reading weights");
    return model::LoadModel(flags.path, [&](uint64_t done, uint64_t total) { progress.ShowBytes(done, total); });
  }();
  if (!model.ok()) return Fail(model.status());
  InspectOptions options = flags.options;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kI8}) {
    if (DTypeName(dtype) == flags.kv_dtype) options.kv_dtype = dtype;
  }
  const auto report = Inspect(**model, options);
  if (!report.ok()) return Fail(report.status());
  std::cout << (flags.json ? InspectJson(*report) + "\n" : InspectText(*report));
  return 0;
}

}  // namespace

Command AddInspect(CLI::App& program) {
  CLI::App* command =
      program.add_subcommand("inspect", "Shows what a model on disk is and what it needs; asks no router");
  auto flags = std::make_shared<InspectFlags>();
  command->add_option("model", flags->path, "Directory, .gguf file or .safetensors file")
      ->required()
      ->type_name("MODEL_PATH");
  command->add_option("--kv_dtype", flags->kv_dtype, "Number format of the KV pool")
      ->check(CLI::IsMember({"f32", "f16", "bf16", "int8"}))
      ->capture_default_str();
  command->add_option("--block_size", flags->options.block_size, "Tokens a KV block")
      ->check(CLI::IsMember({16, 32}))
      ->capture_default_str();
  command->add_option("--memory_gib", flags->options.memory_gib, "Memory of the KV pool: shows what it holds")
      ->check(CLI::Range(0.0, 1e6));
  command->add_option("--max_model_len", flags->options.max_model_len,
                      "Tokens of the longest sequence; the model's own length unless given");
  command->add_flag("--json", flags->json, "One line of JSON");
  command->footer(
      "Examples:\n"
      "  baton inspect ./Qwen2.5-0.5B-Instruct --memory_gib 10.63 --max_model_len 32768\n"
      "  baton inspect model.gguf --json | jq .parameters.total");
  return {command, [flags] { return RunInspect(*flags); }};
}

}  // namespace baton::cli
