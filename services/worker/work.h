#pragma once

// Work messages of the internal API and what both roles make of them.

#include "absl/status/statusor.h"
#include "baton/internal/v1/generation.pb.h"
#include "common/engine/request.h"
#include "services/worker/runtime.h"

namespace baton {

// UNAVAILABLE when another incarnation is meant, INVALID_ARGUMENT naming the field for what no router of this version
// sends.
absl::StatusOr<EngineRequest> ToEngineRequest(const internal::v1::Work& work, const WorkerRuntime& runtime);

void ToProto(std::span<const ChoiceToken> tokens, google::protobuf::RepeatedPtrField<internal::v1::Token>* out);
internal::v1::EngineReport ToProto(const EngineTimings& timings);

}  // namespace baton
