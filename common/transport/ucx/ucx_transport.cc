#include "common/transport/ucx/ucx_transport.h"

#include <map>
#include <utility>

#include "absl/synchronization/notification.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/telemetry/log.h"
#include "common/transport/put_runs.h"
#include "common/transport/ucx/ucx_config.h"
#include "common/transport/ucx/ucx_descriptor.h"
#include "common/transport/ucx/ucx_engine.h"
#include "common/transport/ucx/ucx_inbound.h"
#include "common/transport/ucx/ucx_outbound.h"
#include "common/transport/ucx/ucx_segments.h"
#include "common/transport/ucx/ucx_status.h"

namespace baton {
namespace {

constexpr Duration kConnectTimeout = std::chrono::seconds(5);
constexpr uint64_t kPoolAlignment = 4096;

// The sessions that this process writes through. On the engine's thread.
class OutboundTable {
 public:
  absl::Status RegisterHandlers(UcxEngine& engine) {
    BATON_RETURN_IF_ERROR(engine.SetMessageHandler(kUcxOpened, [this](std::string_view header, std::string_view) {
      UcxOpened opened;
      if (!ReadHeader(header, &opened)) return;
      if (const auto session = Find(opened.writer_session)) session->OnOpened(opened.target_session);
    }));
    BATON_RETURN_IF_ERROR(engine.SetMessageHandler(kUcxFlushed, [this](std::string_view header, std::string_view) {
      UcxFlushed flushed;
      if (!ReadHeader(header, &flushed)) return;
      if (const auto session = Find(flushed.writer_session)) session->OnFlushed(flushed.flush);
    }));
    return engine.SetMessageHandler(kUcxGoodbye, [this, &engine](std::string_view header, std::string_view) {
      UcxGoodbye goodbye;
      if (!ReadHeader(header, &goodbye)) return;
      // Ending closes an endpoint, which is not done inside of UCX's own callbacks.
      engine.Post([this, goodbye] {
        if (const auto session = Find(goodbye.writer_session)) session->OnGoodbye();
      });
    });
  }
  void Add(uint64_t id, std::shared_ptr<UcxOutbound> session) { sessions_[id] = std::move(session); }
  void Remove(uint64_t id) { sessions_.erase(id); }
  bool SendSome() {
    bool sent = false;
    for (const auto& [id, session] : sessions_) sent |= session->SendSome();
    return sent;
  }

 private:
  std::shared_ptr<UcxOutbound> Find(uint64_t id) const {
    const auto it = sessions_.find(id);
    return it == sessions_.end() ? nullptr : it->second;
  }
  std::map<uint64_t, std::shared_ptr<UcxOutbound>> sessions_;
};

class UcxSession final : public KvSession {
 public:
  UcxSession(UcxEngine* engine, OutboundTable* table, uint64_t id, const PutSource& source,
             std::shared_ptr<UcxOutbound> outbound)
      : engine_(engine), table_(table), id_(id), source_(source), outbound_(std::move(outbound)) {}
  ~UcxSession() override {
    absl::Notification closed;
    engine_->Post([&] {
      // The engine may hold the last reference a moment longer; what UCX knew of the session is gone by then.
      outbound_->Close([this, &closed, engine = engine_] {
        table_->Remove(id_);
        engine->Post([&closed] { closed.Notify(); });
      });
    });
    closed.WaitForNotification();
  }

  absl::Status Put(const WriteStamp& stamp, std::span<const PutRun> runs) override {
    BATON_RETURN_IF_ERROR(CheckRuns(runs, outbound_->pool_bytes(), source_));
    BATON_RETURN_IF_ERROR(outbound_->status());
    engine_->Post([outbound = outbound_, stamp, copy = std::vector<PutRun>(runs.begin(), runs.end())] {
      outbound->AddPut(stamp, copy);
    });
    return absl::OkStatus();
  }
  void Flush(std::function<void(const absl::Status&)> done) override {
    engine_->Post([outbound = outbound_, done = std::move(done)]() mutable { outbound->AddFlush(std::move(done)); });
  }
  std::string_view lane() const override { return outbound_->lane(); }

 private:
  UcxEngine* const engine_;
  OutboundTable* const table_;
  const uint64_t id_;
  const PutSource source_;
  const std::shared_ptr<UcxOutbound> outbound_;
};

class UcxTransport final : public KvTransport {
 public:
  UcxTransport(std::unique_ptr<UcxEngine> engine, const TransportOptions& options)
      : message_puts_(options.message_puts),
        one_sided_(MayPutOneSided(options)),
        engine_(std::move(engine)),
        inbound_(engine_.get(), instance_) {}

  absl::Status RegisterHandlers() {
    absl::Status status;
    engine_->Call([&] {
      status = inbound_.RegisterHandlers();
      if (status.ok()) status = outbound_.RegisterHandlers(*engine_);
      engine_->SetPump([this] {
        const bool wrote = inbound_.FinishWrites();
        return outbound_.SendSome() || wrote;
      });
    });
    return status;
  }

  // Sessions made here are gone already; those of peers are told.
  ~UcxTransport() override {
    absl::Notification done;
    engine_->Post([&] { inbound_.Shutdown([&] { done.Notify(); }); });
    done.WaitForNotification();
    engine_->Call([&] {
      inbound_.Release();
      UnmapPool();
    });
    engine_->Stop();  // while what its timers and handlers point to is still there
  }

  std::string_view name() const override { return "ucx"; }
  TransportCapabilities capabilities() const override { return {.one_sided = one_sided_}; }

  absl::StatusOr<std::span<std::byte>> AllocatePool(uint64_t bytes) override {
    if (pool_bytes_ > 0) return FailedPrecondition("the pool of %d bytes exists", pool_bytes_);
    if (bytes == 0) return InvalidArgument("a pool of 0 bytes");
    if (const uint32_t removed = RemoveAbandonedUcxSegments(); removed > 0) {
      Logger("ucx", LogLevel::kWarning)
          .Write(LogLevel::kWarning, "removed shared memory that killed processes had left behind",
                 {{"segments", removed}});
    }
    absl::Status status;
    engine_->Call([&] {
      status = MapPool(bytes, nullptr);
      if (!status.ok()) return UnmapPool();
      inbound_.SetPool(pool_);
    });
    if (!status.ok()) return WithContext(status, "a pool of " + std::to_string(bytes) + " bytes");
    pool_bytes_ = bytes;
    return pool_;
  }

  absl::Status UsePool(PoolMemory* pool) override {
    if (pool_bytes_ > 0) return FailedPrecondition("the pool of %d bytes exists", pool_bytes_);
    BATON_ASSIGN_OR_RETURN(auto staging, pool->MakeStaging(StagingPlace::kHost, UcxInbound::kBuffers, kUcxWriteBytes));
    absl::Status status;
    engine_->Call([&] {
      const bool direct = engine_->reaches_devices() && !pool->device().empty();
      if (direct) status = MapPool(pool->bytes(), pool->device().data());
      if (!status.ok()) return UnmapPool();  // the pool may go: nothing of it stays here
      if (!direct) one_sided_ = false;
      inbound_.SetPool(pool->bytes(), std::move(staging));
    });
    if (status.ok()) pool_bytes_ = pool->bytes();
    return status;
  }

  absl::StatusOr<std::string> Describe() const override {
    if (pool_bytes_ == 0) return FailedPrecondition("no pool was allocated");
    return EncodeUcxDescriptor({instance_, engine_->worker_address(), remote_key_,
                                reinterpret_cast<uintptr_t>(pool_.data()), pool_bytes_, message_puts_});
  }

  absl::StatusOr<std::unique_ptr<KvSession>> Connect(const std::string& descriptor, const PutSource& source) override {
    BATON_ASSIGN_OR_RETURN(UcxDescriptor target, DecodeUcxDescriptor(descriptor));
    const uint64_t id = RandomU64();
    auto outbound = std::make_shared<UcxOutbound>(engine_.get(), id, std::move(target), source, message_puts_);
    absl::Status opened;
    absl::Notification answered;
    engine_->Post([&] {
      outbound_.Add(id, outbound);
      outbound->Open(kConnectTimeout, [&](const absl::Status& status) {
        opened = status;
        answered.Notify();
      });
    });
    answered.WaitForNotification();
    // Its destructor takes down what a failed open left.
    auto session = std::make_unique<UcxSession>(engine_.get(), &outbound_, id, source, std::move(outbound));
    if (!opened.ok()) return opened;
    return session;
  }

  void SetWriteGate(WriteGate* gate) override {
    engine_->Call([&] { inbound_.SetGate(gate); });
  }

 private:
  // Memory of a device at `device`, or of this process that UCX allocates.
  absl::Status MapPool(uint64_t bytes, std::byte* device) {
    ucp_mem_map_params_t parameters{};
    parameters.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS;
    parameters.length = bytes;
    parameters.flags = UCP_MEM_MAP_ALLOCATE;
    if (device != nullptr) {
      parameters.field_mask =
          UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
      parameters.address = device;
      parameters.memory_type = UCS_MEMORY_TYPE_CUDA;
    }
    ucp_mem_h memory = nullptr;
    BATON_RETURN_IF_ERROR(UcxStatus(ucp_mem_map(engine_->context(), &parameters, &memory), "ucp_mem_map"));
    memory_ = memory;
    ucp_mem_attr_t attributes{};
    attributes.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS | UCP_MEM_ATTR_FIELD_LENGTH;
    BATON_RETURN_IF_ERROR(UcxStatus(ucp_mem_query(memory, &attributes), "ucp_mem_query"));
    if (device == nullptr && reinterpret_cast<uintptr_t>(attributes.address) % kPoolAlignment != 0) {
      return Internal("UCX allocated at %p, not aligned to %d", attributes.address, kPoolAlignment);
    }
    void* key = nullptr;
    size_t key_bytes = 0;
    BATON_RETURN_IF_ERROR(UcxStatus(ucp_rkey_pack(engine_->context(), memory, &key, &key_bytes), "ucp_rkey_pack"));
    remote_key_.assign(static_cast<const char*>(key), key_bytes);
    ucp_rkey_buffer_release(key);
    pool_ = {static_cast<std::byte*>(attributes.address), bytes};
    return absl::OkStatus();
  }

  void UnmapPool() {
    if (memory_ != nullptr) ucp_mem_unmap(engine_->context(), std::exchange(memory_, nullptr));
  }

  const uint64_t instance_ = RandomU64();
  const bool message_puts_;
  bool one_sided_;
  const std::unique_ptr<UcxEngine> engine_;
  UcxInbound inbound_;
  OutboundTable outbound_;
  ucp_mem_h memory_ = nullptr;
  uint64_t pool_bytes_ = 0;    // 0: there is none yet
  std::span<std::byte> pool_;  // what peers may reach
  std::string remote_key_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<KvTransport>> MakeUcxTransport(const TransportOptions& options) {
  BATON_ASSIGN_OR_RETURN(auto engine, UcxEngine::Start(options));
  auto transport = std::make_unique<UcxTransport>(std::move(engine), options);
  BATON_RETURN_IF_ERROR(transport->RegisterHandlers());
  return transport;
}

}  // namespace baton
