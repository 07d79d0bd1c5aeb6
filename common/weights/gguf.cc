#include "common/weights/gguf.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "common/base/status.h"
#include "common/weights/file_cursor.h"

namespace baton::weights {
namespace {

static_assert(std::endian::native == std::endian::little, "file formats are little-endian and read by copying");

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr uint32_t kMostDimensions = 4;

enum ValueType : uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64,
  kValueTypes
};
constexpr uint32_t kValueBytes[kValueTypes] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

struct TypeName {
  uint32_t id;
  std::string_view name;
  std::optional<DType> dtype;
};
constexpr TypeName kTensorTypes[] = {
    {0, "F32", DType::kF32},
    {1, "F16", DType::kF16},
    {30, "BF16", DType::kBF16},
    {8, "Q8_0", DType::kQ8_0},
    {2, "Q4_0", DType::kQ4_0},
    {3, "Q4_1", DType::kQ4_1},
    {12, "Q4_K", DType::kQ4_K},
    {13, "Q5_K", DType::kQ5_K},
    {14, "Q6_K", DType::kQ6_K},
    {6, "Q5_0", {}},
    {7, "Q5_1", {}},
    {9, "Q8_1", {}},
    {10, "Q2_K", {}},
    {11, "Q3_K", {}},
    {15, "Q8_K", {}},
    {16, "IQ2_XXS", {}},
    {17, "IQ2_XS", {}},
    {18, "IQ3_XXS", {}},
    {19, "IQ1_S", {}},
    {20, "IQ4_NL", {}},
    {21, "IQ3_S", {}},
    {22, "IQ2_S", {}},
    {23, "IQ4_XS", {}},
    {24, "I8", {}},
    {25, "I16", {}},
    {26, "I32", {}},
    {27, "I64", {}},
    {28, "F64", {}},
    {29, "IQ1_M", {}},
    {34, "TQ1_0", {}},
    {35, "TQ2_0", {}},
    {39, "MXFP4", {}},
};

absl::StatusOr<DType> FindTensorType(uint32_t id) {
  for (const TypeName& type : kTensorTypes) {
    if (type.id != id) continue;
    if (type.dtype) return *type.dtype;
    return InvalidArgument(
        "has the format %s, which Baton does not read (it reads F32, F16, BF16, Q8_0, Q4_0, Q4_1, "
        "Q4_K, Q5_K and Q6_K)",
        type.name);
  }
  return InvalidArgument("has the unknown format number %d", id);
}

template <typename Stored, typename Wide>
absl::StatusOr<GgufValue> ReadNumber(FileCursor& in) {
  BATON_ASSIGN_OR_RETURN(const Stored value, in.Get<Stored>());
  return GgufValue(static_cast<Wide>(value));
}

template <typename T>
absl::StatusOr<GgufValue> ReadNumbers(FileCursor& in, uint64_t count) {
  std::vector<T> values(count);
  BATON_RETURN_IF_ERROR(in.Copy(values.data(), count * sizeof(T)));
  return GgufValue(std::move(values));
}

absl::StatusOr<GgufValue> ReadArray(FileCursor& in) {
  BATON_ASSIGN_OR_RETURN(const uint32_t type, in.Get<uint32_t>());
  BATON_ASSIGN_OR_RETURN(const uint64_t count, in.Get<uint64_t>());
  if (type == kArray) return InvalidArgument("is a list of lists");
  if (type >= kValueTypes) return InvalidArgument("is a list of the unknown type %d", type);
  const uint64_t smallest = type == kString ? sizeof(uint64_t) : kValueBytes[type];
  if (count > in.remaining() / smallest) {
    return DataLoss("is a list of %d elements of at least %d bytes, %d bytes remain", count, smallest, in.remaining());
  }
  if (type == kI32) return ReadNumbers<int32_t>(in, count);
  if (type == kF32) return ReadNumbers<float>(in, count);
  if (type != kString) {
    BATON_RETURN_IF_ERROR(in.Skip(count * kValueBytes[type]));
    return GgufValue();
  }
  std::vector<std::string> strings;
  strings.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    BATON_ASSIGN_OR_RETURN(std::string text, in.GetString());
    strings.push_back(std::move(text));
  }
  return GgufValue(std::move(strings));
}

absl::StatusOr<GgufValue> ReadValue(FileCursor& in) {
  BATON_ASSIGN_OR_RETURN(const uint32_t type, in.Get<uint32_t>());
  switch (type) {
    case kU8:
      return ReadNumber<uint8_t, uint64_t>(in);
    case kI8:
      return ReadNumber<int8_t, int64_t>(in);
    case kU16:
      return ReadNumber<uint16_t, uint64_t>(in);
    case kI16:
      return ReadNumber<int16_t, int64_t>(in);
    case kU32:
      return ReadNumber<uint32_t, uint64_t>(in);
    case kI32:
      return ReadNumber<int32_t, int64_t>(in);
    case kU64:
      return ReadNumber<uint64_t, uint64_t>(in);
    case kI64:
      return ReadNumber<int64_t, int64_t>(in);
    case kF32:
      return ReadNumber<float, double>(in);
    case kF64:
      return ReadNumber<double, double>(in);
    case kBool: {
      BATON_ASSIGN_OR_RETURN(const uint8_t value, in.Get<uint8_t>());
      if (value > 1) return InvalidArgument("is the boolean %d", value);
      return GgufValue(value == 1);
    }
    case kString: {
      BATON_ASSIGN_OR_RETURN(std::string text, in.GetString());
      return GgufValue(std::move(text));
    }
    case kArray:
      return ReadArray(in);
    default:
      return InvalidArgument("has the unknown value type %d", type);
  }
}

absl::Status ReadMetadata(FileCursor& in, uint64_t count, GgufMetadata* metadata) {
  for (uint64_t i = 0; i < count; ++i) {
    absl::StatusOr<std::string> key = in.GetString();
    if (!key.ok()) return WithContext(key.status(), absl::StrFormat("metadata key %d of %d", i + 1, count));
    absl::StatusOr<GgufValue> value = ReadValue(in);
    if (!value.ok()) return WithContext(value.status(), "metadata key " + Quoted(*key));
    if (!metadata->Insert(*key, *std::move(value))) {
      return InvalidArgument("metadata key %s appears twice", Quoted(*key));
    }
  }
  return absl::OkStatus();
}

// One entry of the tensor list; `file_offset` is relative to the data section until CheckPlacement.
absl::StatusOr<Tensor> ReadTensorInfo(FileCursor& in) {
  Tensor tensor;
  BATON_ASSIGN_OR_RETURN(tensor.name, in.GetString());
  const std::string context = "tensor " + Quoted(tensor.name);
  BATON_ASSIGN_OR_RETURN(const uint32_t dimensions, in.Get<uint32_t>());
  if (dimensions < 1 || dimensions > kMostDimensions) {
    return InvalidArgument("%s has %d dimensions, the format allows 1 to %d", context, dimensions, kMostDimensions);
  }
  for (uint32_t i = 0; i < dimensions; ++i) {
    BATON_ASSIGN_OR_RETURN(const uint64_t size, in.Get<uint64_t>());
    tensor.shape.insert(tensor.shape.begin(), size);  // the file has the innermost first
  }
  BATON_ASSIGN_OR_RETURN(const uint32_t type, in.Get<uint32_t>());
  BATON_ASSIGN_OR_RETURN(tensor.file_offset, in.Get<uint64_t>());
  absl::StatusOr<DType> dtype = FindTensorType(type);
  if (!dtype.ok()) return WithContext(dtype.status(), context);
  tensor.dtype = *dtype;
  tensor.dtype_name = DTypeName(*dtype);
  return tensor;
}

// The trailing dimensions of size 1 that some writers add carry nothing.
void DropOuterOnes(std::vector<uint64_t>* shape) {
  while (shape->size() > 2 && shape->front() == 1) shape->erase(shape->begin());
}

absl::Status CheckPlacement(GgufFile* gguf, uint64_t data_offset, uint64_t alignment) {
  std::vector<Tensor*> order;
  uint64_t last_end = data_offset;
  for (auto& [name, tensor] : gguf->tensors) {
    const DTypeBlock block = BlockOf(*tensor.dtype);
    const std::optional<uint64_t> elements = ElementCount(tensor.shape);
    uint64_t bytes = 0;
    if (!elements || *elements == 0 ||
        __builtin_mul_overflow(*elements / block.elements, static_cast<uint64_t>(block.bytes), &bytes)) {
      return InvalidArgument("tensor %s has the impossible shape %s", Quoted(name), ShapeText(tensor.shape));
    }
    if (tensor.shape.back() % block.elements != 0) {
      return InvalidArgument("tensor %s has rows of %d elements, %s needs a multiple of %d", Quoted(name),
                             tensor.shape.back(), tensor.dtype_name, block.elements);
    }
    if (tensor.file_offset % alignment != 0) {
      return InvalidArgument("tensor %s lies at offset %d, the file's alignment is %d", Quoted(name),
                             tensor.file_offset, alignment);
    }
    uint64_t begin = 0, end = 0;
    if (__builtin_add_overflow(data_offset, tensor.file_offset, &begin) || __builtin_add_overflow(begin, bytes, &end) ||
        end > gguf->file->size()) {
      return DataLoss("is %d bytes long; tensor %s needs %d bytes at offset %d of the data, which begins at %d%s",
                      gguf->file->size(), Quoted(name), bytes, tensor.file_offset, data_offset,
                      end > begin && begin >= data_offset ? absl::StrFormat(": %d bytes", end) : "");
    }
    tensor.file = gguf->file;
    tensor.file_offset = begin;
    tensor.data = gguf->file->bytes().subspan(begin, bytes);
    last_end = std::max(last_end, end);
    order.push_back(&tensor);
    DropOuterOnes(&tensor.shape);
  }
  std::sort(order.begin(), order.end(),
            [](const Tensor* a, const Tensor* b) { return a->file_offset < b->file_offset; });
  for (size_t i = 1; i < order.size(); ++i) {
    const uint64_t previous_end = order[i - 1]->file_offset + order[i - 1]->data.size();
    if (order[i]->file_offset < previous_end) {
      return InvalidArgument("tensor %s begins at byte %d, inside tensor %s, which ends at %d", Quoted(order[i]->name),
                             order[i]->file_offset, Quoted(order[i - 1]->name), previous_end);
    }
  }
  const uint64_t padded_end = (last_end + alignment - 1) / alignment * alignment;
  if (gguf->file->size() > padded_end) {
    return InvalidArgument("is %d bytes long, its tensors end at %d", gguf->file->size(), last_end);
  }
  return absl::OkStatus();
}

absl::Status ReadHeader(GgufFile* gguf) {
  FileCursor in(gguf->file);
  BATON_ASSIGN_OR_RETURN(const uint32_t magic, in.Get<uint32_t>());
  if (magic != kMagic) return InvalidArgument("begins with %08x, not with GGUF", magic);
  BATON_ASSIGN_OR_RETURN(const uint32_t version, in.Get<uint32_t>());
  if (version != 0 && (version & 0xffff) == 0) {
    return InvalidArgument("is a big-endian GGUF file; only little-endian ones are read");
  }
  if (version < 2 || version > 3) return InvalidArgument("is GGUF version %d; versions 2 and 3 are read", version);
  BATON_ASSIGN_OR_RETURN(const uint64_t tensor_count, in.Get<uint64_t>());
  BATON_ASSIGN_OR_RETURN(const uint64_t key_count, in.Get<uint64_t>());
  constexpr uint64_t kSmallestKey = 8 + 4 + 1, kSmallestTensor = 8 + 4 + 8 + 4 + 8;
  if (key_count > in.remaining() / kSmallestKey || tensor_count > in.remaining() / kSmallestTensor) {
    return DataLoss("is %d bytes long, too few for %d metadata keys and %d tensors", gguf->file->size(), key_count,
                    tensor_count);
  }
  BATON_RETURN_IF_ERROR(ReadMetadata(in, key_count, &gguf->metadata));
  BATON_ASSIGN_OR_RETURN(const auto stated_alignment, gguf->metadata.U32("general.alignment"));
  const uint64_t alignment = stated_alignment.value_or(32);
  if (!std::has_single_bit(alignment) || alignment < 8 || alignment > 65536) {
    return InvalidArgument("has the alignment %d, not a power of two from 8 to 65536", alignment);
  }
  for (uint64_t i = 0; i < tensor_count; ++i) {
    absl::StatusOr<Tensor> tensor = ReadTensorInfo(in);
    if (!tensor.ok()) return WithContext(tensor.status(), absl::StrFormat("tensor %d of %d", i + 1, tensor_count));
    std::string name = tensor->name;
    if (!gguf->tensors.emplace(name, *std::move(tensor)).second) {
      return InvalidArgument("tensor %s appears twice", Quoted(name));
    }
  }
  const uint64_t data_offset = (in.position() + alignment - 1) / alignment * alignment;
  return CheckPlacement(gguf, data_offset, alignment);
}

}  // namespace

absl::StatusOr<GgufFile> ReadGguf(const std::string& path) {
  GgufFile gguf;
  BATON_ASSIGN_OR_RETURN(gguf.file, MappedFile::Open(path));
  if (absl::Status status = ReadHeader(&gguf); !status.ok()) return WithContext(status, path);
  return gguf;
}

}  // namespace baton::weights
