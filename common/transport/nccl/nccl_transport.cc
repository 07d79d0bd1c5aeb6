#include "common/transport/nccl/nccl_transport.h"

#include <string>
#include <utility>

#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/device/device.h"
#include "common/transport/nccl/nccl_inbound.h"
#include "common/transport/nccl/nccl_session.h"
#include "common/transport/nccl/nccl_staging.h"

namespace baton {
namespace {

constexpr Duration kConnectTimeout = std::chrono::seconds(5);

class NcclTransport final : public KvTransport {
 public:
  explicit NcclTransport(const TransportOptions& options) : host_(options.bind_host), device_(options.device) {}

  std::string_view name() const override { return "nccl"; }
  TransportCapabilities capabilities() const override { return {.one_sided = false}; }

  absl::StatusOr<std::span<std::byte>> AllocatePool(uint64_t) override {
    return FailedPrecondition("transport nccl moves bytes between devices: it has no pool in host memory");
  }

  absl::Status UsePool(PoolMemory* pool) override {
    if (inbound_ != nullptr) return FailedPrecondition("the pool of %d bytes exists", pool_bytes_);
    BATON_RETURN_IF_ERROR(device::Open(device_).status());
    // So that a pool which writers could not reach is refused here.
    BATON_RETURN_IF_ERROR(NcclStaging::Create(pool).status());
    pool_bytes_ = pool->bytes();
    BATON_ASSIGN_OR_RETURN(inbound_, NcclInbound::Start(host_, device_, instance_, secret_, pool));
    inbound_->SetGate(gate_);
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Describe() const override {
    if (inbound_ == nullptr) return FailedPrecondition("no pool was allocated");
    return EncodeNcclDescriptor({instance_, secret_, host_, inbound_->port(), pool_bytes_});
  }

  absl::StatusOr<std::unique_ptr<KvSession>> Connect(const std::string& descriptor, const PutSource& source) override {
    BATON_ASSIGN_OR_RETURN(NcclDescriptor target, DecodeNcclDescriptor(descriptor));
    return OpenNcclSession(std::move(target), source, device_, std::chrono::steady_clock::now() + kConnectTimeout);
  }

  void SetWriteGate(WriteGate* gate) override {
    gate_ = gate;
    if (inbound_ != nullptr) inbound_->SetGate(gate);
  }

 private:
  const std::string host_;
  const int device_;
  const uint64_t instance_ = RandomU64();
  const uint64_t secret_ = RandomU64();
  WriteGate* gate_ = nullptr;
  uint64_t pool_bytes_ = 0;
  std::unique_ptr<NcclInbound> inbound_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<KvTransport>> MakeNcclTransport(const TransportOptions& options) {
  BATON_RETURN_IF_ERROR(device::Open(options.device).status());
  return std::make_unique<NcclTransport>(options);
}

}  // namespace baton
