/// Reading whole files and writing them whole or not at all.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "ir/status.h"

namespace rnnc {

/// The bytes of a regular file or a pipe.
Result<std::string> read_file(const std::filesystem::path& path);

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
