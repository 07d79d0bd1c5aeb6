#include "common/weights/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "common/base/status.h"

namespace baton::weights {

absl::StatusOr<std::unique_ptr<OutputFile>> OutputFile::Create(const std::string& path) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    return FailedPrecondition("%s: cannot be created: %s", path, std::generic_category().message(errno));
  }
  return std::unique_ptr<OutputFile>(new OutputFile(path, descriptor));
}

OutputFile::~OutputFile() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  unlink(path_.c_str());
}

absl::Status OutputFile::Failed(int error) const {
  return ResourceExhausted("%s: writing failed after %d bytes: %s", path_, size_,
                           std::generic_category().message(error));
}

absl::Status OutputFile::Write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Failed(errno);
    bytes = bytes.subspan(static_cast<size_t>(written));
    size_ += static_cast<uint64_t>(written);
  }
  return absl::OkStatus();
}

absl::Status OutputFile::Write(std::string_view bytes) { return Write(std::as_bytes(std::span(bytes))); }

absl::Status OutputFile::Close() {
  const int result = close(descriptor_);
  const int error = errno;
  descriptor_ = -1;
  if (result == 0) return absl::OkStatus();
  unlink(path_.c_str());
  return Failed(error);
}

absl::Status WriteNewFile(const std::string& path, std::string_view bytes) {
  BATON_ASSIGN_OR_RETURN(const auto file, OutputFile::Create(path));
  BATON_RETURN_IF_ERROR(file->Write(bytes));
  return file->Close();
}

}  // namespace baton::weights
