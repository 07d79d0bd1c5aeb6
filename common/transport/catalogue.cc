#include "common/transport/catalogue.h"

#include "common/base/status.h"
#include "common/transport/local/local_transport.h"
#ifdef BATON_WITH_UCX
#include "common/transport/ucx/ucx_segments.h"
#include "common/transport/ucx/ucx_transport.h"
#endif
#ifdef BATON_WITH_NCCL
#include "common/transport/nccl/nccl_transport.h"
#endif

namespace baton {
namespace {

struct Entry {
  const char* name;
  absl::StatusOr<std::unique_ptr<KvTransport>> (*make)(const TransportOptions& options);  // null: not in this build
  void (*remove_leftovers)() = nullptr;                                                   // null: there are none
};

constexpr Entry kTransports[] = {
    {"local",
     [](const TransportOptions& options) -> absl::StatusOr<std::unique_ptr<KvTransport>> {
       auto network = options.local_network ? options.local_network : std::make_shared<LocalNetwork>();
       return MakeLocalTransport(std::move(network), options.message_puts);
     }},
#ifdef BATON_WITH_UCX
    {"ucx", MakeUcxTransport, RemoveOwnUcxSegments},
#else
    {"ucx", nullptr},
#endif
#ifdef BATON_WITH_NCCL
    {"nccl", MakeNcclTransport},
#else
    {"nccl", nullptr},
#endif
};

}  // namespace

std::vector<std::string> TransportNames() {
  std::vector<std::string> names;
  for (const Entry& entry : kTransports) names.emplace_back(entry.name);
  return names;
}

void RemoveTransportLeftovers() {
  for (const Entry& entry : kTransports) {
    if (entry.remove_leftovers != nullptr) entry.remove_leftovers();
  }
}

absl::StatusOr<std::unique_ptr<KvTransport>> MakeTransport(const TransportOptions& options) {
  std::string known;
  for (const Entry& entry : kTransports) {
    if (options.name == entry.name) {
      if (entry.make != nullptr) return entry.make(options);
      return FailedPrecondition(
          "this build is without transport %s: what it needs was not found when it was configured", entry.name);
    }
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
  }
  return InvalidArgument("unknown transport \"%s\"; there are %s", options.name, known);
}

}  // namespace baton
