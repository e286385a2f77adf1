/// Reading whole files and writing them whole or not at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "ir/status.h"

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

/// All that comes from an open descriptor, such as standard input's, until it ends; likewise.
/// `name` is used in errors.
Result<std::string> read_descriptor(int descriptor, std::string_view name,
                                    int64_t limit = kAnyLength);

/// Files that appear together: each is written to a temporary file beside its target, and `commit`
/// renames them all into place. What was not committed is removed. A target that is a device or a
/// pipe (/dev/stdout) is written at commit, directly.
class FileTransaction {
 public:
  FileTransaction() = default;
  ~FileTransaction();
  FileTransaction(const FileTransaction&) = delete;
  FileTransaction& operator=(const FileTransaction&) = delete;

  Status add(const std::filesystem::path& path, std::string_view bytes);
  Status commit();

 private:
  struct Pending {
    std::filesystem::path target;
    std::filesystem::path temporary;  // empty: `bytes` go to the target directly
    std::string bytes;
  };
  std::vector<Pending> pending_;
};

/// A transaction of one file.
Status write_file(const std::filesystem::path& path, std::string_view bytes);

/// Whether `write_file` could write there, as far as can be told without writing.
Status check_writable(const std::filesystem::path& path);

}  // namespace rnnc
