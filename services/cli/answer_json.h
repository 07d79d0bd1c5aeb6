#pragma once

// The lines of `--json`: one object each, "type" first.

#include <string>

#include "baton/v1/inference.pb.h"
#include "services/cli/report_text.h"

namespace baton::cli {

std::string StartJson(const std::string& request_id, const std::string& model, uint64_t seed);
std::string DeltaJson(const v1::ChoiceDelta& delta);
// A whole choice, of a call that does not stream.
std::string ChoiceJson(const v1::Choice& choice);
std::string ReportJson(const v1::PromptReport& report, const ClientTimes& times);

}  // namespace baton::cli
