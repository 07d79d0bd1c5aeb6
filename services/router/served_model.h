#pragma once

// The text side of one model, built from what a worker sent. Immutable.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "baton/internal/v1/worker.pb.h"
#include "common/base/ids.h"
#include "common/text/chat_template.h"
#include "common/text/tokenizer.h"

namespace baton {

struct ServedModel {
  std::string name;
  NumericsHash numerics;  // of the workers this text belongs to
  uint32_t max_model_len = 0;
  uint32_t vocab_size = 0;
  uint32_t block_size = 16;
  std::shared_ptr<const Tokenizer> tokenizer;
  // FAILED_PRECONDITION for a model without a template or with one that does not parse; chats get it.
  absl::StatusOr<std::shared_ptr<const ChatTemplate>> chat_template;
  internal::v1::GenerationDefaults defaults;

  static absl::StatusOr<std::shared_ptr<const ServedModel>> Build(const internal::v1::Identity& identity,
                                                                  const internal::v1::GetModelTextResponse& text);
};

}  // namespace baton
