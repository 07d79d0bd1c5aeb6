#include "common/transport/control_codec.h"

#include <cstring>
#include <utility>

#include "common/base/status.h"
#include "common/base/wire.h"

namespace baton {
namespace {

constexpr uint32_t kFirstTokenBytes = 4 + 4 + 1;
constexpr size_t kMaxReasonBytes = 1024;  // reasons are for logs

void PutKey(WireWriter& out, const LeaseKey& key) {
  out.Put(key.lease.value);
  out.Put(key.generation);
  out.Put(key.secret);
}

LeaseKey GetKey(WireReader& in) {
  LeaseKey key;
  key.lease.value = in.Get<uint64_t>();
  key.generation = in.Get<uint64_t>();
  key.secret = in.Get<uint64_t>();
  return key;
}

}  // namespace

absl::StatusOr<std::optional<Frame>> FrameParser::Next() {
  const std::string_view rest = std::string_view(buffer_).substr(consumed_);
  if (rest.size() >= kFrameHeaderBytes) {
    uint32_t length = 0;
    std::memcpy(&length, rest.data(), sizeof(length));
    if (length == 0) return InvalidArgument("control frame is empty");
    if (length > max_frame_bytes_) {
      return InvalidArgument("control frame has %u bytes, the limit is %u", length, max_frame_bytes_);
    }
    if (rest.size() - kFrameHeaderBytes >= length) {
      const auto type = static_cast<uint8_t>(rest[kFrameHeaderBytes]);
      if (type < static_cast<uint8_t>(FrameType::kHello) || type > static_cast<uint8_t>(FrameType::kApplied)) {
        return InvalidArgument("control frame has unknown type %d", type);
      }
      consumed_ += kFrameHeaderBytes + length;
      return Frame{static_cast<FrameType>(type), std::string(rest.substr(kFrameHeaderBytes + 1, length - 1))};
    }
  }
  buffer_.erase(0, consumed_);
  consumed_ = 0;
  return std::optional<Frame>();
}

std::string EncodeFrame(FrameType type, std::string_view body) {
  WireWriter out;
  out.Put(static_cast<uint32_t>(body.size() + 1));
  out.Put(static_cast<uint8_t>(type));
  std::string frame = out.Take();
  frame.append(body);
  return frame;
}

std::string EncodeHello(const ControlHello& hello) {
  WireWriter out;
  out.Put(hello.protocol_version);
  out.Put(hello.incarnation.value);
  out.Put(hello.layout_hash.value);
  out.Put(hello.numerics_hash.value);
  out.Put(hello.secret);
  out.PutBytes(std::string_view(hello.name).substr(0, kMaxReasonBytes));
  out.PutBytes(std::string_view(hello.host_id).substr(0, kMaxReasonBytes));
  out.Put(static_cast<uint8_t>(hello.allow_mixed_numerics));
  return out.Take();
}

absl::StatusOr<ControlHello> DecodeHello(std::string_view body) {
  WireReader in(body);
  ControlHello hello;
  hello.protocol_version = in.Get<uint32_t>();
  if (in.ok() && hello.protocol_version != kControlProtocolVersion) return hello;
  hello.incarnation.value = in.Get<uint64_t>();
  hello.layout_hash.value = in.Get<uint64_t>();
  hello.numerics_hash.value = in.Get<uint64_t>();
  hello.secret = in.Get<uint64_t>();
  hello.name = in.GetBytes();
  hello.host_id = in.GetBytes();
  hello.allow_mixed_numerics = in.Get<uint8_t>() != 0;
  BATON_RETURN_IF_ERROR(in.Finish("control hello"));
  return hello;
}

absl::Status CheckHello(const ControlHello& self, const ControlHello& peer) {
  if (peer.protocol_version != self.protocol_version) {
    return FailedPrecondition("peer speaks control protocol %u, %s speaks %u", peer.protocol_version, self.name,
                              self.protocol_version);
  }
  if (peer.layout_hash != self.layout_hash) {
    return FailedPrecondition("%s has KV layout hash %016x, %s has %016x", peer.name, peer.layout_hash.value, self.name,
                              self.layout_hash.value);
  }
  if (peer.numerics_hash != self.numerics_hash && !(peer.allow_mixed_numerics && self.allow_mixed_numerics)) {
    return FailedPrecondition("%s has numerics hash %016x, %s has %016x, and they do not both allow mixed numerics",
                              peer.name, peer.numerics_hash.value, self.name, self.numerics_hash.value);
  }
  return absl::OkStatus();
}

std::string EncodeRefusal(const absl::Status& status) {
  WireWriter out;
  out.Put(static_cast<uint32_t>(status.code()));
  out.PutBytes(std::string_view(StatusMessage(status)).substr(0, kMaxReasonBytes));
  return out.Take();
}

absl::Status DecodeRefusal(std::string_view body) {
  WireReader in(body);
  const uint32_t code = in.Get<uint32_t>();
  const std::string reason = in.GetBytes();
  BATON_RETURN_IF_ERROR(in.Finish("control refusal"));
  // Whatever a target answers, a refusal is a refusal: of its codes only the transient one is kept apart.
  if (code == static_cast<uint32_t>(absl::StatusCode::kUnavailable))
    return MakeStatus(absl::StatusCode::kUnavailable, reason);
  return MakeStatus(absl::StatusCode::kFailedPrecondition, reason);
}

std::string EncodeAttach(uint64_t request, const AttachMessage& message) {
  WireWriter out;
  out.Put(request);
  PutKey(out, message.key);
  return out.Take();
}

absl::StatusOr<Numbered<AttachMessage>> DecodeAttach(std::string_view body) {
  WireReader in(body);
  Numbered<AttachMessage> out;
  out.request = in.Get<uint64_t>();
  out.message.key = GetKey(in);
  BATON_RETURN_IF_ERROR(in.Finish("control attach"));
  return out;
}

std::string EncodeCommit(uint64_t request, const CommitMessage& message) {
  WireWriter out;
  out.Put(request);
  PutKey(out, message.key);
  out.Put(message.token_count);
  out.PutVector(message.checksums);
  out.Put(static_cast<uint32_t>(message.first_tokens.size()));
  for (const FirstToken& token : message.first_tokens) {
    out.Put(token.choice);
    out.Put(token.id);
    out.Put(static_cast<uint8_t>(token.finished));
  }
  return out.Take();
}

absl::StatusOr<Numbered<CommitMessage>> DecodeCommit(std::string_view body) {
  WireReader in(body);
  Numbered<CommitMessage> out;
  out.request = in.Get<uint64_t>();
  out.message.key = GetKey(in);
  out.message.token_count = in.Get<uint32_t>();
  out.message.checksums = in.GetVector<uint64_t>();
  const uint32_t tokens = in.Get<uint32_t>();
  if (uint64_t{tokens} * kFirstTokenBytes > body.size()) {
    return InvalidArgument("control commit of %d bytes promises %u first tokens", body.size(), tokens);
  }
  for (uint32_t i = 0; i < tokens; ++i) {
    FirstToken token;
    token.choice = in.Get<uint32_t>();
    token.id = in.Get<TokenId>();
    const uint8_t finished = in.Get<uint8_t>();
    if (finished > 1) return InvalidArgument("control commit has a finished mark of %d", finished);
    token.finished = finished == 1;
    out.message.first_tokens.push_back(token);
  }
  BATON_RETURN_IF_ERROR(in.Finish("control commit"));
  return out;
}

std::string EncodeFence(uint64_t request, const FenceMessage& message) {
  WireWriter out;
  out.Put(request);
  PutKey(out, message.key);
  out.PutBytes(std::string_view(message.reason).substr(0, kMaxReasonBytes));
  return out.Take();
}

absl::StatusOr<Numbered<FenceMessage>> DecodeFence(std::string_view body) {
  WireReader in(body);
  Numbered<FenceMessage> out;
  out.request = in.Get<uint64_t>();
  out.message.key = GetKey(in);
  out.message.reason = in.GetBytes();
  BATON_RETURN_IF_ERROR(in.Finish("control fence"));
  return out;
}

std::string EncodeAnswer(uint64_t request, const AnswerMessage& message) {
  WireWriter out;
  out.Put(request);
  out.Put(message.lease.value);
  out.Put(static_cast<uint8_t>(message.answer));
  out.PutBytes(std::string_view(message.reason).substr(0, kMaxReasonBytes));
  return out.Take();
}

absl::StatusOr<Numbered<AnswerMessage>> DecodeAnswer(std::string_view body) {
  WireReader in(body);
  Numbered<AnswerMessage> out;
  out.request = in.Get<uint64_t>();
  out.message.lease.value = in.Get<uint64_t>();
  const uint8_t answer = in.Get<uint8_t>();
  out.message.reason = in.GetBytes();
  BATON_RETURN_IF_ERROR(in.Finish("control answer"));
  if (answer < static_cast<uint8_t>(LeaseAnswer::kAttached) || answer > static_cast<uint8_t>(LeaseAnswer::kRefused)) {
    return InvalidArgument("control answer has unknown kind %d", answer);
  }
  out.message.answer = static_cast<LeaseAnswer>(answer);
  return out;
}

}  // namespace baton
