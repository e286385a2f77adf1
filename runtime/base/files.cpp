#include "runtime/base/files.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>

#include "runtime/base/describe.h"
#include "runtime/base/descriptor.h"
#include "runtime/base/host_memory.h"

namespace rnnc {
namespace {

namespace fs = std::filesystem;

/// Most bytes of what does not say how many it has.
constexpr int64_t kLongestUnsized = int64_t{1} << 30;

/// What a file is that is not a regular one.
std::string_view kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a pipe, not a file";
  return "not a regular file";
}

bool is_unnamed_pipe(int descriptor) {
  struct statfs system{};
  return ::fstatfs(descriptor, &system) == 0 && system.f_type == PIPEFS_MAGIC;
}

}  // namespace

Result<Descriptor> open_file(const fs::path& path, Readable readable) {
  const std::string name = quote(path.string());
  // What must not be opened is found before: opening some devices does something.
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return fail("cannot read {}: {}", name, error_text(errno));
  const bool pipe = S_ISFIFO(info.st_mode) && readable == Readable::regular_file_or_pipe;
  if (!S_ISREG(info.st_mode) && !pipe) {
    return fail("cannot read {}: it is {}", name, kind_of(info.st_mode));
  }
  // Another file may have its name by now; O_NONBLOCK: none is waited for.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.is_open()) return fail("cannot read {}: {}", name, error_text(errno));
  if (::fstat(file.get(), &info) != 0) return fail("cannot read {}: {}", name, error_text(errno));
  if (pipe && S_ISFIFO(info.st_mode)) {
    if (!is_unnamed_pipe(file.get())) {
      return fail("cannot read {}: it is a named pipe, which might never end", name);
    }
    ::fcntl(file.get(), F_SETFL, O_RDONLY);  // whoever made it writes to it: worth waiting for
  } else if (!S_ISREG(info.st_mode)) {
    return fail("cannot read {}: it is {}", name, kind_of(info.st_mode));
  }
  return file;
}

Result<std::string> read_file(const fs::path& path, int64_t limit, Readable readable) {
  const Result<Descriptor> file = open_file(path, readable);
  if (!file) return tl::unexpected(file.error());
  return read_descriptor(file->get(), path.string(), limit);
}

Result<std::string> read_descriptor(int descriptor, std::string_view label, int64_t limit) {
  const std::string name = quote(label);
  struct stat info{};
  if (::fstat(descriptor, &info) != 0) return fail("cannot read {}: {}", name, error_text(errno));
  const int64_t size = S_ISREG(info.st_mode) ? info.st_size : 0;
  if (size > limit) {
    return fail("cannot read {}: it has {} bytes, and {} are the most that it may have", name, size,
                limit);
  }
  // A sparse file may claim any size; filling memory that the machine lacks would get us killed.
  if (size > host_memory()) {
    return fail("cannot read {}: its {} bytes do not fit in memory", name, size);
  }
  const auto most = static_cast<size_t>(std::min(limit, std::max(size, kLongestUnsized)));
  std::string bytes;
  try {
    // The size is only a guess of how much will come: files grow, shrink, and pipes have none.
    constexpr size_t kPiece = 1 << 16;
    size_t used = 0;
    bytes.resize(static_cast<size_t>(size) + 1);
    for (;;) {
      if (used > most) {
        return fail("cannot read {}: more than {} bytes come, the most that it may have", name,
                    most);
      }
      if (used == bytes.size()) {
        bytes.resize(std::min(bytes.size() + bytes.size() / 2 + kPiece, most + 1));
      }
      const ssize_t count = ::read(descriptor, bytes.data() + used, bytes.size() - used);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return fail("cannot read {}: {}", name, error_text(errno));
      if (count == 0) break;
      used += static_cast<size_t>(count);
    }
    bytes.resize(used);
  } catch (const std::bad_alloc&) {
    return fail("cannot read {}: it does not fit in memory", name);
  }
  return bytes;
}

}  // namespace rnnc
