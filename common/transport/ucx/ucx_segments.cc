#include "common/transport/ucx/ucx_segments.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace baton {
namespace {

constexpr std::string_view kPrefix = "ucx_shm_posix_";

// True while `descriptor` is the only one of its file anywhere and nothing maps it: only then does the kernel grant a
// write lease. UCX has its segments open, or mapped, for writing as long as it uses them.
bool IsAlone(int descriptor) {
  // Whoever opens the file while the lease lasts makes the kernel signal it; SIGIO, the default, would end the process.
  return fcntl(descriptor, F_SETSIG, SIGURG) == 0 && fcntl(descriptor, F_SETLEASE, F_WRLCK) == 0;
}

}  // namespace

uint32_t RemoveAbandonedUcxSegments(const std::string& directory) {
  uint32_t removed = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    if (!entry.path().filename().string().starts_with(kPrefix)) continue;
    // O_NONBLOCK: another process may hold such a lease just now.
    const int descriptor = open(entry.path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (descriptor < 0) continue;
    struct stat status = {};
    if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
        IsAlone(descriptor) && unlink(entry.path().c_str()) == 0) {
      ++removed;
    }
    close(descriptor);  // and the lease ends
  }
  return removed;
}

void RemoveOwnUcxSegments() {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const std::filesystem::path file = std::filesystem::read_symlink(entry.path(), error);
    if (error || !file.filename().string().starts_with(kPrefix)) continue;
    unlink(file.c_str());  // fails where it has lost its name already: the link then says "(deleted)"
  }
}

}  // namespace baton
