#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/config/number_check.h"
#include "common/engine/cpu_weights.h"
#include "common/engine/text_quality.h"
#include "common/text/tokenizer.h"
#include "services/cli/bar.h"
#include "services/cli/command.h"
#include "services/cli/inspect_report.h"
#include "services/cli/progress.h"

namespace baton::cli {
namespace {

struct InspectFlags {
  InspectOptions options;
  std::string path, kv_dtype = "bf16", quality_file, weights = "auto";
  uint32_t quality_window = 512;
  bool json = false;
};

absl::StatusOr<TextPrediction> Predict(const model::Model& model, WeightsFormat format,
                                       const std::vector<TokenId>& tokens, uint32_t window) {
  const std::string name(WeightsFormatName(format));
  std::shared_ptr<const CpuWeights> weights;
  {
    Progress progress("packing " + name);
    BATON_ASSIGN_OR_RETURN(weights, PackCpuWeights(model, format, 0, [&](uint64_t done, uint64_t total) {
                             progress.ShowBytes(done, total);
                           }));
  }
  Progress progress("predicting with " + name);
  return PredictText(std::move(weights), tokens, window, 0,
                     [&](uint64_t done, uint64_t total) { progress.ShowSteps(done, total, "tokens"); });
}

absl::StatusOr<QualityReport> MeasureQuality(const model::Model& model, const InspectFlags& flags) {
  BATON_ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Create(model.text));
  std::ifstream file(flags.quality_file, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) return InvalidArgument("cannot read %s", flags.quality_file);
  BATON_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, tokenizer->Encode(text.str()));
  WeightsFormat format = WeightsFormat::kAuto;
  for (const WeightsFormat each : kWeightsFormats) {
    if (WeightsFormatName(each) == flags.weights) format = each;
  }
  BATON_ASSIGN_OR_RETURN(const TextPrediction f32, Predict(model, WeightsFormat::kF32, tokens, flags.quality_window));
  BATON_ASSIGN_OR_RETURN(const TextPrediction chosen, Predict(model, format, tokens, flags.quality_window));
  return QualityReport{.weights = flags.weights,
                       .tokens = chosen.best.size(),
                       .perplexity = chosen.Perplexity(),
                       .perplexity_f32 = f32.Perplexity(),
                       .agreement = Agreement(f32, chosen)};
}

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
  auto report = Inspect(**model, options);
  if (!report.ok()) return Fail(report.status());
  if (!flags.quality_file.empty()) {
    auto quality = MeasureQuality(**model, flags);
    if (!quality.ok()) return Fail(quality.status());
    report->quality = *std::move(quality);
  }
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
      ->check(RealNumberCheck(0, 1e6));
  command
      ->add_option("--max_model_len", flags->options.max_model_len,
                   "Tokens of the longest sequence; the model's own length unless given")
      ->check(WholeNumberCheck<uint32_t>());
  command
      ->add_option("--quality", flags->quality_file,
                   "A text file: its perplexity with --weights beside that with f32, which takes a while")
      ->type_name("FILE")
      ->check(CLI::ExistingFile);
  std::vector<std::string> formats;
  for (const WeightsFormat format : kWeightsFormats) formats.emplace_back(WeightsFormatName(format));
  command->add_option("--weights", flags->weights, "How --quality keeps matrices in memory")
      ->check(CLI::IsMember(formats))
      ->capture_default_str();
  command->add_option("--quality_window", flags->quality_window, "Tokens that --quality predicts from at most")
      ->check(WholeNumberCheck(2, 1u << 20))
      ->capture_default_str();
  command->add_flag("--json", flags->json, "One line of JSON");
  command->footer(
      "Examples:\n"
      "  baton inspect ./Qwen2.5-0.5B-Instruct --memory_gib 10.63 --max_model_len 32768\n"
      "  baton inspect model.gguf --json | jq .parameters.total\n"
      "  baton inspect model.gguf --quality text.txt --weights int8");
  return {command, [flags] { return RunInspect(*flags); }};
}

}  // namespace baton::cli
