#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "common/base/status.h"
#include "common/model/model.h"
#include "common/model/random_tensors.h"
#include "common/model/write_config.h"
#include "nlohmann/json.hpp"
#include "tests/fakes/checkpoint_writer.h"
#include "tests/fakes/random_model.h"

namespace baton::model {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<float> Rows(const TensorView& tensor) {
  std::vector<float> out(tensor.rows * tensor.cols);
  EXPECT_TRUE(ReadRows(tensor, 0, tensor.rows, out.data()).ok());
  return out;
}

class LoadModelTest : public testing::Test {
 protected:
  std::shared_ptr<const Model> Load(const std::string& path) {
    const auto model = LoadModel(path);
    EXPECT_TRUE(model.ok()) << model.status();
    return model.ok() ? *model : std::make_shared<Model>();
  }
  std::string Error(const std::string& path) {
    const auto model = LoadModel(path);
    EXPECT_FALSE(model.ok());
    EXPECT_THAT(StatusMessage(model.status()), Not(HasSubstr("\n")));
    return StatusMessage(model.status());
  }
  void EditConfig(const std::function<void(nlohmann::json&)>& edit) {
    nlohmann::json config = nlohmann::json::parse(fakes::ReadFile(directory_ / "config.json"));
    edit(config);
    fakes::WriteFile(directory_ / "config.json", config.dump());
  }

  fakes::TemporaryDirectory directory_;
  const std::string gguf_ = directory_ / "model.gguf";
  ModelConfig config_ = fakes::TinyConfig();
};

TEST_F(LoadModelTest, MDL_01_TiedHeadIsTheEmbeddingWhetherRepeatedOrNot) {
  fakes::WriteRandomModel(directory_.path(), config_, 1);
  const auto without = Load(directory_.path());
  EXPECT_EQ(without->lm_head.data.data(), without->embedding.data.data());
  const std::vector<float> head = Rows(without->lm_head);
  fakes::WriteRandomModel(directory_.path(), config_, 1, {.write_head = true});
  const auto with = Load(directory_.path());
  EXPECT_EQ(with->lm_head.data.data(), with->embedding.data.data());
  EXPECT_EQ(Rows(with->lm_head), head);
}

TEST_F(LoadModelTest, MDL_01_UntiedHeadIsItsOwnTensorAndMayNotBeMissing) {
  config_.tied_head = false;
  fakes::WriteRandomModel(directory_.path(), config_, 1);
  const auto model = Load(directory_.path());
  EXPECT_EQ(model->lm_head.name, "lm_head.weight");
  EXPECT_NE(Rows(model->lm_head), Rows(model->embedding));

  config_.tied_head = true;
  fakes::WriteRandomModel(directory_.path(), config_, 1);
  EditConfig([](auto& config) { config["tie_word_embeddings"] = false; });
  EXPECT_THAT(Error(directory_.path()),
              AllOf(HasSubstr("model.safetensors"), HasSubstr("'lm_head.weight' [320, 64] is missing")));
}

TEST_F(LoadModelTest, MDL_01_MissingFlagIsUntiedAsTheArchitecturesDefault) {
  fakes::WriteRandomModel(directory_.path(), config_, 1);
  EditConfig([](auto& config) { config.erase("tie_word_embeddings"); });
  EXPECT_THAT(Error(directory_.path()), HasSubstr("'lm_head.weight'"));
  config_.tied_head = false;
  fakes::WriteRandomModel(directory_.path(), config_, 1);
  EditConfig([](auto& config) { config.erase("tie_word_embeddings"); });
  EXPECT_EQ(Load(directory_.path())->lm_head.name, "lm_head.weight");
}

TEST_F(LoadModelTest, MDL_01_GgufWithoutOutputTensorIsTied) {
  fakes::WriteRandomGguf(gguf_, config_, 1);
  const auto tied = Load(gguf_);
  EXPECT_TRUE(tied->config.tied_head);
  EXPECT_EQ(tied->lm_head.name, "token_embd.weight");
  config_.tied_head = false;
  fakes::WriteRandomGguf(gguf_, config_, 1);
  const auto untied = Load(gguf_);
  EXPECT_FALSE(untied->config.tied_head);
  EXPECT_EQ(untied->lm_head.name, "output.weight");
}

TEST_F(LoadModelTest, MDL_02_ShardsMakeTheSameModel) {
  fakes::WriteRandomModel(directory_.path(), config_, 1);
  const Hash128 identity = Load(directory_.path())->weights_identity;
  fakes::TemporaryDirectory sharded;
  fakes::WriteRandomModel(sharded.path(), config_, 1, {.shards = 3});
  const auto model = Load(sharded.path());
  EXPECT_EQ(model->weights_identity, identity);
  EXPECT_EQ(model->files.size(), 3u);
  std::filesystem::remove(sharded / "model-00002-of-00003.safetensors");
  EXPECT_THAT(Error(sharded.path()), HasSubstr("'model-00002-of-00003.safetensors'"));
}

TEST_F(LoadModelTest, MDL_02_EveryParameterIsSetExactlyOnce) {
  auto tensors = RandomTensors(config_, 1, {});
  fakes::WriteFile(directory_ / "config.json", ConfigJson(config_));
  const std::string path = directory_ / "model.safetensors";
  for (size_t left_out = 0; left_out < tensors.size(); ++left_out) {
    auto fewer = tensors;
    fewer.erase(fewer.begin() + static_cast<ptrdiff_t>(left_out));
    fakes::WriteSafetensors(path, fewer);
    EXPECT_THAT(Error(directory_.path()), AllOf(HasSubstr(path), HasSubstr("'" + tensors[left_out].name + "'")));
  }
  weights::TensorSource extra = tensors.back();
  extra.name = "model.layers.2.mlp.up_proj.weight";  // a third layer of a model said to have two
  tensors.push_back(extra);
  fakes::WriteSafetensors(path, tensors);
  EXPECT_THAT(Error(directory_.path()), HasSubstr("'model.layers.2.mlp.up_proj.weight' [64] does not belong"));
  tensors.back().name = "model.layers.0.self_attn.rotary_emb.inv_freq";
  fakes::WriteSafetensors(path, tensors);
  Load(directory_.path());
}

TEST_F(LoadModelTest, ShapesAreComparedWithTheConfig) {
  fakes::WriteRandomModel(directory_.path(), config_, 1);
  EditConfig([](auto& config) { config["intermediate_size"] = 256; });
  EXPECT_THAT(Error(directory_.path()), AllOf(HasSubstr("'model.layers.0.mlp.gate_proj.weight'"),
                                              HasSubstr("[128, 64]"), HasSubstr("[256, 64]")));
}

// Cut after the first tensor was looked at, and after the last, when no later read could notice.
TEST_F(LoadModelTest, MDL_04_TruncationWhileLoadingIsReported) {
  for (const bool at_the_end : {false, true}) {
    fakes::WriteRandomModel(directory_.path(), config_, 1);
    const std::string path = directory_ / "model.safetensors";
    const uint64_t size = std::filesystem::file_size(path);
    const auto model = LoadModel(directory_.path(), [&](uint64_t done, uint64_t total) {
      if (!at_the_end || done == total) std::filesystem::resize_file(path, size / 2);
    });
    EXPECT_EQ(model.status().code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(StatusMessage(model.status()), AllOf(HasSubstr(path), HasSubstr(std::to_string(size))));
  }
}

TEST_F(LoadModelTest, MDL_04_TruncationAfterLoadingIsReportedByWhoeverCopies) {
  fakes::WriteRandomModel(directory_.path(), config_, 1);
  const auto model = Load(directory_.path());
  const std::string path = directory_ / "model.safetensors";
  std::filesystem::resize_file(path, model->layers[1].down.file_offset + 1);
  std::vector<float> rows(64 * 128);
  EXPECT_EQ(ReadRows(model->layers[1].down, 0, 64, rows.data()).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(model->CheckFilesUnchanged().code(), absl::StatusCode::kDataLoss);
}

// The GGUF files hold permuted rows (tests/fakes does as the converter); q8_0 shows it for quantised blocks.
TEST_F(LoadModelTest, MDL_11_GgufEqualsSafetensors) {
  for (const char* architecture : {"LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"}) {
    for (const bool bias : {false, true}) {
      for (const uint32_t head_dim : {16u, 32u}) {  // derived, and given as key_length
        for (const DType dtype : {DType::kF32, DType::kBF16, DType::kQ8_0}) {
          ModelConfig config = fakes::TinyConfig(architecture);
          config.head_dim = head_dim;
          if (bias && config.architecture == "LlamaForCausalLM") config.qkv_bias = config.o_bias = true;
          SCOPED_TRACE(
              absl::StrFormat("%s bias %d head_dim %d %s", architecture, config.qkv_bias, head_dim, DTypeName(dtype)));
          fakes::WriteRandomModel(directory_.path(), config, 5);
          fakes::WriteRandomGguf(gguf_, config, 5, dtype);
          const auto a = Load(directory_.path()), b = Load(gguf_);
          ASSERT_EQ(b->layers.size(), a->layers.size());
          EXPECT_EQ(b->config.head_dim, head_dim);
          EXPECT_EQ(b->layers[1].q.dtype, dtype);
          EXPECT_EQ(Rows(a->layers[1].q), Rows(b->layers[1].q));
          EXPECT_EQ(Rows(a->layers[1].k), Rows(b->layers[1].k));
          EXPECT_EQ(Rows(a->layers[1].v), Rows(b->layers[1].v));
          EXPECT_EQ(Rows(a->layers[1].down), Rows(b->layers[1].down));
          ASSERT_EQ(b->layers[1].q_bias.has_value(), config.qkv_bias);
          if (config.qkv_bias) {
            EXPECT_EQ(Rows(*a->layers[1].q_bias), Rows(*b->layers[1].q_bias));
            EXPECT_EQ(Rows(*a->layers[1].k_bias), Rows(*b->layers[1].k_bias));
            EXPECT_EQ(Rows(*a->layers[1].v_bias), Rows(*b->layers[1].v_bias));
          }
        }
      }
    }
  }
}

TEST_F(LoadModelTest, MDL_11_StoredRowsOfLlamaAreReallyPermuted) {
  const ModelConfig config = fakes::TinyConfig("LlamaForCausalLM");
  fakes::WriteRandomGguf(gguf_, config, 5, DType::kF32);
  const auto model = Load(gguf_);
  const TensorView& k = model->layers[0].k;
  const std::vector<float> rows = Rows(k);
  const auto* stored = reinterpret_cast<const float*>(k.data.data());
  // Head 1 of two, 16 rows each: row 16 + 8 (its second half's first) is stored right after row 16.
  EXPECT_EQ(stored[17 * 64], rows[(16 + 8) * 64]);
  EXPECT_NE(stored[17 * 64], rows[17 * 64]);
  std::vector<std::byte> one(k.row_bytes());
  ASSERT_TRUE(ReadRowBytes(k, 24, 1, one.data()).ok());
  EXPECT_EQ(reinterpret_cast<const float*>(one.data())[3], stored[17 * 64 + 3]);
}

TEST_F(LoadModelTest, IdentityIsOfTheContentNotThePlace) {
  fakes::WriteRandomModel(directory_.path(), config_, 1);
  fakes::TemporaryDirectory copy;
  fakes::WriteRandomModel(copy.path(), config_, 1, {.tokenizer = false});
  EXPECT_EQ(Load(directory_.path())->weights_identity, Load(copy.path())->weights_identity);
  fakes::WriteRandomModel(copy.path(), config_, 2);
  EXPECT_NE(Load(directory_.path())->weights_identity, Load(copy.path())->weights_identity);
  fakes::WriteRandomModel(copy.path(), config_, 1, {.dtype = DType::kF32});
  EXPECT_NE(Load(directory_.path())->weights_identity, Load(copy.path())->weights_identity);
  EditConfig([](auto& config) { config["rope_theta"] = 20000.0; });
  fakes::WriteRandomModel(copy.path(), config_, 1);
  EXPECT_NE(Load(directory_.path())->weights_identity, Load(copy.path())->weights_identity);
}

TEST_F(LoadModelTest, GgufBringsVocabularyAndTemplate) {
  fakes::WriteRandomGguf(gguf_, config_, 1);
  const auto model = Load(directory_.path());  // a directory with one GGUF file
  ASSERT_TRUE(model->text.gguf.has_value());
  EXPECT_EQ(model->text.gguf->model, "gpt2");
  EXPECT_EQ(model->text.gguf->tokens[258], "<|im_end|>");
  EXPECT_EQ(model->text.gguf->eos_id, 258);
  EXPECT_EQ(model->config.eos_ids, std::vector<TokenId>({258}));
  EXPECT_THAT(model->text.chat_template, HasSubstr("add_generation_prompt"));
  EXPECT_EQ(model->weights_format, "gguf");
}

TEST_F(LoadModelTest, ChatTemplateFileWinsOverTheConfigs) {
  fakes::WriteRandomModel(directory_.path(), config_, 1);
  fakes::WriteFile(directory_ / "tokenizer_config.json",
                   R"({"chat_template":[{"name":"tool_use","template":"T"},{"name":"default","template":"D"}]})");
  EXPECT_EQ(Load(directory_.path())->text.chat_template, "D");
  fakes::WriteFile(directory_ / "chat_template.jinja", "J");
  EXPECT_EQ(Load(directory_.path())->text.chat_template, "J");
}

TEST_F(LoadModelTest, PathsWithoutAModelAreRefused) {
  EXPECT_THAT(Error(directory_.path()), AllOf(HasSubstr(directory_.path()), HasSubstr("0 .gguf files")));
  EXPECT_THAT(Error(directory_ / "missing"), HasSubstr("does not exist"));
  fakes::WriteFile(gguf_, "hello, I am text");
  EXPECT_THAT(Error(gguf_), HasSubstr("not with GGUF"));
  fakes::WriteRandomModel(directory_.path(), config_, 1);
  Load(directory_ / "model.safetensors");
  std::filesystem::remove(directory_ / "config.json");
  EXPECT_THAT(Error(directory_ / "model.safetensors"), HasSubstr("config.json"));
}

TEST_F(LoadModelTest, UnknownGgufArchitectureAndScalingAreRefusedByName) {
  fakes::WriteGguf(gguf_, weights::GgufWriter().String("general.architecture", "mamba"));
  EXPECT_THAT(Error(gguf_), AllOf(HasSubstr(gguf_), HasSubstr("'mamba'"), HasSubstr("qwen2")));
  weights::GgufWriter writer;
  writer.String("general.architecture", "llama")
      .U32("llama.block_count", 1)
      .U32("llama.embedding_length", 64)
      .U32("llama.feed_forward_length", 64)
      .U32("llama.context_length", 64)
      .U32("llama.attention.head_count", 4)
      .F32("llama.attention.layer_norm_rms_epsilon", 1e-5f)
      .String("llama.rope.scaling.type", "longrope");
  fakes::WriteGguf(gguf_, writer);
  EXPECT_THAT(Error(gguf_), HasSubstr("'longrope'"));
}

TEST_F(LoadModelTest, ProgressEndsAtTheTotal) {
  fakes::WriteRandomModel(directory_.path(), config_, 1);
  uint64_t last = 0, end = 0;
  ASSERT_TRUE(LoadModel(directory_.path(), [&](uint64_t done, uint64_t total) {
                EXPECT_GE(done, last);
                last = done;
                end = total;
              }).ok());
  EXPECT_EQ(last, end);
  EXPECT_GT(end, 0u);
}

}  // namespace
}  // namespace baton::model
