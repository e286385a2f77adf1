/// Compiled kernels on disk. Safe for several processes at once: entries are written to a temporary
/// file and renamed into place. What is read is verified (key text, size, checksum); a damaged
/// entry is removed quietly and counts as absent. Failing to write is no error: the cache is only
/// speed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "ir/status.h"

namespace rnnc {

class KernelCache {
 public:
  /// An empty path makes a cache that holds nothing.
  explicit KernelCache(std::filesystem::path directory);

  /// `key` is text that names everything that matters: source or plan, compiler and its version,
  /// options, target.
  std::optional<std::string> get(std::string_view key) const;
  void put(std::string_view key, std::string_view value) const;
  /// Likewise, for those who want to know why it is not kept.
  Status store(std::string_view key, std::string_view value) const;

  struct Usage {
    int64_t entries = 0;
    int64_t bytes = 0;
  };
  Result<Usage> usage() const;
  /// Removes every entry (only files that this cache wrote). Returns what was removed.
  Result<Usage> clear() const;
  const std::filesystem::path& directory() const { return directory_; }

 private:
  std::filesystem::path directory_;
};

}  // namespace rnnc
