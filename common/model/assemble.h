#pragma once

// From a parsed config and a checkpoint's tensors to a Model: every weight found once, with the shape the config
// implies.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/model/model.h"
#include "common/model/parse_config.h"
#include "common/weights/tensor.h"

namespace baton::model {

// Sets everything of Model but `text`. A tensor that the model does not have is an error too: it would mean that the
// config describes another model. Reads small tensors and samples of all for the identity.
absl::StatusOr<std::shared_ptr<Model>> AssembleModel(ParsedConfig parsed, const weights::TensorMap& tensors,
                                                     const LoadProgress& progress);

// Hash of names, shapes, formats and sampled bytes of `tensors` and of the numbers in `config` that change what they
// compute. Equal for equal checkpoints wherever they lie.
absl::StatusOr<Hash128> WeightsIdentity(const ModelConfig& config, const weights::TensorMap& tensors,
                                        const LoadProgress& progress);

}  // namespace baton::model
