#include "services/cli/sampling_flags.h"

#include <CLI/CLI.hpp>

#include "common/config/number_check.h"

namespace baton::cli {

void SamplingFlags::AddTo(CLI::App& command) {
  const std::string group = "Sampling";
  const auto add = [&](const std::string& name, auto& field, const std::string& help) {
    return command.add_option(name, field, help)->group(group);
  };
  const auto add_number = [&](const std::string& name, auto& field, const std::string& help) {
    add(name, field, help)->check(WholeNumberCheck<typename std::decay_t<decltype(field)>::value_type>());
  };
  command.add_option("--model", model, "Model name; may be left out when the router serves exactly one");
  add_number("--max_tokens", max_tokens, "Most tokens to generate");
  add_number("--min_tokens", min_tokens, "No end before this many tokens");
  add("--temperature", temperature, "0 is greedy");
  add("--top_p", top_p, "Smallest set of tokens whose probability reaches this");
  add_number("--top_k", top_k, "Only the k most probable tokens; 0 is off");
  add("--min_p", min_p, "Only tokens at least this probable relative to the best");
  add("--repetition_penalty", repetition_penalty, "Above 1: less of what prompt or answer contain");
  add("--presence_penalty", presence_penalty, "Subtracted once from tokens generated before");
  add("--frequency_penalty", frequency_penalty, "Subtracted for each time a token was generated before");
  add_number("--seed", seed, "Makes the answer reproducible");
  add("--stop", stop, "Text that ends the answer; may be given several times")->allow_extra_args(false);
  add_number("--logprobs", logprobs, "Log-probabilities of the tokens and of this many alternatives");
  command.add_flag("--ignore_eos", ignore_eos, "Go on after the model's end token")->group(group);
  command.add_option("--priority", priority, "Lower is served first")->check(WholeNumberCheck<int32_t>());
  command.add_option("--cache_salt", cache_salt, "Keeps cached prefixes of different owners apart");
}

void SamplingFlags::ApplyTo(v1::GenerateRequest* request) const {
  request->set_model(model);
  request->set_priority(priority);
  request->set_cache_salt(cache_salt);
  v1::SamplingParameters* sampling = request->mutable_sampling();
  if (max_tokens) sampling->set_max_tokens(*max_tokens);
  if (min_tokens) sampling->set_min_tokens(*min_tokens);
  if (temperature) sampling->set_temperature(*temperature);
  if (top_p) sampling->set_top_p(*top_p);
  if (top_k) sampling->set_top_k(*top_k);
  if (min_p) sampling->set_min_p(*min_p);
  if (repetition_penalty) sampling->set_repetition_penalty(*repetition_penalty);
  if (presence_penalty) sampling->set_presence_penalty(*presence_penalty);
  if (frequency_penalty) sampling->set_frequency_penalty(*frequency_penalty);
  if (seed) sampling->set_seed(*seed);
  if (n) sampling->set_n(*n);
  for (const std::string& text : stop) sampling->add_stop(text);
  if (ignore_eos) sampling->set_ignore_eos(true);
  if (logprobs) sampling->set_logprobs(*logprobs);
}

}  // namespace baton::cli
