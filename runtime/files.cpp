#include "runtime/files.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <new>
#include <system_error>

#include "runtime/describe.h"
#include "runtime/host_memory.h"

namespace rnnc {
namespace {

namespace fs = std::filesystem;

std::string error_text(int error) {
  return std::generic_category().message(error);
}

/// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  ~Descriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }
  /// Closes now; false if what was written did not reach the file.
  bool close() { return ::close(std::exchange(descriptor_, -1)) == 0; }

 private:
  int descriptor_;
};

bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

/// The file that `path` means in the end, so that a symbolic link stays one.
fs::path resolve(const fs::path& path) {
  std::error_code error;
  if (!fs::is_symlink(path, error)) return path;
  fs::path target = fs::weakly_canonical(path, error);
  return error ? path : target;
}

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

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

enum class Target : uint8_t { file, stream };

/// What `path` is or would become: a file, or a device or pipe that is there already.
Result<Target> classify_target(const fs::path& path) {
  if (path.empty()) return fail("cannot write: the path is empty");
  struct stat info{};
  if (::stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode))
      return fail("cannot write {}: it is a directory", quote(path.string()));
    if (!S_ISREG(info.st_mode)) return Target::stream;
  } else if (errno != ENOENT) {
    return fail("cannot write {}: {}", quote(path.string()), error_text(errno));
  }
  if (!path.has_filename()) {
    return fail("cannot write {}: it names a directory", quote(path.string()));
  }
  return Target::file;
}

/// Creates a new file beside `target`, with the permissions of a `target` that is there already.
Result<fs::path> write_temporary(const fs::path& target, std::string_view bytes) {
  // Processes in different containers may share both a folder and a number, hence the clock.
  static std::atomic<unsigned> counter{0};
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  fs::path temporary = folder_of(target) /
                       fmt::format(".rnnc-{}-{}-{:x}.tmp", ::getpid(), counter.fetch_add(1), now);
  Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file.is_open()) {
    return fail("cannot write {}: {}", quote(target.string()), error_text(errno));
  }
  struct stat info{};
  if (::stat(target.c_str(), &info) == 0) ::fchmod(file.get(), info.st_mode & 07777);
  if (!write_all(file.get(), bytes) || !file.close()) {
    const int error = errno;
    ::unlink(temporary.c_str());
    return fail("cannot write {}: {}", quote(target.string()), error_text(error));
  }
  return temporary;
}

Status write_stream(const fs::path& target, std::string_view bytes) {
  Descriptor file(::open(target.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file.is_open() || !write_all(file.get(), bytes)) {
    return fail("cannot write {}: {}", quote(target.string()), error_text(errno));
  }
  return {};
}

}  // namespace

Result<std::string> read_file(const fs::path& path, int64_t limit, Readable readable) {
  const std::string name = quote(path.string());
  // What must not be opened is found before: opening some devices does something.
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return fail("cannot read {}: {}", name, error_text(errno));
  const bool pipe = S_ISFIFO(info.st_mode) && readable == Readable::regular_file_or_pipe;
  if (!S_ISREG(info.st_mode) && !pipe) {
    return fail("cannot read {}: it is {}", name, kind_of(info.st_mode));
  }
  // Another file may have its name by now; O_NONBLOCK: none is waited for.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
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
  return read_descriptor(file.get(), path.string(), limit);
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

FileTransaction::~FileTransaction() {
  for (const Pending& file : pending_) {
    if (!file.temporary.empty()) ::unlink(file.temporary.c_str());
  }
}

Status FileTransaction::add(const fs::path& path, std::string_view bytes) {
  const fs::path target = resolve(path);
  const Result<Target> kind = classify_target(target);
  if (!kind) return tl::unexpected(kind.error());
  if (*kind == Target::stream) {
    pending_.push_back({target, {}, std::string(bytes)});
    return {};
  }
  Result<fs::path> temporary = write_temporary(target, bytes);
  if (!temporary) return tl::unexpected(temporary.error());
  pending_.push_back({target, std::move(*temporary), {}});
  return {};
}

Status FileTransaction::commit() {
  for (Pending& file : pending_) {
    if (file.temporary.empty()) {
      if (Status status = write_stream(file.target, file.bytes); !status) return status;
    } else if (::rename(file.temporary.c_str(), file.target.c_str()) != 0) {
      return fail("cannot write {}: {}", quote(file.target.string()), error_text(errno));
    } else {
      file.temporary.clear();
      file.bytes.clear();
    }
  }
  pending_.clear();
  return {};
}

Status write_file(const fs::path& path, std::string_view bytes) {
  FileTransaction transaction;
  if (Status status = transaction.add(path, bytes); !status) return status;
  return transaction.commit();
}

Status check_writable(const fs::path& path) {
  const fs::path target = resolve(path);
  const Result<Target> kind = classify_target(target);
  if (!kind) return tl::unexpected(kind.error());
  const fs::path place = *kind == Target::stream ? target : folder_of(target);
  if (::access(place.c_str(), W_OK) != 0) {
    return fail("cannot write {}: {}: {}", quote(path.string()), quote(place.string()),
                error_text(errno));
  }
  struct stat info{};
  if (*kind == Target::file && ::stat(place.c_str(), &info) == 0 && !S_ISDIR(info.st_mode)) {
    return fail("cannot write {}: {} is not a directory", quote(path.string()),
                quote(place.string()));
  }
  return {};
}

}  // namespace rnnc
