#include "common/transport/ucx/ucx_config.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <vector>

#include "common/base/status.h"
#include "common/transport/ucx/ucx_status.h"

namespace baton {
namespace {

// "mlx5_0:1" and so on: active ports of RDMA devices as the kernel lists them.
std::vector<std::string> RdmaDevices() {
  std::vector<std::string> devices;
  std::error_code error;
  for (const auto& device : std::filesystem::directory_iterator("/sys/class/infiniband", error)) {
    for (const auto& port : std::filesystem::directory_iterator(device.path() / "ports", error)) {
      std::string state;
      std::getline(std::ifstream(port.path() / "state"), state);
      if (state.find("ACTIVE") != std::string::npos) {
        devices.push_back(device.path().filename().string() + ":" + port.path().filename().string());
      }
    }
  }
  return devices;
}

bool SameAddress(const sockaddr* a, const sockaddr* b) {
  if (a == nullptr || a->sa_family != b->sa_family) return false;
  if (a->sa_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(a)->sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in*>(b)->sin_addr.s_addr;
  }
  return a->sa_family == AF_INET6 && std::memcmp(&reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr,
                                                 &reinterpret_cast<const sockaddr_in6*>(b)->sin6_addr, 16) == 0;
}

// Messages must not pass through shared memory: its queue is one for all writers, and one that is killed while it fills
// an entry stops it for ever. (It is slower than tcp for large ones, too.) Copies into a mapped pool know no queue.
absl::StatusOr<std::string> Lanes(const TransportOptions& options, bool rdma) {
  const bool messages = options.message_puts || options.device_pool;
  if (options.ucx_tls.empty()) {
    if (!messages) return rdma ? "all" : "posix,sysv,self,tcp";
    if (!rdma) return "self,tcp";
    return options.message_puts ? "self,tcp,ib" : "^posix,sysv,xpmem";
  }
  if (!messages) return options.ucx_tls;
  std::istringstream lanes(options.ucx_tls);
  for (std::string lane; std::getline(lanes, lane, ',');) {
    static constexpr std::string_view kShared[] = {"all", "shm", "sm", "mm", "posix", "sysv", "xpmem"};
    if (std::ranges::find(kShared, lane) == std::end(kShared) && !lane.starts_with('^')) continue;
    return InvalidArgument(
        "UCX lane %s of '%s' with %s: blocks would travel as messages through shared memory, where a peer that is "
        "killed while it sends stops all others; name tcp, self or ib",
        lane, options.ucx_tls, options.message_puts ? "message puts" : "a pool on a device");
  }
  return options.ucx_tls;
}

}  // namespace

absl::StatusOr<std::string> InterfaceOf(const std::string& host) {
  addrinfo* found = nullptr;
  if (const int rc = getaddrinfo(host.c_str(), nullptr, nullptr, &found); rc != 0) {
    return NotFound("address %s: %s", host, gai_strerror(rc));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, freeaddrinfo);
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return Internal("getifaddrs failed");
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> interfaces(list, freeifaddrs);
  for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) {
    for (const ifaddrs* interface = list; interface != nullptr; interface = interface->ifa_next) {
      if (SameAddress(interface->ifa_addr, address->ai_addr)) return std::string(interface->ifa_name);
    }
  }
  return NotFound("no network interface of this host has the address %s", host);
}

bool MayPutOneSided(const TransportOptions& options) {
  if (options.message_puts) return false;
  std::istringstream lanes(options.ucx_tls);
  for (std::string lane; std::getline(lanes, lane, ',');) {
    if (lane != "tcp" && lane != "self") return true;
  }
  return options.ucx_tls.empty();
}

absl::StatusOr<ucp_context_h> MakeUcxContext(const TransportOptions& options) {
  const std::vector<std::string> rdma = RdmaDevices();
  std::string devices = options.ucx_devices;
  if (devices.empty()) {
    BATON_ASSIGN_OR_RETURN(devices, InterfaceOf(options.bind_host));
    for (const std::string& device : rdma) devices += "," + device;
  }
  BATON_ASSIGN_OR_RETURN(const std::string lanes, Lanes(options, !rdma.empty()));

  ucp_config_t* config = nullptr;
  BATON_RETURN_IF_ERROR(UcxStatus(ucp_config_read(nullptr, nullptr, &config), "UCX configuration"));
  const std::unique_ptr<ucp_config_t, decltype(&ucp_config_release)> release(config, ucp_config_release);
  struct Setting {
    const char* name;
    std::string value;
    bool required;
  };
  const Setting settings[] = {
      {"TLS", lanes, true},
      {"NET_DEVICES", devices, true},
      // Only what the kernel hands out zeroed. Posix first: its segments have no name that a killed process would leave
      // behind.
      {"ALLOC_PRIO", "md:posix,md:sysv,mmap", true},
      // Without it, endpoints that report a peer's death cannot use shared memory and silently fall back to tcp.
      // Versions differ in the name that this interface knows it by: 1.13 takes the first.
      {"MM_ERROR_HANDLING", "y", false},
      {"POSIX_ERROR_HANDLING", "y", false},
      {"SYSV_ERROR_HANDLING", "y", false},
      {"KEEPALIVE_INTERVAL", "1s", true},
  };
  for (const Setting& setting : settings) {
    const ucs_status_t status = ucp_config_modify(config, setting.name, setting.value.c_str());
    if (status != UCS_OK && setting.required) {
      return UcxStatus(status, std::string("UCX ") + setting.name + "=" + setting.value);
    }
  }
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  params.features = UCP_FEATURE_RMA | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.name = "baton";
  ucp_context_h context = nullptr;
  BATON_RETURN_IF_ERROR(
      UcxStatus(ucp_init(&params, config, &context), "UCX with lanes " + lanes + " on devices " + devices));
  return context;
}

}  // namespace baton
