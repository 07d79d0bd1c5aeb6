#pragma once

// Little-endian encoding of small messages and opaque descriptors. The reader checks every length against what
// remains and remembers the first failure, so that callers test once at the end.

#include <concepts>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace baton {

class WireWriter {
 public:
  template <typename T>
  requires std::is_arithmetic_v<T>
  void Put(T value) {
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    out_.append(bytes, sizeof(T));
  }
  void PutBytes(std::string_view bytes) {
    Put(static_cast<uint32_t>(bytes.size()));
    out_.append(bytes);
  }
  template <typename T>
  void PutVector(const std::vector<T>& values) {
    Put(static_cast<uint32_t>(values.size()));
    for (const T& value : values) Put(value);
  }
  std::string Take() { return std::move(out_); }

 private:
  std::string out_;
};

class WireReader {
 public:
  explicit WireReader(std::string_view in) : in_(in) {}

  template <typename T>
  requires std::is_arithmetic_v<T> T Get() {
    T value{};
    if (in_.size() < sizeof(T)) {
      ok_ = false;
      in_ = {};
      return value;
    }
    std::memcpy(&value, in_.data(), sizeof(T));
    in_.remove_prefix(sizeof(T));
    return value;
  }
  std::string GetBytes() {
    const uint32_t size = Get<uint32_t>();
    if (size > in_.size()) {
      ok_ = false;
      in_ = {};
      return {};
    }
    std::string out(in_.substr(0, size));
    in_.remove_prefix(size);
    return out;
  }
  template <typename T>
  std::vector<T> GetVector() {
    const uint32_t size = Get<uint32_t>();
    if (static_cast<uint64_t>(size) * sizeof(T) > in_.size()) {
      ok_ = false;
      in_ = {};
      return {};
    }
    std::vector<T> out(size);
    for (T& value : out) value = Get<T>();
    return out;
  }
  bool ok() const { return ok_; }
  // INVALID_ARGUMENT naming `what` when a read ran past the end or bytes are left over.
  absl::Status Finish(std::string_view what) const;

 private:
  std::string_view in_;
  bool ok_ = true;
};

}  // namespace baton
