#include "tests/gpu/shaped_model.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/model/assemble.h"
#include "common/model/catalogue.h"
#include "common/model/random_tensors.h"
#include "common/weights/tensor_source.h"

namespace baton {
namespace {

using Bytes = std::shared_ptr<std::vector<std::byte>>;
using weights::TensorSource;

Bytes Fill(const TensorSource& source, int threads) {
  auto bytes = std::make_shared<std::vector<std::byte>>(source.bytes());
  constexpr uint64_t kRowsAtOnce = 64;
  std::atomic<uint64_t> next = 0;
  const auto work = [&] {
    for (uint64_t first; (first = next.fetch_add(kRowsAtOnce)) < source.rows();) {
      const uint64_t count = std::min(kRowsAtOnce, source.rows() - first);
      source.fill(first, std::span(*bytes).subspan(first * source.row_bytes(), count * source.row_bytes()));
    }
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads && source.rows() > kRowsAtOnce; ++i) others.emplace_back(work);
  work();
  for (std::thread& other : others) other.join();
  return bytes;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const model::Model>> MakeShapedModel(const model::ModelConfig& config, uint64_t seed,
                                                                    DType dtype, int threads) {
  const std::vector<TensorSource> sources = model::RandomTensors(config, seed, {dtype, dtype, dtype});
  std::map<uint64_t, const TensorSource*> largest;  // matrix by length of its rows
  for (const TensorSource& source : sources) {
    if (source.shape.size() != 2) continue;
    const TensorSource*& found = largest[source.cols()];
    if (found == nullptr || found->rows() < source.rows()) found = &source;
  }
  std::map<uint64_t, Bytes> of_cols;
  for (const auto& [cols, source] : largest) of_cols[cols] = Fill(*source, threads);

  weights::TensorMap tensors;
  std::vector<std::shared_ptr<const std::vector<std::byte>>> memory;
  for (const TensorSource& source : sources) {
    const bool matrix = source.shape.size() == 2;
    const Bytes bytes = matrix ? of_cols[source.cols()] : Fill(source, 1);
    const uint64_t places = matrix ? largest[source.cols()]->rows() - source.rows() + 1 : 1;
    const uint64_t first = HashText(source.name).low % places;
    memory.push_back(bytes);
    tensors[source.name] = {
        .name = source.name,
        .dtype = dtype,
        .dtype_name = absl::AsciiStrToUpper(std::string(DTypeName(dtype))),
        .shape = source.shape,
        .data = std::span<const std::byte>(*bytes).subspan(first * source.row_bytes(), source.bytes())};
  }
  BATON_ASSIGN_OR_RETURN(const model::Architecture architecture,
                         model::FindArchitecture(model::FileFormat::kSafetensors, config.architecture));
  BATON_ASSIGN_OR_RETURN(const std::shared_ptr<model::Model> assembled,
                         model::AssembleModel({config, architecture}, tensors, nullptr));
  assembled->memory.insert(assembled->memory.end(), memory.begin(), memory.end());
  return assembled;
}

}  // namespace baton
