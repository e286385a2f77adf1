// 1. Each file is written under a temporary name beside its target, and flushed to the disk.
// 2. Devices and pipes are written.
// 3. With signals held back, each file changes places with its target; if one cannot, those before
//    it change back.
// 4. The old files are removed.
// Only a kill (SIGKILL, a power cut) amid step 3 leaves some targets new and others old.
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <optional>

#include "runtime/base/describe.h"
#include "runtime/base/descriptor.h"
#include "runtime/base/files.h"
#include "runtime/base/held_signals.h"
#include "runtime/base/temporary_file.h"

namespace rnnc {
namespace {

namespace fs = std::filesystem;

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

tl::unexpected<Error> refuse(const fs::path& path, std::string_view reason) {
  return fail("cannot write {}: {}", quote(path.string()), reason);
}

enum class Target : uint8_t { file, stream };

/// What `path` is or would become: a file, or a device or pipe that is there already.
Result<Target> classify_target(const fs::path& path) {
  if (path.empty()) return fail("cannot write: the path is empty");
  struct stat info{};
  if (::stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return refuse(path, "it is a directory");
    if (!S_ISREG(info.st_mode)) return Target::stream;
  } else if (errno != ENOENT) {
    return refuse(path, error_text(errno));
  }
  if (!path.has_filename()) return refuse(path, "it names a directory");
  return Target::file;
}

/// The bytes in a new file beside `target`, with the permissions of a `target` that is there
/// already, else as the system gives them.
Result<TemporaryFile> write_temporary(const fs::path& target, std::string_view bytes) {
  Descriptor folder(::open(folder_of(target).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder.is_open()) return refuse(target, error_text(errno));
  struct stat info{};
  const bool exists = ::fstatat(folder.get(), target.filename().c_str(), &info, 0) == 0;
  Result<TemporaryFile> file = TemporaryFile::create(std::move(folder), 0666);
  if (!file) return refuse(target, file.error().message);
  if (exists) ::fchmod(file->get(), info.st_mode & 07777);
  if (Status status = write_all(file->get(), bytes); !status) {
    return refuse(target, status.error().message);
  }
  if (::fsync(file->get()) != 0) return refuse(target, error_text(errno));
  return file;
}

Status write_stream(const fs::path& target, std::string_view bytes) {
  const Descriptor file(::open(target.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
  if (!file.is_open()) return refuse(target, error_text(errno));
  const Status status = write_all(file.get(), bytes);
  return status ? status : refuse(target, status.error().message);
}

}  // namespace

struct FileTransaction::Pending {
  fs::path target;
  std::optional<TemporaryFile> file;  // none: `bytes` go to the target directly
  std::string bytes;
};

FileTransaction::FileTransaction() = default;
FileTransaction::~FileTransaction() = default;

Status FileTransaction::add(const fs::path& path, std::string_view bytes) {
  const fs::path target = resolve(path);
  const Result<Target> kind = classify_target(target);
  if (!kind) return tl::unexpected(kind.error());
  if (*kind == Target::stream) {
    pending_.push_back({target, std::nullopt, std::string(bytes)});
    return {};
  }
  Result<TemporaryFile> file = write_temporary(target, bytes);
  if (!file) return tl::unexpected(file.error());
  pending_.push_back({target, *std::move(file), {}});
  return {};
}

Status FileTransaction::commit() {
  for (const Pending& pending : pending_) {
    if (pending.file) continue;
    if (Status status = write_stream(pending.target, pending.bytes); !status) return status;
  }
  if (Status status = place_files(); !status) return status;
  for (const Pending& pending : pending_) {
    if (pending.file) sweep_temporaries(pending.file->folder());
  }
  pending_.clear();
  return {};
}

Status FileTransaction::place_files() {
  const HeldSignals held;
  for (auto pending = pending_.begin(); pending != pending_.end(); ++pending) {
    if (!pending->file) continue;
    const Status placed = pending->file->place(pending->target.filename());
    if (placed) continue;
    for (auto earlier = pending_.begin(); earlier != pending; ++earlier) {
      if (earlier->file) earlier->file->take_back();
    }
    return refuse(pending->target, placed.error().message);
  }
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
    return refuse(path, fmt::format("{}: {}", quote(place.string()), error_text(errno)));
  }
  struct stat info{};
  if (*kind == Target::stream || ::stat(place.c_str(), &info) != 0) return {};
  if (!S_ISDIR(info.st_mode)) {
    return refuse(path, fmt::format("{} is not a directory", quote(place.string())));
  }
  if (info.st_nlink == 0) return refuse(path, "the working folder was deleted");
  return {};
}

}  // namespace rnnc
