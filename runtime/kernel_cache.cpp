#include "runtime/kernel_cache.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <cstring>

#include "runtime/describe.h"
#include "runtime/files.h"

namespace rnnc {
namespace {

namespace fs = std::filesystem;

/// An entry file: this head, the key's text, the value. The checksum covers all but magic and
/// itself.
struct Head {
  char magic[8];
  uint64_t key_size;
  uint64_t value_size;
  XXH128_canonical_t checksum;
};
constexpr char kMagic[8] = {'R', 'N', 'N', 'C', 'K', 'E', 'Y', '1'};
static_assert(sizeof(Head) == 40);

constexpr std::string_view kSuffix = ".rnnc";
constexpr size_t kHashDigits = 32;

XXH128_canonical_t checksum(uint64_t key_size, uint64_t value_size, std::string_view body) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(
      &canonical,
      XXH3_128bits_withSeed(body.data(), body.size(), key_size * 0x9e3779b97f4a7c15u + value_size));
  return canonical;
}

/// The key as it is kept: another version of rnnc may make other code from the same text.
std::string full_key(std::string_view key) {
  return fmt::format("rnnc {}\n{}", RNNC_VERSION, key);
}

fs::path entry_path(const fs::path& directory, std::string_view key) {
  const XXH128_hash_t hash = XXH3_128bits(key.data(), key.size());
  return directory / fmt::format("{:016x}{:016x}{}", hash.high64, hash.low64, kSuffix);
}

/// Whether a file of this name is an entry of ours.
bool is_entry_name(std::string_view name) {
  return name.size() == kHashDigits + kSuffix.size() && name.ends_with(kSuffix) &&
         name.find_first_not_of("0123456789abcdef") == kHashDigits;
}

/// Whether a file of this name is what a writer left that was killed.
bool is_temporary_name(std::string_view name) {
  return name.starts_with(".rnnc-") && name.ends_with(".tmp");
}

/// The parts of an entry file, if it is whole.
struct Entry {
  std::string_view key;
  std::string_view value;
};

std::optional<Entry> parse_entry(std::string_view bytes) {
  Head head;
  if (bytes.size() < sizeof head) return std::nullopt;
  std::memcpy(&head, bytes.data(), sizeof head);
  const std::string_view body = bytes.substr(sizeof head);
  if (std::memcmp(head.magic, kMagic, sizeof kMagic) != 0 || head.key_size > body.size() ||
      head.value_size != body.size() - head.key_size) {
    return std::nullopt;
  }
  const XXH128_canonical_t expected = checksum(head.key_size, head.value_size, body);
  if (std::memcmp(&expected, &head.checksum, sizeof expected) != 0) return std::nullopt;
  return Entry{body.substr(0, head.key_size), body.substr(head.key_size)};
}

/// Calls `visit` with each file. A directory that is not there has none.
template <typename Visit>
Status for_each_file(const fs::path& directory, Visit visit) {
  std::error_code error;
  if (directory.empty() || !fs::exists(directory, error)) return {};
  fs::directory_iterator file(directory, error);
  for (; !error && file != fs::directory_iterator(); file.increment(error)) {
    visit(*file, file->path().filename().string());
  }
  if (error) {
    return fail("cannot read cache directory {}: {}", quote(directory.string()), error.message());
  }
  return {};
}

}  // namespace

KernelCache::KernelCache(fs::path directory) : directory_(std::move(directory)) {}

std::optional<std::string> KernelCache::get(std::string_view key) const {
  if (directory_.empty()) return std::nullopt;
  const std::string wanted = full_key(key);
  const fs::path path = entry_path(directory_, wanted);
  const Result<std::string> bytes = read_file(path);
  if (!bytes) return std::nullopt;
  const std::optional<Entry> entry = parse_entry(*bytes);
  if (!entry) {
    std::error_code ignored;
    fs::remove(path, ignored);
    return std::nullopt;
  }
  if (entry->key != wanted) return std::nullopt;  // another key with the same hash
  return std::string(entry->value);
}

void KernelCache::put(std::string_view key, std::string_view value) const {
  // A cache that cannot be written is no error: it is only speed.
  static_cast<void>(store(key, value));
}

Status KernelCache::store(std::string_view key, std::string_view value) const {
  if (directory_.empty()) return fail("there is no cache directory");
  std::error_code error;
  if (fs::create_directories(directory_, error)) {
    // What is kept here is loaded as code: only its owner may write it.
    fs::permissions(directory_, fs::perms::owner_all, error);
  }
  const std::string kept_key = full_key(key);
  Head head{};
  std::memcpy(head.magic, kMagic, sizeof kMagic);
  head.key_size = kept_key.size();
  head.value_size = value.size();
  std::string body = kept_key;
  body += value;
  head.checksum = checksum(head.key_size, head.value_size, body);
  std::string bytes(reinterpret_cast<const char*>(&head), sizeof head);
  bytes += body;
  return write_file(entry_path(directory_, kept_key), bytes);
}

Result<KernelCache::Usage> KernelCache::usage() const {
  Usage usage;
  const auto count = [&](const fs::directory_entry& file, const std::string& name) {
    std::error_code error;
    const auto size = file.file_size(error);
    if (!is_entry_name(name) || error) return;  // another process may have removed it
    ++usage.entries;
    usage.bytes += static_cast<int64_t>(size);
  };
  if (Status status = for_each_file(directory_, count); !status) {
    return tl::unexpected(status.error());
  }
  return usage;
}

Result<KernelCache::Usage> KernelCache::clear() const {
  Usage removed;
  std::string problem;
  const auto remove = [&](const fs::directory_entry& file, const std::string& name) {
    if (!is_entry_name(name) && !is_temporary_name(name)) return;
    std::error_code error;
    const auto size = file.file_size(error);
    if (fs::remove(file.path(), error) && is_entry_name(name)) {
      ++removed.entries;
      removed.bytes += static_cast<int64_t>(size);
    }
    if (error) problem = fmt::format("{}: {}", quote(file.path().string()), error.message());
  };
  if (Status status = for_each_file(directory_, remove); !status) {
    return tl::unexpected(status.error());
  }
  if (!problem.empty()) return fail("cannot remove {}", problem);
  return removed;
}

}  // namespace rnnc
