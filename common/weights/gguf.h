#pragma once

// Reader of GGUF files, versions 2 and 3, little-endian. Nothing in a file is believed: counts and lengths are compared
// with the bytes that remain before anything is allocated, so memory is bounded by a small multiple of the file's size.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/weights/tensor.h"

namespace baton::weights {

// Nothing for lists that Baton does not read.
using GgufValue = std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string, std::vector<std::string>,
                               std::vector<int32_t>, std::vector<float>>;

class GgufMetadata {
 public:
  // An absent key is an empty optional; a value of another kind or out of range is INVALID_ARGUMENT naming the key.
  absl::StatusOr<std::optional<uint32_t>> U32(std::string_view key) const;
  absl::StatusOr<std::optional<double>> Number(std::string_view key) const;  // finite
  absl::StatusOr<std::optional<bool>> Bool(std::string_view key) const;
  absl::StatusOr<std::optional<std::string>> String(std::string_view key) const;
  // Null when absent.
  absl::StatusOr<const std::vector<std::string>*> Strings(std::string_view key) const;
  absl::StatusOr<const std::vector<int32_t>*> I32s(std::string_view key) const;
  absl::StatusOr<const std::vector<float>*> F32s(std::string_view key) const;

  bool Contains(std::string_view key) const { return values_.contains(key); }
  // False when the key was there before.
  bool Insert(std::string key, GgufValue value) { return values_.emplace(std::move(key), std::move(value)).second; }

 private:
  template <typename T>
  absl::StatusOr<const T*> Find(std::string_view key, std::string_view kind) const;

  std::map<std::string, GgufValue, std::less<>> values_;
};

struct GgufFile {
  std::shared_ptr<const MappedFile> file;
  GgufMetadata metadata;
  TensorMap tensors;
};

// Lists of numbers that are neither 32-bit integers nor f32 are checked and skipped: no key that Baton reads has one.
absl::StatusOr<GgufFile> ReadGguf(const std::string& path);

}  // namespace baton::weights
