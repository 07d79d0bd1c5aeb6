#pragma once

// Wire types to plain values and back. Wire types stop here.

#include "absl/status/statusor.h"
#include "baton/internal/v1/generation.pb.h"
#include "baton/internal/v1/worker.pb.h"
#include "common/base/text_assets.h"
#include "common/sampling/params.h"
#include "common/sampling/sampled_token.h"

namespace baton {

void ToProto(const SamplingParams& params, internal::v1::Sampling* out);
SamplingParams FromProto(const internal::v1::Sampling& in);

void ToProto(uint32_t choice, uint32_t index, const SampledToken& token, internal::v1::Token* out);
SampledToken FromProto(const internal::v1::Token& in);

void ToProto(const TextAssets& assets, internal::v1::GetModelTextResponse* out);
TextAssets FromProto(const internal::v1::GetModelTextResponse& in);

}  // namespace baton
