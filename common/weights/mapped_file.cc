#include "common/weights/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/status.h"

namespace baton::weights {
namespace {

int64_t ModifiedNs(const struct stat& status) {
  return static_cast<int64_t>(status.st_mtim.tv_sec) * 1'000'000'000 + status.st_mtim.tv_nsec;
}

}  // namespace

MappedFile::MappedFile(std::string path, int descriptor, std::span<const std::byte> bytes, int64_t modified_ns)
    : path_(std::move(path)), descriptor_(descriptor), bytes_(bytes), modified_ns_(modified_ns) {}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  close(descriptor_);
}

absl::StatusOr<std::shared_ptr<const MappedFile>> MappedFile::Open(const std::string& path) {
  // O_NONBLOCK: opening a named pipe must not wait for a writer.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return NotFound("%s: cannot open: %s", path, std::strerror(errno));
  struct stat status = {};
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(descriptor);
    return FailedPrecondition("%s: is not a regular file", path);
  }
  std::span<const std::byte> bytes;
  if (status.st_size > 0) {
    void* address = mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ, MAP_SHARED, descriptor, 0);
    if (address == MAP_FAILED) {
      const int error = errno;
      close(descriptor);
      return FailedPrecondition("%s: cannot map %d bytes: %s", path, status.st_size, std::strerror(error));
    }
    bytes = {static_cast<const std::byte*>(address), static_cast<size_t>(status.st_size)};
  }
  return std::shared_ptr<const MappedFile>(new MappedFile(path, descriptor, bytes, ModifiedNs(status)));
}

absl::Status MappedFile::Read(uint64_t offset, std::span<std::byte> out) const {
  uint64_t end;
  if (__builtin_add_overflow(offset, out.size(), &end) || end > size()) {
    return DataLoss("%s: read of %d bytes at %d, the file had %d bytes when it was opened", path_, out.size(), offset,
                    size());
  }
  while (!out.empty()) {
    const ssize_t count = pread(descriptor_, out.data(), out.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return DataLoss("%s: cannot read at %d: %s", path_, offset, std::strerror(errno));
    if (count == 0) {
      return DataLoss("%s: ends at %d while bytes up to %d are read; it had %d bytes when it was opened", path_, offset,
                      end, size());
    }
    out = out.subspan(static_cast<size_t>(count));
    offset += static_cast<uint64_t>(count);
  }
  return absl::OkStatus();
}

absl::Status MappedFile::CheckUnchanged() const {
  struct stat status = {};
  if (fstat(descriptor_, &status) != 0) return DataLoss("%s: cannot be inspected: %s", path_, std::strerror(errno));
  if (static_cast<uint64_t>(status.st_size) != size()) {
    return DataLoss("%s: has %d bytes now, had %d bytes when it was opened", path_, status.st_size, size());
  }
  if (ModifiedNs(status) != modified_ns_) return DataLoss("%s: was written to while it was being loaded", path_);
  return absl::OkStatus();
}

}  // namespace baton::weights
