#pragma once

// Frames of the control connection: u32 length of what follows, u8 type, body. Requests and answers start their body
// with a u64 request id. Every decoder checks each length against the bytes that are there; none allocates more than
// the frame holds.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/transport/control_messages.h"

namespace baton {

enum class FrameType : uint8_t {
  kHello = 1,      // both directions, first
  kWelcome = 2,    // target -> writer, after its hello
  kRefusal = 3,    // target -> writer, instead of a welcome
  kHeartbeat = 4,  // both directions
  kAttach = 5,
  kCommit = 6,
  kFence = 7,
  kAnswer = 8,
  // On a two-sided transport's own connections.
  kAnnounce = 9,  // writer -> target: bytes that come next, and where they belong
  kApplied = 10,  // target -> writer: announced bytes were written or refused
};
inline constexpr size_t kFrameHeaderBytes = 4;
inline constexpr uint32_t kMaxHelloFrameBytes = 4096;  // limit until the hello is done

struct Frame {
  FrameType type = FrameType::kHeartbeat;
  std::string body;
};

// Cuts a byte stream into frames. Buffers what arrived, never what a length field promises.
class FrameParser {
 public:
  void set_max_frame_bytes(uint32_t bytes) { max_frame_bytes_ = bytes; }
  void Append(const char* bytes, size_t count) { buffer_.append(bytes, count); }
  // The next whole frame, nothing when more bytes are needed, INVALID_ARGUMENT for an empty, oversize or unknown one.
  absl::StatusOr<std::optional<Frame>> Next();

 private:
  std::string buffer_;
  size_t consumed_ = 0;
  uint32_t max_frame_bytes_ = kMaxHelloFrameBytes;
};

std::string EncodeFrame(FrameType type, std::string_view body);

std::string EncodeHello(const ControlHello& hello);
// A hello of another protocol version yields that version and nothing else.
absl::StatusOr<ControlHello> DecodeHello(std::string_view body);

// FAILED_PRECONDITION naming both sides and values when version, layout hash or, unless both allow it, numerics hash
// differ.
absl::Status CheckHello(const ControlHello& self, const ControlHello& peer);

std::string EncodeRefusal(const absl::Status& status);
// The status that the target refused with; never OK.
absl::Status DecodeRefusal(std::string_view body);

template <typename Message>
struct Numbered {
  uint64_t request = 0;
  Message message;
};
std::string EncodeAttach(uint64_t request, const AttachMessage& message);
std::string EncodeCommit(uint64_t request, const CommitMessage& message);
std::string EncodeFence(uint64_t request, const FenceMessage& message);
std::string EncodeAnswer(uint64_t request, const AnswerMessage& message);
absl::StatusOr<Numbered<AttachMessage>> DecodeAttach(std::string_view body);
absl::StatusOr<Numbered<CommitMessage>> DecodeCommit(std::string_view body);
absl::StatusOr<Numbered<FenceMessage>> DecodeFence(std::string_view body);
absl::StatusOr<Numbered<AnswerMessage>> DecodeAnswer(std::string_view body);

}  // namespace baton
