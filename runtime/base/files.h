/// Reading whole files and writing them whole or not at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/status.h"
#include "runtime/base/descriptor.h"

namespace rnnc {

/// What a path may name to be read.
enum class Readable : uint8_t {
  regular_file,          // and nothing else, such as what a .rnn file imports
  regular_file_or_pipe,  // a pipe without a name, too: /dev/stdin, a shell's `<(command)`
};
constexpr int64_t kAnyLength = INT64_MAX;

/// The bytes of a file, of which `limit` are accepted. Directories, devices and named pipes are
/// errors: they are neither opened nor waited for. Sizes are looked at before anything is read, and
/// what has none (a pipe, a file of /proc) gives 1 GiB at most.
Result<std::string> read_file(const std::filesystem::path& path, int64_t limit = kAnyLength,
                              Readable readable = Readable::regular_file_or_pipe);

/// A file that `read_file` reads, open; likewise.
Result<Descriptor> open_file(const std::filesystem::path& path,
                             Readable readable = Readable::regular_file_or_pipe);

/// All that comes from an open descriptor, such as standard input's, until it ends; likewise.
/// `name` is used in errors.
Result<std::string> read_descriptor(int descriptor, std::string_view name,
                                    int64_t limit = kAnyLength);

/// Files that appear together or not at all: each is written to a temporary file beside its target,
/// and `commit` lets all change places with their targets, or none if one cannot. What was not
/// committed is removed, and so is what earlier writers left there that were killed. A kill
/// (SIGKILL, a power cut) in the few microseconds of these changes, and a change that fails on a
/// file system that knows no exchange (NFS), may leave some targets new and others old; each is
/// whole.
///
/// A target that is a device or a pipe (/dev/stdout) is written directly, at commit, before any
/// file appears: what it took cannot be taken back. Limits (`ulimit -f`) and pipes that nobody
/// reads are errors, not signals.
class FileTransaction {
 public:
  FileTransaction();
  ~FileTransaction();
  FileTransaction(const FileTransaction&) = delete;
  FileTransaction& operator=(const FileTransaction&) = delete;

  Status add(const std::filesystem::path& path, std::string_view bytes);
  Status commit();

 private:
  struct Pending;
  Status place_files();
  std::vector<Pending> pending_;
};

/// A transaction of one file.
Status write_file(const std::filesystem::path& path, std::string_view bytes);

/// Whether `write_file` could write there, as far as can be told without writing.
Status check_writable(const std::filesystem::path& path);

}  // namespace rnnc
