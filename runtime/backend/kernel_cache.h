/// Compiled kernels on disk. Safe for several processes at once: entries are written to a temporary
/// file and renamed into place. What is read is verified (key text, size, checksum); a damaged
/// entry is removed quietly and counts as absent. Failing to write is no error: the cache is only
/// speed.
///
/// Entries are loaded as code. So the folder must be our user's or root's and writable by nobody
/// else, the folders around it too (or sticky, as /tmp is), as ssh wants it of its keys; else the
/// cache holds nothing, and `check` says why. Of what lies in it, only regular files of the same
/// kind are opened, never links, pipes or devices.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "ir/base/status.h"
#include "runtime/backend/options.h"
#include "runtime/base/descriptor.h"

namespace rnnc {

class KernelCache {
 public:
  /// An empty path makes a cache that holds nothing. `limit`: bytes that it may have; what was not
  /// used for longest goes first. A process looks through the folder when it first stores something
  /// and then each time it has stored a 64th of the limit. So while n processes write, the folder
  /// has at most n 64ths and n entries more.
  explicit KernelCache(std::filesystem::path directory, int64_t limit = kDefaultCacheLimit);

  /// `key` is text that names everything that matters: source or plan, compiler and its version,
  /// options, target. Another rnnc, or one built from other sources, has keys of its own.
  std::optional<std::string> get(std::string_view key) const;
  void put(std::string_view key, std::string_view value) const;
  /// Likewise, for those who want to know why it is not kept.
  Status store(std::string_view key, std::string_view value) const;

  /// Why the folder is left alone; no error where there is none yet.
  Status check() const;

  struct Usage {
    int64_t entries = 0;
    int64_t bytes = 0;
  };
  Result<Usage> usage() const;
  /// Removes every entry (only files that this cache wrote). Returns what was removed.
  Result<Usage> clear() const;
  /// Removes those entries that were not used for longest until at most `bytes` are left, and what
  /// killed writers left behind. Likewise.
  Result<Usage> trim(int64_t bytes) const;

  const std::filesystem::path& directory() const { return directory_; }
  int64_t limit() const { return limit_; }

 private:
  /// The folder, checked; not open if there is none.
  Result<Descriptor> open() const;
  Status make_folder() const;
  tl::unexpected<Error> refuse_reading(const Error& error) const;

  std::filesystem::path directory_;
  int64_t limit_;
};

}  // namespace rnnc
