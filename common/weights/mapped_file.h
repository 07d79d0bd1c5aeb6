#pragma once

// A read-only file of weights. It is mapped, so that many workers share one copy of it in the page cache, and it can
// be copied from with an error instead of a signal.
//
// Touching `bytes()` of a file that somebody has cut meanwhile raises SIGBUS, or reads zeros up to the end of the page.
// So whoever keeps a copy (a runner that packs weights) takes it by Read, which reports a short file, and calls
// CheckUnchanged once at the end; after that no byte of the file is needed again.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace baton::weights {

class MappedFile {
 public:
  // NOT_FOUND, or FAILED_PRECONDITION when it is no regular file. An empty file opens and has size 0.
  static absl::StatusOr<std::shared_ptr<const MappedFile>> Open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  uint64_t size() const { return bytes_.size(); }
  std::span<const std::byte> bytes() const { return bytes_; }

  // Copies [offset, offset + out.size()) of the file as it is now; DATA_LOSS with both sizes if it has become shorter.
  absl::Status Read(uint64_t offset, std::span<std::byte> out) const;

  // DATA_LOSS when size or modification time differ from those at Open.
  absl::Status CheckUnchanged() const;

 private:
  MappedFile(std::string path, int descriptor, std::span<const std::byte> bytes, int64_t modified_ns);

  const std::string path_;
  const int descriptor_;
  const std::span<const std::byte> bytes_;
  const int64_t modified_ns_;
};

}  // namespace baton::weights
