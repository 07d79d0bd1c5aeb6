#pragma once

// A new file written from its beginning to its end. Never overwrites; a file that was not closed is removed.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace baton::weights {

class OutputFile {
 public:
  // FAILED_PRECONDITION when `path` exists already.
  static absl::StatusOr<std::unique_ptr<OutputFile>> Create(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Errors name the file and the system's reason ("No space left on device").
  absl::Status Write(std::span<const std::byte> bytes);
  absl::Status Write(std::string_view bytes);
  absl::Status Close();

  uint64_t size() const { return size_; }

 private:
  OutputFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  absl::Status Failed(int error) const;

  const std::string path_;
  int descriptor_;
  uint64_t size_ = 0;
};

// Creates `path` with this content.
absl::Status WriteNewFile(const std::string& path, std::string_view bytes);

}  // namespace baton::weights
