#pragma once

// Files of checkpoints, well-formed or not, for tests of readers. Replaces what is there; failure to write aborts the
// test.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/weights/gguf_writer.h"
#include "common/weights/tensor_source.h"

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

// An f32 tensor of these values.
weights::TensorSource TensorOf(std::string name, std::vector<uint64_t> shape, std::vector<float> values);
// All bytes of a tensor.
std::vector<std::byte> BytesOf(const weights::TensorSource& tensor);

// Length, JSON, data; `header` as it is, however wrong.
std::string SafetensorsBytes(std::string_view header, std::string_view data);
void WriteSafetensors(const std::string& path, const std::vector<weights::TensorSource>& tensors);
// model-00001-of-0000N.safetensors ... and model.safetensors.index.json.
void WriteShardedSafetensors(const std::string& directory, const std::vector<weights::TensorSource>& tensors,
                             int shards);
void WriteGguf(const std::string& path, const weights::GgufWriter& gguf);

}  // namespace baton::fakes
