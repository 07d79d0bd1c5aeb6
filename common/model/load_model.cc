#include <filesystem>
#include <utility>

#include "common/base/status.h"
#include "common/model/assemble.h"
#include "common/model/load_text_assets.h"
#include "common/model/model.h"
#include "common/model/parse_config.h"
#include "common/weights/gguf.h"
#include "common/weights/json_file.h"
#include "common/weights/safetensors.h"

namespace baton::model {
namespace {

namespace fs = std::filesystem;
using ModelPtr = absl::StatusOr<std::shared_ptr<const Model>>;

constexpr uint64_t kLongestConfig = 16 << 20;

bool Exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

absl::StatusOr<nlohmann::json> ReadJson(const std::string& path) {
  BATON_ASSIGN_OR_RETURN(const std::string text, weights::ReadTextFile(path, kLongestConfig));
  return weights::ParseJsonObject(text, path);
}

ModelPtr LoadGguf(const std::string& path, const LoadProgress& progress) {
  BATON_ASSIGN_OR_RETURN(const weights::GgufFile gguf, weights::ReadGguf(path));
  BATON_ASSIGN_OR_RETURN(ParsedConfig parsed, ParseGgufConfig(gguf));
  BATON_ASSIGN_OR_RETURN(auto model, AssembleModel(std::move(parsed), gguf.tensors, progress));
  BATON_ASSIGN_OR_RETURN(model->text, TextAssetsOf(gguf));
  BATON_RETURN_IF_ERROR(model->CheckFilesUnchanged());
  return model;
}

ModelPtr LoadHuggingFace(const std::string& directory, weights::TensorMap tensors, const LoadProgress& progress) {
  BATON_ASSIGN_OR_RETURN(const nlohmann::json config, ReadJson(directory + "/config.json"));
  nlohmann::json generation;
  if (const std::string path = directory + "/generation_config.json"; Exists(path)) {
    BATON_ASSIGN_OR_RETURN(generation, ReadJson(path));
  }
  BATON_ASSIGN_OR_RETURN(ParsedConfig parsed, ParseHuggingFaceConfig(config, generation, directory));
  BATON_ASSIGN_OR_RETURN(auto model, AssembleModel(std::move(parsed), tensors, progress));
  BATON_ASSIGN_OR_RETURN(model->text, ReadTextAssets(directory));
  BATON_RETURN_IF_ERROR(model->CheckFilesUnchanged());
  return model;
}

ModelPtr LoadDirectory(const std::string& directory, const LoadProgress& progress) {
  const std::string single = directory + "/model.safetensors", index = single + ".index.json";
  if (Exists(single) || Exists(index)) {
    BATON_ASSIGN_OR_RETURN(weights::TensorMap tensors, Exists(single) ? weights::ReadSafetensorsFile(single)
                                                                      : weights::ReadShardedSafetensors(index));
    return LoadHuggingFace(directory, std::move(tensors), progress);
  }
  std::vector<std::string> gguf;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    if (entry.path().extension() == ".gguf") gguf.push_back(entry.path().string());
  }
  if (gguf.size() == 1) return LoadGguf(gguf.front(), progress);
  return NotFound("%s: has neither model.safetensors nor model.safetensors.index.json, and %d .gguf files, not one",
                  directory, gguf.size());
}

}  // namespace

absl::Status Model::CheckFilesUnchanged() const {
  for (const auto& file : files) BATON_RETURN_IF_ERROR(file->CheckUnchanged());
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Model>> LoadModel(const std::string& path, const LoadProgress& progress) {
  std::error_code error;
  if (fs::is_directory(path, error)) return LoadDirectory(path, progress);
  if (!fs::exists(path, error)) return NotFound("%s: does not exist", path);
  if (path.ends_with(".safetensors")) {
    BATON_ASSIGN_OR_RETURN(weights::TensorMap tensors, weights::ReadSafetensorsFile(path));
    const std::string parent = fs::path(path).parent_path().string();
    return LoadHuggingFace(parent.empty() ? "." : parent, std::move(tensors), progress);
  }
  return LoadGguf(path, progress);
}

}  // namespace baton::model
