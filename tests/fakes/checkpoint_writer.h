#pragma once

// Writes checkpoints as the world's tools do, well-formed or not, for tests of readers. Failure to write aborts the
// test.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fakes/tensor_source.h"

namespace baton::fakes {

void WriteFile(const std::string& path, std::string_view bytes);
std::string ReadFile(const std::string& path);

// A fresh empty directory that is removed with its content at the end of the scope.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// "F32", "F16", "BF16".
std::string SafetensorsDType(DType dtype);

// Length, JSON, data; `header` as it is, however wrong.
std::string SafetensorsBytes(std::string_view header, std::string_view data);
void WriteSafetensors(const std::string& path, const std::vector<TensorSource>& tensors);
// model-00001-of-0000N.safetensors ... and model.safetensors.index.json.
void WriteShardedSafetensors(const std::string& directory, const std::vector<TensorSource>& tensors, int shards);

// GGUF v3, little-endian. Metadata calls in any order, then Write.
class GgufWriter {
 public:
  explicit GgufWriter(uint32_t version = 3, uint32_t alignment = 32) : version_(version), alignment_(alignment) {}
  GgufWriter& U32(std::string_view key, uint32_t value);
  GgufWriter& F32(std::string_view key, float value);
  GgufWriter& Bool(std::string_view key, bool value);
  GgufWriter& String(std::string_view key, std::string_view value);
  GgufWriter& Strings(std::string_view key, const std::vector<std::string>& values);
  GgufWriter& I32s(std::string_view key, const std::vector<int32_t>& values);
  GgufWriter& F32s(std::string_view key, const std::vector<float>& values);
  GgufWriter& Tensor(TensorSource tensor);
  void Write(const std::string& path) const;

 private:
  void Key(std::string_view key, uint32_t type);
  void ArrayKey(std::string_view key, uint32_t element_type, uint64_t count);

  const uint32_t version_, alignment_;
  std::string metadata_;
  uint64_t keys_ = 0;
  std::vector<TensorSource> tensors_;
};

}  // namespace baton::fakes
