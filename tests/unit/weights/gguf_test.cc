#include "common/weights/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "common/base/status.h"
#include "tests/fakes/checkpoint_writer.h"
#include "tests/unit/weights/allocation_meter.h"

namespace baton::weights {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// A header written number by number.
class Bytes {
 public:
  template <typename T>
  Bytes& Put(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  Bytes& U32(uint32_t value) { return Put(value); }
  Bytes& U64(uint64_t value) { return Put(value); }
  Bytes& Text(const std::string& text) {
    U64(text.size());
    text_ += text;
    return *this;
  }
  Bytes& Start(uint64_t tensors, uint64_t keys, uint32_t version = 3) {
    text_ += "GGUF";
    return U32(version).U64(tensors).U64(keys);
  }
  Bytes& Alignment(uint32_t value) { return Text("general.alignment").U32(4).U32(value); }
  // One tensor entry: dimensions innermost first.
  Bytes& Tensor(const std::string& name, std::vector<uint64_t> dimensions, uint32_t type, uint64_t offset) {
    Text(name).U32(static_cast<uint32_t>(dimensions.size()));
    for (const uint64_t size : dimensions) U64(size);
    return U32(type).U64(offset);
  }
  Bytes& Pad(size_t size) {
    text_.resize(std::max(size, text_.size()));
    return *this;
  }
  operator std::string() const { return text_; }

 private:
  std::string text_;
};

constexpr uint32_t kF32 = 0, kQ8_0 = 8, kStringType = 8, kArrayType = 9;

class GgufTest : public testing::Test {
 protected:
  absl::StatusOr<GgufFile> Read(const std::string& bytes) {
    fakes::WriteFile(path_, bytes);
    return ReadGguf(path_);
  }
  // The error of reading these bytes; it names the file, is one line, and cost little memory.
  std::string ErrorOf(const std::string& bytes) {
    fakes::WriteFile(path_, bytes);
    const AllocationMeter meter;
    const auto gguf = ReadGguf(path_);
    EXPECT_LE(meter.bytes(), 8 * bytes.size() + (256 << 10));
    EXPECT_FALSE(gguf.ok());
    const std::string message = StatusMessage(gguf.status());
    EXPECT_THAT(message, AllOf(HasSubstr(path_), Not(HasSubstr("\n"))));
    return message.substr(std::min(message.size(), path_.size()));
  }

  fakes::TemporaryDirectory directory_;
  const std::string path_ = directory_ / "model.gguf";
};

TEST_F(GgufTest, MetadataAndTensorsAreRead) {
  GgufWriter writer;
  writer.U32("int", 7)
      .F32("float", 0.5f)
      .Bool("bool", true)
      .String("text", "hello")
      .Strings("list", {"a", "", "c"})
      .I32s("numbers", {-1, 2})
      .F32s("floats", {0.25f})
      .Tensor(fakes::TensorOf("m", {2, 3}, {1, 2, 3, 4, 5, 6}));
  fakes::WriteGguf(path_, writer);
  const auto gguf = ReadGguf(path_);
  ASSERT_TRUE(gguf.ok()) << gguf.status();
  const GgufMetadata& metadata = gguf->metadata;
  EXPECT_EQ(**metadata.U32("int"), 7u);
  EXPECT_EQ(**metadata.Number("float"), 0.5);
  EXPECT_EQ(**metadata.Number("int"), 7.0);
  EXPECT_TRUE(**metadata.Bool("bool"));
  EXPECT_EQ(**metadata.String("text"), "hello");
  EXPECT_EQ(**metadata.Strings("list"), std::vector<std::string>({"a", "", "c"}));
  EXPECT_EQ(**metadata.I32s("numbers"), std::vector<int32_t>({-1, 2}));
  EXPECT_EQ(**metadata.F32s("floats"), std::vector<float>({0.25f}));
  EXPECT_FALSE(metadata.U32("absent")->has_value());
  EXPECT_EQ(*metadata.Strings("absent"), nullptr);
  EXPECT_THAT(StatusMessage(metadata.U32("text").status()), HasSubstr("'text'"));
  EXPECT_FALSE(metadata.Strings("numbers").ok());
  const Tensor& m = gguf->tensors.at("m");
  EXPECT_EQ(m.shape, std::vector<uint64_t>({2, 3}));
  EXPECT_EQ(reinterpret_cast<const float*>(m.data.data())[5], 6.0f);
}

TEST_F(GgufTest, MDL_09_Version2IsReadOthersAreRefusedByNumber) {
  const auto with_version = [](uint32_t version) -> std::string {
    return Bytes().Start(1, 0, version).Tensor("a", {8}, kF32, 0).Pad(96);
  };
  EXPECT_TRUE(Read(with_version(2)).ok());
  EXPECT_TRUE(Read(with_version(3)).ok());
  EXPECT_THAT(ErrorOf(with_version(1)), HasSubstr("version 1"));
  EXPECT_THAT(ErrorOf(with_version(4)), HasSubstr("version 4"));
  EXPECT_THAT(ErrorOf(with_version(3u << 24)), HasSubstr("big-endian"));
  EXPECT_THAT(ErrorOf("GGML" + std::string(64, '\0')), HasSubstr("not with GGUF"));
}

TEST_F(GgufTest, MDL_09_CountsAndLengthsAreComparedWithWhatRemains) {
  for (const uint64_t count : {uint64_t{1} << 63, uint64_t{1} << 61, UINT64_MAX, uint64_t{100}}) {
    EXPECT_THAT(ErrorOf(Bytes().Start(count, 0).Pad(200)), HasSubstr(std::to_string(count) + " tensors"));
    EXPECT_THAT(ErrorOf(Bytes().Start(0, count).Pad(200)), HasSubstr(std::to_string(count) + " metadata keys"));
  }
  for (const uint64_t length : {UINT64_MAX, uint64_t{1} << 30}) {
    const std::string number = std::to_string(length);
    EXPECT_THAT(ErrorOf(Bytes().Start(0, 1).U64(length).Pad(200)), HasSubstr(number));
    EXPECT_THAT(ErrorOf(Bytes().Start(0, 1).Text("key").U32(kStringType).U64(length).Pad(200)),
                AllOf(HasSubstr("'key'"), HasSubstr(number)));
    EXPECT_THAT(ErrorOf(Bytes().Start(1, 0).U64(length).Pad(200)), HasSubstr(number));
  }
}

TEST_F(GgufTest, MDL_09_ListsAreChecked) {
  const auto list = [](uint32_t type, uint64_t count) -> std::string {
    return Bytes().Start(0, 1).Text("list").U32(kArrayType).U32(type).U64(count).Pad(200);
  };
  for (const uint32_t type : {0, 4, 5, 6, 7, 8, 12}) {
    EXPECT_THAT(ErrorOf(list(type, uint64_t{1} << 40)), AllOf(HasSubstr("'list'"), HasSubstr("1099511627776")));
    EXPECT_THAT(ErrorOf(list(type, uint64_t{1} << 62)), HasSubstr("4611686018427387904"));
  }
  EXPECT_THAT(ErrorOf(list(kArrayType, 1)), HasSubstr("list of lists"));
  EXPECT_THAT(ErrorOf(list(13, 1)), HasSubstr("unknown type 13"));
  EXPECT_THAT(ErrorOf(Bytes().Start(0, 1).Text("key").U32(77).Pad(200)), HasSubstr("unknown value type 77"));
  EXPECT_THAT(ErrorOf(Bytes().Start(0, 1).Text("key").U32(7).Put(char{2}).Pad(200)), HasSubstr("boolean 2"));
}

TEST_F(GgufTest, MDL_09_DimensionsAndTypesAreChecked) {
  for (const uint32_t dimensions : {0u, 5u, 9u, UINT32_MAX}) {
    EXPECT_THAT(ErrorOf(Bytes().Start(1, 0).Text("evil").U32(dimensions).Pad(400)),
                AllOf(HasSubstr("'evil'"), HasSubstr(std::to_string(dimensions) + " dimensions")));
  }
  const uint64_t huge = (uint64_t{1} << 42) + 1;
  const auto with = [](std::vector<uint64_t> dimensions, uint32_t type) -> std::string {
    return Bytes().Start(1, 0).Tensor("evil", dimensions, type, 0).Pad(400);
  };
  EXPECT_THAT(ErrorOf(with({huge, huge, huge, huge}, kF32)), HasSubstr("impossible shape"));
  EXPECT_THAT(ErrorOf(with({huge}, kF32)), HasSubstr("17592186044420 bytes"));
  EXPECT_THAT(ErrorOf(with({uint64_t{1} << 62}, kF32)), HasSubstr("impossible shape"));
  EXPECT_THAT(ErrorOf(with({0, 4}, kF32)), HasSubstr("impossible shape"));
  EXPECT_THAT(ErrorOf(with({31, 32}, kQ8_0)), AllOf(HasSubstr("rows of 31"), HasSubstr("multiple of 32")));
  EXPECT_THAT(ErrorOf(with({8}, 9999)), HasSubstr("9999"));
  EXPECT_THAT(ErrorOf(with({256}, 10)), HasSubstr("Q2_K"));
}

TEST_F(GgufTest, MDL_09_OffsetsAndAlignmentAreChecked) {
  const auto at = [](uint64_t offset) -> std::string {
    return Bytes().Start(1, 0).Tensor("evil", {8}, kF32, offset).Pad(96);
  };
  EXPECT_TRUE(Read(at(0)).ok());
  EXPECT_THAT(ErrorOf(at(4)), AllOf(HasSubstr("offset 4"), HasSubstr("alignment is 32")));
  EXPECT_THAT(ErrorOf(at(64)), AllOf(HasSubstr("'evil'"), HasSubstr("is 96 bytes"), HasSubstr("160 bytes")));
  EXPECT_THAT(ErrorOf(at(UINT64_MAX - 31)), HasSubstr("'evil'"));
  for (const uint32_t alignment : {0u, 3u, 4u, 1u << 31}) {
    EXPECT_THAT(ErrorOf(Bytes().Start(0, 1).Alignment(alignment).Pad(200)),
                HasSubstr("alignment " + std::to_string(alignment)));
  }
  EXPECT_THAT(ErrorOf(Bytes().Start(0, 1).Text("general.alignment").U32(kStringType).Text("x").Pad(200)),
              HasSubstr("general.alignment"));
  EXPECT_THAT(ErrorOf(Bytes().Start(2, 0).Tensor("a", {16}, kF32, 0).Tensor("b", {16}, kF32, 32).Pad(256)),
              AllOf(HasSubstr("'b'"), HasSubstr("inside tensor 'a'")));
}

TEST_F(GgufTest, MDL_09_DuplicatesAreRefused) {
  EXPECT_THAT(ErrorOf(Bytes().Start(0, 2).Alignment(32).Alignment(32).Pad(200)),
              HasSubstr("'general.alignment' appears twice"));
  EXPECT_THAT(ErrorOf(Bytes().Start(2, 0).Tensor("a", {8}, kF32, 0).Tensor("a", {8}, kF32, 32).Pad(256)),
              HasSubstr("'a' appears twice"));
}

TEST_F(GgufTest, MDL_04_CutOrPaddedFilesAreRefusedWithBothSizes) {
  fakes::WriteGguf(path_, GgufWriter()
                              .String("general.architecture", "llama")
                              .Tensor(fakes::TensorOf("m", {64, 8}, std::vector<float>(512))));
  const std::string whole = fakes::ReadFile(path_);
  ASSERT_TRUE(Read(whole).ok());
  const std::string size = std::to_string(whole.size());
  for (const size_t cut : {whole.size() - 1, whole.size() / 2}) {
    EXPECT_THAT(ErrorOf(whole.substr(0, cut)),
                AllOf(HasSubstr("is " + std::to_string(cut) + " bytes"), HasSubstr("'m'"), HasSubstr(size)));
  }
  for (const size_t cut : {0, 3, 7, 23, 40, 60, 90}) {
    EXPECT_THAT(ErrorOf(whole.substr(0, cut)), HasSubstr(std::to_string(cut))) << cut;
  }
  EXPECT_THAT(ErrorOf(whole + "x"), AllOf(HasSubstr(std::to_string(whole.size() + 1)), HasSubstr(size)));
}

}  // namespace
}  // namespace baton::weights
