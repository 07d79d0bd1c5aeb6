#pragma once

// What `--stats` and `--logprobs` print after an answer.

#include <optional>
#include <string>
#include <vector>

#include "baton/v1/inference.pb.h"
#include "services/cli/latency.h"

namespace baton::cli {

// What the client measured itself; the rest comes from the router.
struct ClientTimes {
  double total_seconds = 0;
  std::optional<double> time_to_first_token;
  std::optional<GapSummary> gaps;
};

std::string ReportText(const v1::PromptReport& report, const ClientTimes& times);

// "stop", "length", or "none" for a choice that has not ended.
std::string FinishReasonText(v1::FinishReason reason);

// A table of tokens, their log-probabilities and alternatives.
std::string LogprobsText(const std::vector<v1::TokenLogprob>& logprobs);

}  // namespace baton::cli
