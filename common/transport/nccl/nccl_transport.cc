#include "common/transport/nccl/nccl_transport.h"

#include <string>
#include <utility>

#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/device/device.h"
#include "common/device/memory.h"
#include "common/device/stream.h"
#include "common/transport/nccl/nccl_inbound.h"
#include "common/transport/nccl/nccl_session.h"

namespace baton {
namespace {

constexpr uint64_t kPoolAlignment = 4096;
constexpr Duration kConnectTimeout = std::chrono::seconds(5);

class NcclTransport final : public KvTransport {
 public:
  explicit NcclTransport(const TransportOptions& options) : host_(options.bind_host), device_(options.device) {}

  std::string_view name() const override { return "nccl"; }
  TransportCapabilities capabilities() const override { return {.one_sided = false}; }

  absl::StatusOr<std::span<std::byte>> AllocatePool(uint64_t bytes) override {
    if (inbound_ != nullptr) return FailedPrecondition("the pool of %d bytes exists", pool_.size());
    if (bytes == 0) return InvalidArgument("a pool of 0 bytes");
    BATON_RETURN_IF_ERROR(device::Open(device_).status());
    BATON_ASSIGN_OR_RETURN(memory_, device::Memory::Allocate(device::MemoryKind::kDevice, bytes + kPoolAlignment));
    const uint64_t beyond = reinterpret_cast<uintptr_t>(memory_.data()) % kPoolAlignment;
    pool_ = {memory_.data() + (beyond == 0 ? 0 : kPoolAlignment - beyond), bytes};
    BATON_ASSIGN_OR_RETURN(const device::Stream stream, device::Stream::Create());
    BATON_RETURN_IF_ERROR(stream.Fill(pool_.data(), 0, bytes));
    BATON_RETURN_IF_ERROR(stream.Synchronize());
    BATON_ASSIGN_OR_RETURN(inbound_, NcclInbound::Start(host_, device_, instance_, secret_, pool_));
    inbound_->SetGate(gate_);
    return pool_;
  }

  absl::Status UsePool(PoolMemory*) override { return FailedPrecondition("no pools of devices"); }

  absl::StatusOr<std::string> Describe() const override {
    if (inbound_ == nullptr) return FailedPrecondition("no pool was allocated");
    return EncodeNcclDescriptor({instance_, secret_, host_, inbound_->port(), pool_.size()});
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
  device::Memory memory_;
  std::span<std::byte> pool_;
  std::unique_ptr<NcclInbound> inbound_;  // goes before the pool
};

}  // namespace

absl::StatusOr<std::unique_ptr<KvTransport>> MakeNcclTransport(const TransportOptions& options) {
  BATON_RETURN_IF_ERROR(device::Open(options.device).status());
  return std::make_unique<NcclTransport>(options);
}

}  // namespace baton
