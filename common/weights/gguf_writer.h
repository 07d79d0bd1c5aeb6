#pragma once

// Writes a GGUF file, little-endian, in one pass; memory is bounded by a few MiB and the metadata. Metadata and tensors
// in any order, then Write.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "common/weights/tensor_source.h"

namespace baton::weights {

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

  // Never overwrites; what was begun is removed on errors.
  absl::Status Write(const std::string& path, const WriteProgress& progress = nullptr) const;

 private:
  void Key(std::string_view key, uint32_t type);
  void ArrayKey(std::string_view key, uint32_t element_type, uint64_t count);

  const uint32_t version_, alignment_;
  std::string metadata_;
  uint64_t keys_ = 0;
  std::vector<TensorSource> tensors_;
};

}  // namespace baton::weights
