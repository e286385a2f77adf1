#include "runtime/base/temporary_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <ctime>

namespace rnnc {
namespace {

constexpr std::string_view kPrefix = ".rnnc-";
constexpr std::string_view kSuffix = ".tmp";

tl::unexpected<Error> last_error() {
  return fail("{}", error_text(errno));
}

/// While this lives, what a write may be answered with besides an error does not reach the process.
/// Such signals go to the thread that writes, so that holding them back there is enough.
class QuietWrites {
 public:
  QuietWrites() {
    sigset_t pending;
    ::sigpending(&pending);
    ::sigemptyset(&signals_);
    for (const int signal : {SIGXFSZ, SIGPIPE}) {
      if (::sigismember(&pending, signal) == 0) ::sigaddset(&signals_, signal);
    }
    ::pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  ~QuietWrites() {
    const int error = errno;
    const timespec now = {};
    while (::sigtimedwait(&signals_, nullptr, &now) > 0) {
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }
  QuietWrites(const QuietWrites&) = delete;
  QuietWrites& operator=(const QuietWrites&) = delete;

 private:
  sigset_t signals_;
  sigset_t before_;
};

/// Whether the name in the folder is that of the open file.
bool is_name_of(int folder, const std::string& name, int file) {
  struct stat named{};
  struct stat open{};
  return ::fstatat(folder, name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         ::fstat(file, &open) == 0 && named.st_ino == open.st_ino && named.st_dev == open.st_dev;
}

std::string new_name() {
  // Processes in different containers may share both a folder and a number, hence the clock.
  static std::atomic<unsigned> counter{0};
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  return fmt::format("{}{}-{}-{:x}{}", kPrefix, ::getpid(), counter.fetch_add(1), now, kSuffix);
}

/// Removes it if one of our user's processes was killed that wrote it.
void sweep(int folder, const std::string& name) {
  struct stat info{};
  if (::fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return;
  if (!S_ISREG(info.st_mode) || info.st_uid != ::geteuid()) return;
  const Descriptor file(
      ::openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.is_open() || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return;
  if (is_name_of(folder, name, file.get())) ::unlinkat(folder, name.c_str(), 0);
}

}  // namespace

Status write_all(int descriptor, std::string_view bytes) {
  const QuietWrites quiet;
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return last_error();
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

Result<TemporaryFile> TemporaryFile::create(Descriptor folder, mode_t mode) {
  for (;;) {
    std::string name = new_name();
    Descriptor file(
        ::openat(folder.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
    if (!file.is_open()) return last_error();
    // Who sweeps the folder may have been faster with the lock: then the file is gone. Where a file
    // system has no locks, nobody sweeps.
    ::flock(file.get(), LOCK_EX);
    if (!is_name_of(folder.get(), name, file.get())) continue;
    return TemporaryFile(std::move(folder), std::move(file), std::move(name));
  }
}

TemporaryFile::TemporaryFile(TemporaryFile&& other) noexcept
    : folder_(std::move(other.folder_)),
      file_(std::move(other.file_)),
      temporary_(std::exchange(other.temporary_, {})),
      name_(std::exchange(other.name_, {})) {}

TemporaryFile::~TemporaryFile() {
  if (!temporary_.empty()) ::unlinkat(folder_.get(), temporary_.c_str(), 0);
}

Status TemporaryFile::replace(const std::string& name) {
  if (::renameat(folder_.get(), temporary_.c_str(), folder_.get(), name.c_str()) != 0) {
    return last_error();
  }
  temporary_.clear();
  return {};
}

Status TemporaryFile::place(const std::string& name) {
  const int folder = folder_.get();
  struct stat info{};
  const bool is_new = ::fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0;
  if (is_new || S_ISREG(info.st_mode)) {
    const unsigned how = is_new ? RENAME_NOREPLACE : RENAME_EXCHANGE;
    if (::renameat2(folder, temporary_.c_str(), folder, name.c_str(), how) == 0) {
      name_ = name;
      if (is_new) temporary_.clear();
      return {};
    }
    if (errno != EINVAL && errno != ENOSYS && errno != EEXIST && errno != ENOENT) {
      return last_error();
    }
  }
  return replace(name);
}

void TemporaryFile::take_back() {
  if (name_.empty()) return;
  const int folder = folder_.get();
  if (!temporary_.empty()) {
    ::renameat2(folder, temporary_.c_str(), folder, name_.c_str(), RENAME_EXCHANGE);
  } else if (is_name_of(folder, name_, file_.get())) {
    ::unlinkat(folder, name_.c_str(), 0);
  }
  name_.clear();
}

bool is_temporary_name(std::string_view name) {
  return name.starts_with(kPrefix) && name.ends_with(kSuffix);
}

void sweep_temporaries(int folder) {
  const Result<std::vector<std::string>> names = list_folder(folder);
  if (!names) return;
  for (const std::string& name : *names) {
    if (is_temporary_name(name)) sweep(folder, name);
  }
}

}  // namespace rnnc
