#include "services/cli/sampling_flags.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <limits>

#include "common/config/number_check.h"

namespace baton::cli {
namespace {

constexpr char kLogitBias[] = "--logit_bias";

// "ID=VALUE". What ids the vocabulary has is the router's to know.
void AddLogitBias(const std::string& text, std::map<int32_t, float>* biases) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) throw CLI::ValidationError(kLogitBias, "'" + text + "' must be ID=VALUE");
  std::string id = text.substr(0, equals), value = text.substr(equals + 1);
  for (const std::string& error :
       {WholeNumberCheck(0, std::numeric_limits<int32_t>::max())(id), RealNumberCheck(-100, 100)(value)}) {
    if (!error.empty()) throw CLI::ValidationError(kLogitBias, "'" + text + "': " + error);
  }
  const auto [bias, fresh] = biases->emplace(std::atoi(id.c_str()), std::strtof(value.c_str(), nullptr));
  if (!fresh) {
    throw CLI::ValidationError(kLogitBias,
                               "'" + text + "': token " + id + " has " + std::to_string(bias->second) + " already");
  }
}

}  // namespace

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
  command
      .add_option_function<std::vector<std::string>>(
          kLogitBias,
          [this](const std::vector<std::string>& texts) {
            for (const std::string& text : texts) AddLogitBias(text, &logit_bias);
          },
          "Added to the token's logit, -100 to 100; may be given several times")
      ->type_name("ID=VALUE")
      ->allow_extra_args(false)
      ->group(group);
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
  sampling->mutable_logit_bias()->insert(logit_bias.begin(), logit_bias.end());
  if (ignore_eos) sampling->set_ignore_eos(true);
  if (logprobs) sampling->set_logprobs(*logprobs);
}

}  // namespace baton::cli
