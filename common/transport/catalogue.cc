#include "common/transport/catalogue.h"

#include "common/base/status.h"
#include "common/transport/local/local_transport.h"
#ifdef BATON_WITH_UCX
#include "common/transport/ucx/ucx_transport.h"
#endif

namespace baton {
namespace {

struct Entry {
  const char* name;
  absl::StatusOr<std::unique_ptr<KvTransport>> (*make)(const TransportOptions& options);
};

constexpr Entry kTransports[] = {
    {"local",
     [](const TransportOptions& options) -> absl::StatusOr<std::unique_ptr<KvTransport>> {
       auto network = options.local_network ? options.local_network : std::make_shared<LocalNetwork>();
       return MakeLocalTransport(std::move(network), options.message_puts);
     }},
#ifdef BATON_WITH_UCX
    {"ucx", MakeUcxTransport},
#endif
};

}  // namespace

std::vector<std::string> TransportNames() {
  std::vector<std::string> names;
  for (const Entry& entry : kTransports) names.emplace_back(entry.name);
  return names;
}

absl::StatusOr<std::unique_ptr<KvTransport>> MakeTransport(const TransportOptions& options) {
  std::string known;
  for (const Entry& entry : kTransports) {
    if (options.name == entry.name) return entry.make(options);
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
  }
  return InvalidArgument("unknown transport \"%s\"; this build has %s", options.name, known);
}

}  // namespace baton
