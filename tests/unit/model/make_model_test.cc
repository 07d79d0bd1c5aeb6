#include "common/model/make_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "common/base/status.h"
#include "common/model/byte_vocabulary.h"
#include "common/model/model.h"
#include "common/model/model_math.h"
#include "common/model/random_tensors.h"
#include "common/model/shapes.h"
#include "tests/fakes/checkpoint_writer.h"

namespace baton::model {
namespace {

using ::testing::HasSubstr;

std::vector<float> Rows(const TensorView& tensor) {
  std::vector<float> out(tensor.rows * tensor.cols);
  EXPECT_TRUE(ReadRows(tensor, 0, tensor.rows, out.data()).ok());
  return out;
}

std::shared_ptr<const Model> Made(const std::string& directory, const MakeModelOptions& options) {
  EXPECT_TRUE(MakeModel(*FindShape("tiny"), options, directory).ok());
  auto model = LoadModel(directory);
  EXPECT_TRUE(model.ok()) << model.status();
  return *model;
}

TEST(Shapes, HaveThePublishedParameterCounts) {
  const auto total = [](std::string_view name) { return CountParameters(*FindShape(name)).total; };
  EXPECT_EQ(total("smollm2-135m"), 134'515'008u);
  EXPECT_EQ(total("qwen2.5-0.5b"), 494'032'768u);
  EXPECT_EQ(total("qwen3-0.6b"), 596'049'920u);
  EXPECT_EQ(total("llama-3.2-1b"), 1'235'814'400u);
  EXPECT_EQ(total("qwen2.5-1.5b"), 1'543'714'304u);
  EXPECT_EQ(total("qwen2.5-7b"), 7'615'616'512u);
}

TEST(Shapes, UnknownNamesAreAnsweredWithTheKnownOnes) {
  EXPECT_THAT(StatusMessage(FindShape("gpt-2").status()), HasSubstr("smollm2-135m"));
}

TEST(MakeModel, EveryFormatLoadsAndOneSeedIsOneModel) {
  fakes::TemporaryDirectory directory;
  const auto reference = Made(directory / "reference", {});
  int number = 0;
  for (const FileFormat format : {FileFormat::kSafetensors, FileFormat::kGguf}) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kQ8_0, DType::kQ4_0}) {
      if (format == FileFormat::kSafetensors && BlockOf(dtype).elements > 1) continue;
      SCOPED_TRACE(DTypeName(dtype));
      const auto model = Made(directory / std::to_string(++number), {.dtype = dtype, .format = format});
      EXPECT_EQ(model->layers[1].down.dtype, dtype);
      EXPECT_EQ(model->config.eos_ids, std::vector<TokenId>{kByteVocabularyEnd});
      EXPECT_EQ(Rows(model->embedding), Rows(reference->embedding));
      if (dtype != DType::kQ4_0) {
        EXPECT_EQ(Rows(model->layers[1].down), Rows(reference->layers[1].down));
      }
    }
  }
}

TEST(MakeModel, Q4_0KeepsTheEmbeddingInQ8_0) {
  fakes::TemporaryDirectory directory;
  const auto model = Made(directory / "m", {.dtype = DType::kQ4_0, .format = FileFormat::kGguf});
  EXPECT_EQ(model->embedding.dtype, DType::kQ8_0);
  EXPECT_EQ(model->layers[0].attention_norm.dtype, DType::kF32);
}

TEST(MakeModel, WritesIntoEmptyDirectoriesOnly) {
  fakes::TemporaryDirectory directory;
  fakes::WriteFile(directory / "precious.txt", "x");
  const absl::Status status = MakeModel(*FindShape("tiny"), {}, directory.path());
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(StatusMessage(status), HasSubstr("not empty"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory.path()), {}), 1);
}

TEST(MakeModel, RefusesWhatTheFormatCannotHold) {
  fakes::TemporaryDirectory directory;
  EXPECT_THAT(StatusMessage(MakeModel(*FindShape("tiny"), {.dtype = DType::kQ8_0}, directory / "a")),
              HasSubstr("safetensors has no q8_0"));
  ModelConfig odd = *FindShape("tiny");
  odd.intermediate = 100;
  EXPECT_THAT(StatusMessage(MakeModel(odd, {.dtype = DType::kQ4_0, .format = FileFormat::kGguf}, directory / "b")),
              HasSubstr("100"));
  EXPECT_FALSE(std::filesystem::exists(directory / "b"));
}

TEST(MakeModel, RowsAreTheSameHoweverTheyAreAskedFor) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kQ8_0, DType::kQ4_0}) {
    const weights::TensorSource tensor = RandomTensors(*FindShape("tiny"), 9, {dtype, DType::kF32, dtype}).front();
    const std::vector<std::byte> whole = fakes::BytesOf(tensor);
    std::vector<std::byte> rows(3 * tensor.row_bytes());
    tensor.fill(7, rows);
    EXPECT_TRUE(std::equal(rows.begin(), rows.end(), whole.begin() + 7 * static_cast<ptrdiff_t>(tensor.row_bytes())));
  }
}

TEST(ByteVocabulary, EveryTokenIsAnotherText) {
  const std::vector<std::string> tokens = ByteVocabulary(152064);
  EXPECT_EQ(tokens.size(), 152064u);
  EXPECT_EQ(std::set<std::string>(tokens.begin(), tokens.end()).size(), tokens.size());
}

}  // namespace
}  // namespace baton::model
