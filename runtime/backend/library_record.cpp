// The key is the list of places. The entry is the version, the library's file, and the state of
// that file and of each place: what would be remembered now must be the same.
#include "runtime/backend/library_record.h"

#include <fmt/format.h>
#include <sys/stat.h>

namespace rnnc {
namespace {

std::string key_of(const std::vector<std::string>& places) {
  return fmt::format("version of the first of\n{}", fmt::join(places, "\n"));
}

/// Its bytes, and when it was written and changed. Whatever sets the former, the latter is the
/// system's own.
std::string state_of(const std::string& file) {
  struct stat state = {};
  if (::stat(file.c_str(), &state) != 0) return "none";
  const auto nanoseconds = [](const timespec& time) {
    return fmt::format("{}.{:09}", time.tv_sec, time.tv_nsec);
  };
  return fmt::format("{} {} {}", state.st_size, nanoseconds(state.st_mtim),
                     nanoseconds(state.st_ctim));
}

std::string entry_of(const std::string& version, const std::string& file,
                     const std::vector<std::string>& places) {
  std::string entry = fmt::format("{}\n{}\n{}\n", version, file, state_of(file));
  for (const std::string& place : places) entry += state_of(place) + '\n';
  return entry;
}

}  // namespace

std::optional<std::string> recall_version(const std::vector<std::string>& places,
                                          const KernelCache& cache) {
  if (places.empty()) return std::nullopt;
  const std::optional<std::string> entry = cache.get(key_of(places));
  if (!entry) return std::nullopt;
  const size_t version_end = entry->find('\n');
  if (version_end == std::string::npos) return std::nullopt;
  const size_t file_end = entry->find('\n', version_end + 1);
  if (file_end == std::string::npos) return std::nullopt;
  std::string version = entry->substr(0, version_end);
  const std::string file = entry->substr(version_end + 1, file_end - version_end - 1);
  if (*entry != entry_of(version, file, places)) return std::nullopt;
  return version;
}

void remember_version(const std::string& version, const std::string& file,
                      const std::vector<std::string>& places, const KernelCache& cache) {
  if (places.empty() || state_of(file) == "none") return;
  const std::string key = key_of(places);
  const std::string entry = entry_of(version, file, places);
  if (cache.get(key) != entry) cache.put(key, entry);
}

}  // namespace rnnc
