#include "common/weights/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>

#include "common/base/status.h"
#include "tests/fakes/checkpoint_writer.h"
#include "tests/unit/weights/allocation_meter.h"

namespace baton::weights {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TensorSource Source(const std::string& name, const std::vector<uint64_t>& shape, float first) {
  std::vector<float> values(*ElementCount(shape));
  std::iota(values.begin(), values.end(), first);
  return fakes::TensorOf(name, shape, values);
}

class SafetensorsTest : public testing::Test {
 protected:
  // The error of reading a file of these bytes; it names the file, is one line, and cost little memory.
  std::string ErrorOf(const std::string& bytes) {
    const std::string path = directory_ / "model.safetensors";
    fakes::WriteFile(path, bytes);
    const AllocationMeter meter;
    const auto tensors = ReadSafetensorsFile(path);
    EXPECT_LE(meter.bytes(), 2 * bytes.size() + (256 << 10));
    EXPECT_FALSE(tensors.ok());
    const std::string message = StatusMessage(tensors.status());
    EXPECT_THAT(message, AllOf(HasSubstr(path), Not(HasSubstr("\n"))));
    return message.substr(path.size());
  }
  std::string HeaderError(const std::string& header, size_t data = 64) {
    return ErrorOf(fakes::SafetensorsBytes(header, std::string(data, '\0')));
  }
  static std::string Length(uint64_t length) { return {reinterpret_cast<const char*>(&length), sizeof(length)}; }

  fakes::TemporaryDirectory directory_;
};

TEST_F(SafetensorsTest, TensorsHaveShapeFormatAndBytes) {
  fakes::WriteSafetensors(directory_ / "a.safetensors", {Source("b", {2, 3}, 0), Source("a", {4}, 100)});
  const auto tensors = ReadSafetensorsFile(directory_ / "a.safetensors");
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  const Tensor& a = tensors->at("a");
  EXPECT_EQ(a.shape, std::vector<uint64_t>({4}));
  EXPECT_EQ(a.dtype, DType::kF32);
  ASSERT_EQ(a.data.size(), 16u);
  EXPECT_EQ(*reinterpret_cast<const float*>(a.data.data()), 100.0f);
  std::vector<std::byte> copy(16);
  EXPECT_TRUE(a.file->Read(a.file_offset, copy).ok());
  EXPECT_TRUE(std::equal(copy.begin(), copy.end(), a.data.begin()));
}

TEST_F(SafetensorsTest, FormatsThatAreNotComputedWithAreListedWithoutDType) {
  const std::string path = directory_ / "a.safetensors";
  fakes::WriteFile(path,
                   fakes::SafetensorsBytes(R"({"m":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}})", "12345678"));
  const auto tensors = ReadSafetensorsFile(path);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_FALSE(tensors->at("m").dtype.has_value());
  EXPECT_EQ(tensors->at("m").dtype_name, "I64");
}

TEST_F(SafetensorsTest, MDL_04_CutOrPaddedFilesAreRefusedWithBothSizes) {
  const std::string whole_path = directory_ / "whole.safetensors";
  fakes::WriteSafetensors(whole_path, {Source("a", {100}, 0), Source("b", {100}, 0)});
  const std::string whole = fakes::ReadFile(whole_path);
  const std::string size = std::to_string(whole.size());
  for (const size_t cut : {whole.size() - 1, whole.size() / 2 + 200}) {
    EXPECT_THAT(ErrorOf(whole.substr(0, cut)),
                AllOf(HasSubstr("is " + std::to_string(cut) + " bytes"), HasSubstr(size)));
  }
  EXPECT_THAT(ErrorOf(whole.substr(0, 40)), AllOf(HasSubstr("is 40 bytes"), HasSubstr("header alone needs")));
  EXPECT_THAT(ErrorOf(whole.substr(0, 7)), HasSubstr("is 7 bytes"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("is 0 bytes"));
  EXPECT_THAT(ErrorOf(whole + "x"), AllOf(HasSubstr("is " + std::to_string(whole.size() + 1)), HasSubstr(size)));
}

TEST_F(SafetensorsTest, MDL_05_HeaderLengthIsCheckedBeforeUse) {
  EXPECT_THAT(ErrorOf(Length(UINT64_MAX) + "{}"), HasSubstr("18446744073709551615"));
  EXPECT_THAT(ErrorOf(Length(uint64_t{1} << 63) + "{}"), HasSubstr("9223372036854775808"));
  EXPECT_THAT(ErrorOf(Length(100'000'001) + "{}"), HasSubstr("the limit is 100000000"));
  EXPECT_THAT(ErrorOf(Length(20 - 7) + std::string(12, ' ')), HasSubstr("its header alone needs 21"));
}

TEST_F(SafetensorsTest, MDL_05_OffsetsAreComparedWithShapeAndFile) {
  const auto entry = [](const std::string& shape, const std::string& offsets) {
    return R"({"evil":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  EXPECT_THAT(HeaderError(entry("[32,8]", "[0,65536]")),
              AllOf(HasSubstr("'evil'"), HasSubstr("65536 bytes"), HasSubstr("[32, 8]"), HasSubstr("needs 1024")));
  EXPECT_THAT(HeaderError(entry("[4294967296,4294967296]", "[0,0]")), HasSubstr("overflows"));
  EXPECT_THAT(HeaderError(entry("[9223372036854775807]", "[0,0]")), HasSubstr("overflows"));
  EXPECT_THAT(HeaderError(entry("[4611686018427387904]", "[0,0]")), HasSubstr("overflows"));
  EXPECT_THAT(HeaderError(entry("[-1,4]", "[0,16]")), HasSubstr("negative number -1"));
  EXPECT_THAT(HeaderError(entry("[16]", "[-8,0]")), HasSubstr("negative number -8"));
  EXPECT_THAT(HeaderError(entry("[16]", "[100,50]")), HasSubstr("[100, 50]"));
  EXPECT_THAT(HeaderError(entry("[32]", "[0,128]")), HasSubstr("'evil' ends there"));
  EXPECT_THAT(HeaderError(entry("[1]", "[9007199254740993,9007199254740997]")), HasSubstr("9007199254740993"));
  EXPECT_THAT(HeaderError(entry("[1]", "[18446744073709551611,18446744073709551615]")), HasSubstr("'evil'"));
  EXPECT_THAT(HeaderError(entry("[9007199254740993]", "[0,64]")), HasSubstr("needs 36028797018963972"));
  EXPECT_THAT(HeaderError(entry("[1e400]", "[0,64]")), HasSubstr("1e400"));
  EXPECT_THAT(HeaderError(entry("[16.0]", "[0,64]")), HasSubstr("16.0"));
  EXPECT_THAT(HeaderError(entry("[16]", "[0,64,64]")), HasSubstr("more than 2"));
  EXPECT_THAT(HeaderError(entry("[16]", "[0]")), HasSubstr("has 1 data_offsets"));
  EXPECT_THAT(HeaderError(entry("[1,1,1,1,1,1,1,1,16]", "[0,64]")), HasSubstr("8 dimensions"));
}

TEST_F(SafetensorsTest, MDL_05_OverlapsAndHolesAreRefused) {
  const auto two = [](const std::string& second) {
    return R"({"a":{"dtype":"F32","shape":[8],"data_offsets":[0,32]},"b":{"dtype":"F32","shape":[8],"data_offsets":)" +
           second + "}}";
  };
  EXPECT_THAT(HeaderError(two("[16,48]"), 48), AllOf(HasSubstr("'a'"), HasSubstr("'b'"), HasSubstr("16")));
  EXPECT_THAT(HeaderError(two("[0,32]"), 32), HasSubstr("'b'"));
  EXPECT_THAT(HeaderError(two("[40,72]"), 72), AllOf(HasSubstr("40"), HasSubstr("32")));
}

TEST_F(SafetensorsTest, MDL_05_StructureOfTheHeaderIsChecked) {
  const std::string good = R"({"dtype":"F32","shape":[16],"data_offsets":[0,64]})";
  EXPECT_THAT(HeaderError(R"({"a":{"dtype":"F99","shape":[16],"data_offsets":[0,64]}})"), HasSubstr("'F99'"));
  EXPECT_THAT(HeaderError(R"({"a":)" + good + R"(,"a":)" + good + "}"), HasSubstr("'a' appears twice"));
  EXPECT_THAT(HeaderError(R"({"a":{"dtype":"F32","dtype":"F32","shape":[16],"data_offsets":[0,64]}})"),
              HasSubstr("two values"));
  EXPECT_THAT(HeaderError(R"({"a":{"shape":[16],"data_offsets":[0,64]}})"), HasSubstr("lacks dtype"));
  EXPECT_THAT(HeaderError(R"({"a":{"dtype":"F32","shape":[16],"data_offsets":[0,64],"x":1}})"), HasSubstr("'x'"));
  EXPECT_THAT(HeaderError(R"({"a":{"dtype":["F32"],"shape":[16],"data_offsets":[0,64]}})"),
              HasSubstr("'a' has a list"));
  EXPECT_THAT(HeaderError(R"({"a":{"dtype":"F32","shape":[[16]],"data_offsets":[0,64]}})"), HasSubstr("list"));
  EXPECT_THAT(HeaderError(R"({"a":null})"), HasSubstr("null"));
  EXPECT_THAT(HeaderError("[1]"), HasSubstr("header has a list"));
  EXPECT_THAT(HeaderError("7"), HasSubstr("header has a number"));
  EXPECT_THAT(HeaderError(""), HasSubstr("not valid JSON"));
  EXPECT_THAT(HeaderError(R"({"a)"
                          "\xff"
                          R"(":)" +
                          good + "}"),
              HasSubstr("not valid JSON"));
  EXPECT_THAT(HeaderError(R"({"line\nbreak":7})"), HasSubstr("line\\nbreak"));
  EXPECT_THAT(HeaderError(std::string(100000, '[')), HasSubstr("list"));
  std::string nested;
  for (int i = 0; i < 100000; ++i) nested += R"({"a":)";
  EXPECT_THAT(HeaderError(nested), HasSubstr("'a'"));
}

class ShardsTest : public SafetensorsTest {
 protected:
  ShardsTest() {
    fakes::WriteShardedSafetensors(directory_.path(), {Source("a", {4}, 0), Source("b", {4}, 10), Source("c", {4}, 20)},
                                   3);
  }
  std::string Error() {
    const auto tensors = ReadShardedSafetensors(index_);
    EXPECT_FALSE(tensors.ok());
    return StatusMessage(tensors.status());
  }
  void WriteIndex(const std::string& map) { fakes::WriteFile(index_, R"({"weight_map":)" + map + "}"); }

  const std::string index_ = directory_ / "model.safetensors.index.json";
  const std::string second_ = directory_ / "model-00002-of-00003.safetensors";
};

TEST_F(ShardsTest, AllShardsAreRead) {
  const auto tensors = ReadShardedSafetensors(index_);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_EQ(tensors->size(), 3u);
  EXPECT_EQ(*reinterpret_cast<const float*>(tensors->at("b").data.data()), 10.0f);
}

TEST_F(ShardsTest, MDL_02_MissingShardsAreListed) {
  std::filesystem::remove(second_);
  EXPECT_THAT(Error(), AllOf(HasSubstr("1 of 3"), HasSubstr("'model-00002-of-00003.safetensors'")));
  std::filesystem::remove(directory_ / "model-00003-of-00003.safetensors");
  EXPECT_THAT(Error(), AllOf(HasSubstr("2 of 3"), HasSubstr("00002-of"), HasSubstr("00003-of-00003")));
}

TEST_F(ShardsTest, MDL_02_EmptyShardIsRefused) {
  fakes::WriteFile(second_, "");
  EXPECT_THAT(Error(), AllOf(HasSubstr(second_), HasSubstr("is 0 bytes")));
}

TEST_F(ShardsTest, MDL_02_NamesWithPathsAreRefused) {
  fakes::WriteSafetensors(directory_ / "x.safetensors", {Source("a", {4}, 0)});
  std::filesystem::create_directory(directory_ / "sub");
  for (const std::string name : {"../x.safetensors", "/etc/x.safetensors", "sub/x.safetensors", "..\\\\x.safetensors",
                                 "x.safetensors\\u0000", "x.bin", ".safetensors", ""}) {
    WriteIndex(R"({"a":")" + name + R"("})");
    EXPECT_THAT(Error(), HasSubstr("not the plain name")) << name;
  }
  WriteIndex(R"({"a":7})");
  EXPECT_THAT(Error(), HasSubstr("not the plain name"));
}

TEST_F(ShardsTest, MDL_02_InvalidIndexIsRefused) {
  for (const std::string text : {"", "{", "[]", "{}", R"({"weight_map":{}})", R"({"weight_map":7})"}) {
    fakes::WriteFile(index_, text);
    EXPECT_THAT(Error(), HasSubstr(index_)) << text;
  }
  fakes::WriteFile(index_, std::string(100000, '['));
  EXPECT_THAT(Error(), HasSubstr("nested 100000 deep"));
}

TEST_F(ShardsTest, MDL_02_IndexAndShardsMustAgree) {
  WriteIndex(R"({"a":"model-00001-of-00003.safetensors","d":"model-00001-of-00003.safetensors"})");
  EXPECT_THAT(Error(), AllOf(HasSubstr("'d'"), HasSubstr("00001")));
  WriteIndex(R"({"a":"model-00002-of-00003.safetensors","b":"model-00001-of-00003.safetensors"})");
  EXPECT_THAT(Error(), AllOf(HasSubstr("00001"), HasSubstr("00002")));
  fakes::WriteSafetensors(second_, {Source("b", {4}, 0), Source("a", {4}, 0)});
  WriteIndex(R"({"a":"model-00001-of-00003.safetensors","b":"model-00002-of-00003.safetensors"})");
  EXPECT_THAT(Error(), HasSubstr("'a'")) << "a tensor in two shards";
}

}  // namespace
}  // namespace baton::weights
