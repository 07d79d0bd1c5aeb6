#include "tests/fakes/checkpoint_writer.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/base/status.h"
#include "common/weights/safetensors_writer.h"
#include "nlohmann/json.hpp"

namespace baton::fakes {

using weights::TensorSource;

void WriteFile(const std::string& path, std::string_view bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  BATON_CHECK(out.good());
}

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  BATON_CHECK(in.good());
  std::ostringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

TemporaryDirectory::TemporaryDirectory() {
  path_ = (std::filesystem::temp_directory_path() / "baton_test_XXXXXX").string();
  BATON_CHECK(mkdtemp(path_.data()) != nullptr);
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

TensorSource TensorOf(std::string name, std::vector<uint64_t> shape, std::vector<float> values) {
  TensorSource tensor{.name = std::move(name), .dtype = DType::kF32, .shape = std::move(shape)};
  BATON_CHECK(tensor.bytes() == values.size() * sizeof(float));
  tensor.fill = [values = std::move(values), cols = tensor.cols()](uint64_t first, std::span<std::byte> out) {
    std::memcpy(out.data(), values.data() + first * cols, out.size());
  };
  return tensor;
}

std::vector<std::byte> BytesOf(const TensorSource& tensor) {
  std::vector<std::byte> bytes(tensor.bytes());
  tensor.fill(0, bytes);
  return bytes;
}

std::string SafetensorsBytes(std::string_view header, std::string_view data) {
  const uint64_t length = header.size();
  std::string out(reinterpret_cast<const char*>(&length), sizeof(length));
  return out.append(header).append(data);
}

void WriteSafetensors(const std::string& path, const std::vector<TensorSource>& tensors) {
  std::filesystem::remove(path);
  BATON_CHECK(weights::WriteSafetensors(path, tensors).ok());
}

void WriteShardedSafetensors(const std::string& directory, const std::vector<TensorSource>& tensors, int shards) {
  nlohmann::json weight_map = nlohmann::json::object();
  for (int shard = 0; shard < shards; ++shard) {
    const std::string file = absl::StrFormat("model-%05d-of-%05d.safetensors", shard + 1, shards);
    const size_t begin = tensors.size() * shard / shards, end = tensors.size() * (shard + 1) / shards;
    WriteSafetensors(directory + "/" + file, {tensors.begin() + begin, tensors.begin() + end});
    for (size_t i = begin; i < end; ++i) weight_map[tensors[i].name] = file;
  }
  const nlohmann::json index = {{"metadata", nlohmann::json::object()}, {"weight_map", weight_map}};
  WriteFile(directory + "/model.safetensors.index.json", index.dump());
}

void WriteGguf(const std::string& path, const weights::GgufWriter& gguf) {
  std::filesystem::remove(path);
  BATON_CHECK(gguf.Write(path).ok());
}

}  // namespace baton::fakes
