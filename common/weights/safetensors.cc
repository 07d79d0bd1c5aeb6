#include "common/weights/safetensors.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/weights/json_file.h"
#include "common/weights/mapped_file.h"
#include "common/weights/safetensors_header.h"

namespace baton::weights {
namespace {

constexpr uint64_t kLongestHeader = 100'000'000;  // as the reference implementation
constexpr uint64_t kLongestIndex = 64 << 20;

struct Format {
  std::string_view name;
  uint32_t bytes;
  std::optional<DType> dtype;
};
constexpr Format kFormats[] = {
    {"F32", 4, DType::kF32}, {"F16", 2, DType::kF16}, {"BF16", 2, DType::kBF16},
    {"F64", 8, {}},          {"I64", 8, {}},          {"U64", 8, {}},
    {"I32", 4, {}},          {"U32", 4, {}},          {"I16", 2, {}},
    {"U16", 2, {}},          {"I8", 1, {}},           {"U8", 1, {}},
    {"BOOL", 1, {}},         {"F8_E4M3", 1, {}},      {"F8_E5M2", 1, {}},
};

absl::StatusOr<Format> FindFormat(const std::string& name) {
  for (const Format& format : kFormats) {
    if (format.name == name) return format;
  }
  return InvalidArgument("has the unknown dtype %s", Quoted(name));
}

// Shape, format and offsets agree; says nothing about the file's size.
absl::StatusOr<Tensor> CheckEntry(const SafetensorsEntry& entry) {
  BATON_ASSIGN_OR_RETURN(const Format format, FindFormat(entry.dtype));
  if (entry.begin > entry.end) return InvalidArgument("has data_offsets [%d, %d]", entry.begin, entry.end);
  const std::optional<uint64_t> elements = ElementCount(entry.shape);
  uint64_t bytes = 0;
  if (!elements || __builtin_mul_overflow(*elements, format.bytes, &bytes)) {
    return InvalidArgument("has the shape %s, which overflows", ShapeText(entry.shape));
  }
  if (entry.end - entry.begin != bytes) {
    return InvalidArgument("has data_offsets [%d, %d], %d bytes; shape %s of %s needs %d", entry.begin, entry.end,
                           entry.end - entry.begin, ShapeText(entry.shape), entry.dtype, bytes);
  }
  return Tensor{.name = entry.name, .dtype = format.dtype, .dtype_name = entry.dtype, .shape = entry.shape};
}

// Every byte of the data section belongs to exactly one tensor. Expects begin <= end.
absl::Status CheckCoverage(std::vector<SafetensorsEntry> entries, uint64_t data_offset, uint64_t file_size) {
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return std::tie(a.begin, a.end) < std::tie(b.begin, b.end); });
  const SafetensorsEntry* previous = nullptr;
  uint64_t position = 0;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.begin != position) {
      return InvalidArgument("tensor %s begins at byte %d of the data, %s ends at %d", Quoted(entry.name), entry.begin,
                             previous ? "tensor " + Quoted(previous->name) : "the header", position);
    }
    position = entry.end;
    previous = &entry;
  }
  uint64_t expected = 0;
  if (__builtin_add_overflow(position, data_offset, &expected)) {
    return InvalidArgument("tensor %s ends at byte %d of the data, past the end", Quoted(previous->name), position);
  }
  if (expected != file_size) {
    return DataLoss("is %d bytes long, its header needs %d%s", file_size, expected,
                    previous ? " (tensor " + Quoted(previous->name) + " ends there)" : "");
  }
  return absl::OkStatus();
}

absl::StatusOr<TensorMap> ReadTensors(const std::shared_ptr<const MappedFile>& file) {
  uint64_t header_size = 0;
  if (file->size() < sizeof(header_size)) {
    return DataLoss("is %d bytes long, a safetensors file has at least 8", file->size());
  }
  BATON_RETURN_IF_ERROR(file->Read(0, std::as_writable_bytes(std::span(&header_size, 1))));
  if (header_size > kLongestHeader) {
    return InvalidArgument("has a header of %d bytes, the limit is %d", header_size, kLongestHeader);
  }
  const uint64_t data_offset = sizeof(header_size) + header_size;
  if (data_offset > file->size()) {
    return DataLoss("is %d bytes long, its header alone needs %d", file->size(), data_offset);
  }
  std::string header(header_size, '\0');
  BATON_RETURN_IF_ERROR(file->Read(sizeof(header_size), std::as_writable_bytes(std::span(header))));
  BATON_ASSIGN_OR_RETURN(std::vector<SafetensorsEntry> entries, ParseSafetensorsHeader(header));

  TensorMap tensors;
  for (const SafetensorsEntry& entry : entries) {
    absl::StatusOr<Tensor> tensor = CheckEntry(entry);
    if (!tensor.ok()) return InvalidArgument("tensor %s %s", Quoted(entry.name), StatusMessage(tensor.status()));
    tensors.emplace(entry.name, *std::move(tensor));
  }
  BATON_RETURN_IF_ERROR(CheckCoverage(entries, data_offset, file->size()));
  for (const SafetensorsEntry& entry : entries) {
    Tensor& tensor = tensors.find(entry.name)->second;
    tensor.file = file;
    tensor.file_offset = data_offset + entry.begin;
    tensor.data = file->bytes().subspan(tensor.file_offset, entry.end - entry.begin);
  }
  return tensors;
}

bool IsPlainShardName(const std::string& name) {
  return name.size() > 12 && name.ends_with(".safetensors") && name.find_first_of(std::string("/\\\0", 3)) == name.npos;
}

}  // namespace

absl::StatusOr<TensorMap> ReadSafetensorsFile(const std::string& path) {
  BATON_ASSIGN_OR_RETURN(const auto file, MappedFile::Open(path));
  absl::StatusOr<TensorMap> tensors = ReadTensors(file);
  if (!tensors.ok()) return WithContext(tensors.status(), path);
  return tensors;
}

absl::StatusOr<TensorMap> ReadShardedSafetensors(const std::string& index_path) {
  BATON_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(index_path, kLongestIndex));
  BATON_ASSIGN_OR_RETURN(const nlohmann::json index, ParseJsonObject(text, index_path));
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object() || map->empty()) {
    return InvalidArgument("%s: has no weight_map", index_path);
  }
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : map->items()) {
    if (!shard.is_string() || !IsPlainShardName(shard.get_ref<const std::string&>())) {
      return InvalidArgument("%s: tensor %s is said to be in %s, which is not the plain name of a .safetensors file",
                             index_path, Quoted(tensor), shard.is_string() ? Quoted(shard.get<std::string>()) : "?");
    }
    shards.insert(shard.get<std::string>());
  }

  const std::filesystem::path directory = std::filesystem::path(index_path).parent_path();
  std::vector<std::string> missing;
  std::error_code ignored;
  for (const std::string& shard : shards) {
    if (!std::filesystem::exists(directory / shard, ignored)) missing.push_back(Quoted(shard));
  }
  if (!missing.empty()) {
    return NotFound("%s: %d of %d files it names are missing: %s", index_path, missing.size(), shards.size(),
                    absl::StrJoin(missing, ", "));
  }

  TensorMap all;
  for (const std::string& shard : shards) {
    BATON_ASSIGN_OR_RETURN(TensorMap tensors, ReadSafetensorsFile((directory / shard).string()));
    for (auto& [name, tensor] : tensors) {
      const auto listed = map->find(name);
      if (listed == map->end())
        return InvalidArgument("%s: does not list tensor %s of %s", index_path, Quoted(name), shard);
      if (*listed != shard) {
        return InvalidArgument("%s: places tensor %s in %s, but it is in %s", index_path, Quoted(name),
                               listed->get<std::string>(), shard);
      }
      all.emplace(name, std::move(tensor));
    }
  }
  for (const auto& [name, shard] : map->items()) {
    if (!all.contains(name)) {
      return NotFound("%s: tensor %s is not in %s", index_path, Quoted(name), shard.get<std::string>());
    }
  }
  return all;
}

}  // namespace baton::weights
