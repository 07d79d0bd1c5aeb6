#include "services/router/worker_directory.h"

#include <arpa/inet.h>
#include <netdb.h>

#include <algorithm>
#include <set>

#include "common/base/status.h"
#include "common/config/host_port.h"

namespace baton {
namespace {

constexpr Duration kFetchAgainAfter = std::chrono::seconds(1);

// Every address of "host:port" as "ip:port". IPv4 where the name has any: the addresses of a dual-stack name are the
// same workers twice. NOT_FOUND when the name has none, UNAVAILABLE when nobody could tell.
absl::StatusOr<std::vector<std::string>> ResolveAddress(const std::string& address) {
  BATON_ASSIGN_OR_RETURN(const HostPort parsed, ParseHostPort(address));
  const std::string port = std::to_string(parsed.port);
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (const int error = getaddrinfo(parsed.host.c_str(), port.c_str(), &hints, &list); error != 0) {
    const bool none = error == EAI_NONAME || error == EAI_NODATA;
    if (none) return NotFound("%s has no address: %s", address, gai_strerror(error));
    return Unavailable("cannot resolve %s: %s", address, gai_strerror(error));
  }
  std::set<std::string> v4, v6;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    char text[INET6_ADDRSTRLEN] = {};
    if (entry->ai_family == AF_INET) {
      inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in*>(entry->ai_addr)->sin_addr, text, sizeof(text));
      v4.insert(std::string(text) + ":" + port);
    } else if (entry->ai_family == AF_INET6) {
      inet_ntop(AF_INET6, &reinterpret_cast<sockaddr_in6*>(entry->ai_addr)->sin6_addr, text, sizeof(text));
      v6.insert("[" + std::string(text) + "]:" + port);
    }
  }
  freeaddrinfo(list);
  const std::set<std::string>& chosen = v4.empty() ? v6 : v4;
  return std::vector<std::string>(chosen.begin(), chosen.end());
}

}  // namespace

WorkerDirectory::WorkerDirectory(const RouterConfig& config, TimerQueue* timers, const Logger* log,
                                 std::function<void(bool)> on_ready)
    : config_(config), timers_(timers), log_(log), on_ready_(std::move(on_ready)), background_(2, 256) {}

WorkerDirectory::~WorkerDirectory() {
  std::map<std::string, std::shared_ptr<WorkerLink>> links;
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
    links = links_;
    for (grpc::ClientContext* call : fetch_calls_) call->TryCancel();
  }
  // gRPC's threads come back here until all calls have ended.
  for (const auto& [address, link] : links) link->Stop();
  for (const auto& [address, link] : links) link->AwaitEnd();
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(
      +[](std::set<grpc::ClientContext*>* calls) { return calls->empty(); }, &fetch_calls_));
}

void WorkerDirectory::Start() {
  background_.TryRun([this] { Resolve(); });
}

void WorkerDirectory::Resolve() {
  std::map<std::string, std::string> addresses;  // and the name each was found by, which its certificate is for
  bool complete = true;
  for (const std::string& worker : config_.workers) {
    const auto resolved = ResolveAddress(worker);
    if (resolved.ok()) {
      for (const std::string& found : *resolved) addresses.try_emplace(found, ParseHostPort(worker)->host);
    } else {
      complete = complete && absl::IsNotFound(resolved.status());
      log_->Warning("worker name does not resolve", {{"error", StatusMessage(resolved.status())}});
    }
  }
  std::vector<std::shared_ptr<WorkerLink>> fresh;
  {
    absl::MutexLock lock(&mutex_);
    if (stopped_) return;
    for (const auto& [address, name] : addresses) {
      if (links_.contains(address)) continue;
      ChannelOptions options = config_.worker_channel;
      if (name != ParseHostPort(address)->host) options.tls_name = name;
      auto channel = MakeChannel(address, options);
      if (!channel.ok()) {
        log_->Error("no channel to worker", {{"worker", address}, {"error", StatusMessage(channel.status())}});
        continue;
      }
      auto link = std::make_shared<WorkerLink>(address, *std::move(channel), timers_, log_, [this] { OnChange(); });
      links_[address] = link;
      fresh.push_back(std::move(link));
    }
    // An address that a look-up no longer has is gone, unless a look-up got no answer or it still has work. A Service
    // without pods has no address, and that is an answer.
    for (auto entry = links_.begin(); complete && entry != links_.end();) {
      const WorkerLink::State state = entry->second->state();
      if (!addresses.contains(entry->first) && !state.connected && state.in_flight == 0) {
        entry->second->Stop();
        entry = links_.erase(entry);
      } else {
        ++entry;
      }
    }
  }
  for (const auto& link : fresh) link->Start();
  timers_->Schedule(std::chrono::duration_cast<Duration>(std::chrono::duration<double>(config_.resolve_seconds)),
                    [this] { background_.TryRun([this] { Resolve(); }); });
}

void WorkerDirectory::OnChange() {
  struct Wanted {
    std::shared_ptr<WorkerLink> link;
    internal::v1::Identity identity;
  };
  std::vector<Wanted> wanted;
  bool serves = false;
  {
    absl::MutexLock lock(&mutex_);
    if (stopped_) return;
    // A model's text is fetched when it is new, or when all decode workers of its old numerics are gone: nothing is
    // served without one, so in a rolling update old prefill workers must not keep the model where it was.
    std::map<std::string, std::map<uint64_t, Wanted>> ready, ready_prefill;
    for (const auto& [address, link] : links_) {
      const WorkerLink::State state = link->state();
      if (!state.ready()) continue;
      auto& of_role = state.identity.role() == internal::v1::ROLE_DECODE ? ready : ready_prefill;
      of_role[state.identity.model()].try_emplace(state.identity.numerics_hash(), Wanted{link, state.identity});
    }
    for (auto& [name, by_numerics] : ready_prefill) ready.try_emplace(name, std::move(by_numerics));
    for (auto& [name, by_numerics] : ready) {
      const auto known = models_.find(name);
      if (known != models_.end() && by_numerics.contains(known->second->numerics.value)) continue;
      auto& [numerics, choice] = *by_numerics.begin();
      if (fetching_.contains(name)) continue;
      fetching_[name] = numerics;
      wanted.push_back(choice);
    }
  }
  for (const Wanted& item : wanted) Fetch(item.link, item.identity);
  SayWhatDoesNotPair();
  for (const auto& model : Models()) serves = serves || Serves(*model);
  on_ready_(serves);
}

void WorkerDirectory::SayWhatDoesNotPair() {
  struct Ready {
    std::string address;
    internal::v1::Identity identity;
  };
  std::vector<Ready> prefill, decode;
  absl::MutexLock lock(&mutex_);
  for (const auto& [address, link] : links_) {
    WorkerLink::State state = link->state();
    if (!state.ready()) continue;
    (state.identity.role() == internal::v1::ROLE_DECODE ? decode : prefill).push_back({address, state.identity});
  }
  std::map<std::string, uint64_t> unpaired;
  for (const Ready& source : prefill) {
    const HandoffIdentity ours = HandoffIdentityOf(source.identity);
    const Ready* refused = nullptr;
    bool paired = false;
    for (const Ready& target : decode) {
      if (target.identity.model() != source.identity.model()) continue;
      refused = &target;
      paired = paired || MayPair(ours, HandoffIdentityOf(target.identity));
    }
    if (paired || refused == nullptr) continue;
    const uint64_t incarnation = source.identity.incarnation();
    unpaired[source.address] = incarnation;
    if (const auto said = unpaired_.find(source.address); said != unpaired_.end() && said->second == incarnation) {
      continue;
    }
    log_->Warning("prefill worker pairs with no decode worker",
                  {{"model", source.identity.model()},
                   {"prefill_worker", source.address},
                   {"decode_worker", refused->address},
                   {"error", WhyNoPair(ours, HandoffIdentityOf(refused->identity))}});
  }
  unpaired_ = std::move(unpaired);
}

void WorkerDirectory::Fetch(const std::shared_ptr<WorkerLink>& link, const internal::v1::Identity& identity) {
  struct Call {
    grpc::ClientContext context;
    internal::v1::GetModelTextRequest request;
    internal::v1::GetModelTextResponse response;
  };
  auto call = std::make_shared<Call>();
  call->context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  {
    absl::MutexLock lock(&mutex_);
    if (stopped_) return;
    fetch_calls_.insert(&call->context);
  }
  link->worker().async()->GetModelText(
      &call->context, &call->request, &call->response, [this, call, link, identity](const grpc::Status& status) {
        background_.TryRun([this, call, link, identity, status] {
          absl::StatusOr<std::shared_ptr<const ServedModel>> model =
              Unavailable("worker %s did not send the model's text: %s", link->address(), status.error_message());
          if (status.ok()) model = ServedModel::Build(identity, call->response);
          {
            absl::MutexLock lock(&mutex_);
            fetching_.erase(identity.model());
            if (model.ok()) models_[identity.model()] = *model;
          }
          if (model.ok()) {
            log_->Info("model is known", {{"model", identity.model()},
                                          {"vocabulary", identity.vocab_size()},
                                          {"chat_template", (*model)->chat_template.ok()
                                                                ? std::string("ok")
                                                                : StatusMessage((*model)->chat_template.status())}});
            OnChange();
          } else {
            log_->Error("model cannot be served",
                        {{"model", identity.model()}, {"error", StatusMessage(model.status())}});
            timers_->Schedule(kFetchAgainAfter, [this] { background_.TryRun([this] { OnChange(); }); });
          }
        });
        absl::MutexLock lock(&mutex_);
        fetch_calls_.erase(&call->context);
      });
}

absl::StatusOr<std::shared_ptr<const ServedModel>> WorkerDirectory::FindModel(const std::string& name) const {
  absl::MutexLock lock(&mutex_);
  if (models_.empty()) return Unavailable("no worker has reported a model yet");
  if (name.empty() && models_.size() == 1) return models_.begin()->second;
  if (const auto found = models_.find(name); found != models_.end()) return found->second;
  std::string known;
  for (const auto& [known_name, model] : models_) known += (known.empty() ? "" : ", ") + known_name;
  if (name.empty()) return NotFound("model is empty, and several are served here: %s", known);
  return NotFound("model '%s' is not served here; there is: %s", name, known);
}

std::vector<std::shared_ptr<const ServedModel>> WorkerDirectory::Models() const {
  absl::MutexLock lock(&mutex_);
  std::vector<std::shared_ptr<const ServedModel>> out;
  for (const auto& [name, model] : models_) out.push_back(model);
  return out;
}

std::vector<std::shared_ptr<WorkerLink>> WorkerDirectory::Ready(const ServedModel& model,
                                                                internal::v1::Role role) const {
  std::vector<std::shared_ptr<WorkerLink>> out;
  std::vector<std::pair<std::shared_ptr<WorkerLink>, HandoffIdentity>> writers;  // prefill workers
  std::vector<HandoffIdentity> targets;
  for (auto& link : All()) {
    const WorkerLink::State state = link->state();
    if (!state.ready() || state.identity.model() != model.name) continue;
    const HandoffIdentity identity = HandoffIdentityOf(state.identity);
    const bool of_model = identity.numerics == model.numerics;
    const internal::v1::Role its_role = state.identity.role();
    if (of_model && its_role == internal::v1::ROLE_DECODE) targets.push_back(identity);
    if (its_role != role) continue;
    if (role == internal::v1::ROLE_PREFILL) {
      writers.emplace_back(std::move(link), identity);
    } else if (of_model) {
      out.push_back(std::move(link));
    }
  }
  std::ranges::stable_partition(writers, [&](const auto& writer) { return writer.second.numerics == model.numerics; });
  for (auto& [link, identity] : writers) {
    const auto takes = [&](const HandoffIdentity& target) { return MayPair(identity, target); };
    const bool waits_for_targets = targets.empty() && identity.numerics == model.numerics;
    if (waits_for_targets || std::ranges::any_of(targets, takes)) out.push_back(std::move(link));
  }
  return out;
}

bool WorkerDirectory::Serves(const ServedModel& model) const {
  return !Ready(model, internal::v1::ROLE_DECODE).empty();
}

std::vector<std::shared_ptr<WorkerLink>> WorkerDirectory::All() const {
  absl::MutexLock lock(&mutex_);
  std::vector<std::shared_ptr<WorkerLink>> out;
  for (const auto& [address, link] : links_) out.push_back(link);
  return out;
}

}  // namespace baton
