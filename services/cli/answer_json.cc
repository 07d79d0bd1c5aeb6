#include "services/cli/answer_json.h"

#include "nlohmann/json.hpp"

namespace baton::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string Dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// What a delta and a whole choice have in common.
template <typename Message>
void AddContent(const Message& message, Json* json) {
  (*json)["text"] = message.text();
  (*json)["token_ids"] = Json::array();
  for (const int32_t id : message.token_ids()) (*json)["token_ids"].push_back(id);
  if (message.logprobs_size() > 0) {
    Json& logprobs = (*json)["logprobs"] = Json::array();
    for (const v1::TokenLogprob& entry : message.logprobs()) {
      Json one = {{"token_id", entry.token_id()}, {"token", entry.token()}, {"logprob", entry.logprob()}};
      one["top"] = Json::array();
      for (const v1::TopLogprob& top : entry.top()) {
        one["top"].push_back({{"token_id", top.token_id()}, {"token", top.token()}, {"logprob", top.logprob()}});
      }
      one["text_offset"] = entry.text_offset();
      logprobs.push_back(std::move(one));
    }
  }
  if (message.finish_reason() == v1::FINISH_REASON_UNSPECIFIED) return;
  (*json)["finish_reason"] = FinishReasonText(message.finish_reason());
  if (!message.matched_stop().empty()) (*json)["matched_stop"] = message.matched_stop();
  if (message.has_matched_stop_token_id()) (*json)["matched_stop_token_id"] = message.matched_stop_token_id();
}

}  // namespace

std::string StartJson(const std::string& request_id, const std::string& model, uint64_t seed) {
  return Dump({{"type", "start"}, {"request_id", request_id}, {"model", model}, {"seed", seed}});
}

std::string DeltaJson(const v1::ChoiceDelta& delta) {
  Json json = {{"type", "delta"},
               {"prompt_index", delta.prompt_index()},
               {"index", delta.index()},
               {"token_index", delta.token_index()}};
  AddContent(delta, &json);
  return Dump(json);
}

std::string ChoiceJson(const v1::Choice& choice) {
  Json json = {{"type", "choice"}, {"prompt_index", choice.prompt_index()}, {"index", choice.index()}};
  AddContent(choice, &json);
  return Dump(json);
}

std::string ReportJson(const v1::PromptReport& report, const ClientTimes& times) {
  const v1::Usage& usage = report.usage();
  const v1::Timings& timings = report.timings();
  const v1::Route& route = report.route();
  Json json = {{"type", "report"}, {"prompt_index", report.prompt_index()}};
  json["usage"] = {{"prompt_tokens", usage.prompt_tokens()},
                   {"cached_prompt_tokens", usage.cached_prompt_tokens()},
                   {"completion_tokens", usage.completion_tokens()}};
  json["timings"] = {{"tokenize_seconds", timings.tokenize_seconds()},
                     {"queue_seconds", timings.queue_seconds()},
                     {"pair_seconds", timings.pair_seconds()},
                     {"prefill_queue_seconds", timings.prefill_queue_seconds()},
                     {"prefill_seconds", timings.prefill_seconds()},
                     {"first_token_seconds", timings.first_token_seconds()},
                     {"transfer_tail_seconds", timings.transfer_tail_seconds()},
                     {"decode_queue_seconds", timings.decode_queue_seconds()},
                     {"decode_seconds", timings.decode_seconds()},
                     {"detokenize_seconds", timings.detokenize_seconds()},
                     {"finish_seconds", timings.finish_seconds()},
                     {"total_seconds", timings.total_seconds()},
                     {"time_to_first_token_seconds", timings.time_to_first_token_seconds()},
                     {"time_to_first_text_seconds", timings.time_to_first_text_seconds()},
                     {"time_per_output_token_seconds", timings.time_per_output_token_seconds()},
                     {"reserve_seconds", timings.reserve_seconds()},
                     {"transfer_seconds", timings.transfer_seconds()}};
  json["route"] = {{"prefill_worker", route.prefill_worker()},
                   {"decode_worker", route.decode_worker()},
                   {"reason", route.reason()},
                   {"kv_bytes", route.kv_bytes()},
                   {"kv_transport", route.kv_transport()},
                   {"attempts", route.attempts()}};
  Json client = {{"total_seconds", times.total_seconds}};
  if (times.time_to_first_token) client["time_to_first_token_seconds"] = *times.time_to_first_token;
  if (times.gaps) {
    client["inter_token_latency_seconds"] = {
        {"mean", times.gaps->mean}, {"p50", times.gaps->p50}, {"p99", times.gaps->p99}};
  }
  json["client"] = std::move(client);
  return Dump(json);
}

}  // namespace baton::cli
