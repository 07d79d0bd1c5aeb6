#include "services/router/generation.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "common/base/status.h"
#include "common/rpc/status.h"

namespace baton {
namespace {

constexpr Duration kRetryAfter = std::chrono::seconds(1);

}  // namespace

bool RequestTable::Add(const std::string& request_id, const std::shared_ptr<Generation>& generation) {
  absl::MutexLock lock(&mutex_);
  return requests_.try_emplace(request_id, generation).second;
}

void RequestTable::Remove(const std::string& request_id) {
  absl::MutexLock lock(&mutex_);
  requests_.erase(request_id);
}

std::shared_ptr<Generation> RequestTable::Find(const std::string& request_id) const {
  absl::MutexLock lock(&mutex_);
  const auto found = requests_.find(request_id);
  return found == requests_.end() ? nullptr : found->second.lock();
}

uint32_t RequestTable::size() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<uint32_t>(requests_.size());
}

void RequestTable::CancelAll(const grpc::Status& status) {
  std::vector<std::shared_ptr<Generation>> all;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [id, weak] : requests_) {
      if (auto generation = weak.lock()) all.push_back(std::move(generation));
    }
  }
  for (const auto& generation : all) generation->Cancel(status);
}

Generation::Generation(const GenerationContext& context, GenerationPlan plan, std::string owner, RequestTrace trace,
                       TimePoint arrived, std::shared_ptr<GenerationSink> sink)
    : context_(context),
      plan_(std::move(plan)),
      owner_(std::move(owner)),
      trace_(std::move(trace)),
      arrived_(arrived),
      sink_(std::move(sink)) {}

void Generation::Start(v1::GenerateRequest request) {
  if (!context_.table->Add(plan_.request_id, shared_from_this())) {
    End(grpc::Status(grpc::StatusCode::ALREADY_EXISTS, "request_id '" + plan_.request_id + "' is running already"));
    return;
  }
  {
    absl::MutexLock lock(&mutex_);
    registered_ = true;
  }
  const bool accepted = context_.text->TryRun([self = shared_from_this(), request = std::move(request)] {
    if (!self->cancelled_) self->Tokenize(request);
  });
  if (!accepted) End(ExhaustedRetry(TextQueueFull(*context_.router.config), kRetryAfter));
}

void Generation::Tokenize(const v1::GenerateRequest& request) {
  std::vector<PromptSpec> specs;
  for (int i = 0; i < request.prompts_size(); ++i) {
    auto tokens = TokenizePrompt(request.prompts(i), absl::StrFormat("prompts[%d]", i), *plan_.model,
                                 [this] { return cancelled_.load(); });
    if (!tokens.ok()) {
      const std::string message = StatusMessage(tokens.status());
      if (tokens.status().code() == absl::StatusCode::kInvalidArgument) {
        const size_t colon = message.find(": ");
        return End(InvalidFields({{message.substr(0, colon), message.substr(std::min(message.size(), colon + 2))}}));
      }
      return End(ToGrpc(tokens.status()));
    }
    auto spec = MakeSpec(request.prompts(i), *std::move(tokens), static_cast<uint32_t>(i));
    if (!spec.ok()) return End(ToGrpc(spec.status()));
    specs.push_back(*std::move(spec));
  }
  Launch(std::move(specs));
}

absl::StatusOr<PromptSpec> Generation::MakeSpec(const v1::Prompt& prompt, std::vector<TokenId> tokens,
                                                uint32_t index) const {
  const uint32_t limit = plan_.model->max_model_len;
  if (tokens.size() >= limit) {
    return FailedPrecondition("prompts[%d]: has %d tokens, the model takes %d with at least one to generate", index,
                              tokens.size(), limit);
  }
  PromptSpec spec;
  spec.request_id = plan_.request_id;
  spec.prompt_index = index;
  spec.model = plan_.model;
  spec.choices = plan_.choices;
  spec.sampling = plan_.sampling;
  const auto room = limit - static_cast<uint32_t>(tokens.size());
  spec.sampling.max_tokens = std::min(plan_.max_tokens.value_or(context_.router.config->default_max_tokens), room);
  spec.sampling.min_tokens = std::min(spec.sampling.min_tokens, spec.sampling.max_tokens);
  spec.output = plan_.output;
  // An answer to a chat starts a text of its own; after a plain prompt the first space belongs to the text.
  spec.output.strip_leading_space = prompt.has_chat();
  spec.priority = plan_.priority;
  spec.cache_salt = plan_.cache_salt;
  spec.trace = trace_;
  spec.arrived = arrived_;
  spec.tokenized = context_.router.clock->Now();
  spec.tokens = std::move(tokens);
  return spec;
}

void Generation::Launch(std::vector<PromptSpec> specs) {
  const auto count = static_cast<uint32_t>(specs.size());
  {
    absl::MutexLock lock(&mutex_);
    if (!sink_) return;
    open_ = count;
    for (uint32_t i = 0; i < count; ++i) {
      PromptCallbacks callbacks;
      callbacks.on_deltas = [self = shared_from_this()](std::vector<v1::ChoiceDelta> deltas) {
        absl::MutexLock lock(&self->mutex_);
        if (!self->sink_) return;
        if (const grpc::Status status = self->sink_->OnDeltas(std::move(deltas)); !status.ok()) self->EndLater(status);
      };
      callbacks.on_end = [self = shared_from_this(), i](const grpc::Status& status, const v1::PromptReport& report) {
        self->OnJobEnd(i, status, report);
      };
      jobs_.push_back({std::make_shared<PromptJob>(context_.router, std::move(specs[i]), std::move(callbacks)), {}});
    }
  }
  for (uint32_t i = 0; i < count; ++i) {
    const auto ticket = context_.queue->Enter(plan_.priority, [self = shared_from_this(), i] { self->OnAdmitted(i); });
    if (!ticket.ok()) return End(ExhaustedRetry(StatusMessage(ticket.status()), kRetryAfter));
    bool late = false;
    {
      absl::MutexLock lock(&mutex_);
      jobs_[i].ticket = *ticket;
      jobs_[i].entered = true;
      late = jobs_[i].ended && !jobs_[i].admitted;  // cancelled in between
    }
    if (late && context_.queue->Withdraw(*ticket)) continue;
  }
}

void Generation::OnAdmitted(uint32_t index) {
  std::shared_ptr<PromptJob> job;
  {
    absl::MutexLock lock(&mutex_);
    if (jobs_[index].ended) {
      LeaveQueue();
      return;
    }
    jobs_[index].admitted = true;
    job = jobs_[index].job;
  }
  job->Run();
}

void Generation::LeaveQueue() {
  // Not from here: the next one's start may end at once and come back here, thousands of times.
  context_.router.timers->Schedule(Duration::zero(), [queue = context_.queue] { queue->Leave(); });
}

void Generation::OnJobEnd(uint32_t index, const grpc::Status& status, const v1::PromptReport& report) {
  LogPrompt(status, report);
  bool all = false;
  {
    absl::MutexLock lock(&mutex_);
    Queued& job = jobs_[index];
    job.ended = true;
    if (job.admitted) {
      LeaveQueue();
    } else if (job.entered) {
      context_.queue->Withdraw(job.ticket);
    }
    all = --open_ == 0;
    if (status.ok() && sink_) sink_->OnReport(report);
  }
  if (!status.ok() && !all) {
    EndLater(status);
  } else if (!status.ok() || all) {
    End(status);
  }
}

void Generation::LogPrompt(const grpc::Status& status, const v1::PromptReport& report) const {
  const v1::Timings& timings = report.timings();
  context_.router.log->Info("prompt ended", {{"request_id", plan_.request_id},
                                             {"trace_id", trace_.context.trace_id_hex()},
                                             {"prompt_index", report.prompt_index()},
                                             {"code", CodeName(status.error_code())},
                                             {"prefill_worker", report.route().prefill_worker()},
                                             {"decode_worker", report.route().decode_worker()},
                                             {"reason", report.route().reason()},
                                             {"attempts", report.route().attempts()},
                                             {"kv_bytes", report.route().kv_bytes()},
                                             {"kv_transport", report.route().kv_transport()},
                                             {"prompt_tokens", report.usage().prompt_tokens()},
                                             {"cached_prompt_tokens", report.usage().cached_prompt_tokens()},
                                             {"completion_tokens", report.usage().completion_tokens()},
                                             {"tokenize_seconds", timings.tokenize_seconds()},
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
                                             {"reserve_seconds", timings.reserve_seconds()},
                                             {"transfer_seconds", timings.transfer_seconds()},
                                             {"total_seconds", timings.total_seconds()}});
}

// By the semantic conventions for generative AI, as far as they have a name for it.
void Generation::AddRequestSpan(const grpc::Status& status, TimePoint end) const {
  if (!trace_.recorded()) return;
  Span span;
  span.context = trace_.context;
  span.parent = trace_.parent;
  const std::string operation = plan_.chat ? "chat" : "text_completion";
  span.name = operation + " " + plan_.model->name;
  span.kind = Span::Kind::kServer;
  span.start = arrived_;
  span.end = end;
  span.attributes = {{"gen_ai.operation.name", operation},
                     {"gen_ai.provider.name", std::string("baton")},
                     {"gen_ai.request.model", plan_.model->name},
                     {"gen_ai.response.model", plan_.model->name},
                     {"gen_ai.response.id", plan_.request_id},
                     {"gen_ai.request.choice.count", int64_t{plan_.choices}},
                     {"gen_ai.request.temperature", double{plan_.sampling.temperature}},
                     {"gen_ai.request.top_p", double{plan_.sampling.top_p}},
                     {"gen_ai.request.top_k", int64_t{plan_.sampling.top_k}},
                     {"gen_ai.request.seed", static_cast<int64_t>(plan_.sampling.seed)},
                     {"rpc.system", std::string("grpc")},
                     {"rpc.grpc.status_code", int64_t{status.error_code()}}};
  if (plan_.max_tokens) span.attributes.emplace_back("gen_ai.request.max_tokens", int64_t{*plan_.max_tokens});
  if (!status.ok()) {
    span.attributes.emplace_back("error.type", std::string(CodeName(status.error_code())));
    span.error = status.error_message();
  }
  trace_.spans->Add(std::move(span));
}

void Generation::EndLater(const grpc::Status& status) {
  context_.router.timers->Schedule(Duration::zero(), [self = shared_from_this(), status] { self->End(status); });
}

void Generation::Cancel(const grpc::Status& status) { End(status); }

void Generation::End(const grpc::Status& status) {
  cancelled_ = true;
  std::shared_ptr<GenerationSink> sink;
  std::vector<std::shared_ptr<PromptJob>> open;
  {
    absl::MutexLock lock(&mutex_);
    if (!sink_) return;
    sink = std::move(sink_);
    sink_ = nullptr;
    for (const Queued& job : jobs_) {
      if (!job.ended) open.push_back(job.job);
    }
    if (registered_) context_.table->Remove(plan_.request_id);
  }
  for (const auto& job : open) job->Cancel(status);
  const TimePoint end = context_.router.clock->Now();
  context_.router.metrics->Model(plan_.model->name).OnRequestEnd(status);
  context_.router.log->Info("request ended", {{"request_id", plan_.request_id},
                                              {"trace_id", trace_.context.trace_id_hex()},
                                              {"model", plan_.model->name},
                                              {"code", CodeName(status.error_code())},
                                              {"error", status.error_message()},
                                              {"seconds", Seconds(end - arrived_)}});
  AddRequestSpan(status, end);
  sink->OnEnd(status);
}

}  // namespace baton
