#include "runtime/backend/kernel_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <map>
#include <mutex>
#include <vector>

#include "runtime/backend/generator.h"
#include "runtime/base/describe.h"
#include "runtime/base/files.h"
#include "runtime/base/temporary_file.h"

namespace rnnc {
namespace {

namespace fs = std::filesystem;

/// Entries that are used again within so many seconds are not marked as used again.
constexpr int64_t kSecondsOfUse = 60;
/// A folder is looked through again once this part of its limit has been stored.
constexpr int64_t kParts = 64;

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

/// The key as it is kept: another rnnc may make other code from the same text.
std::string full_key(std::string_view key) {
  return fmt::format("rnnc {} {}\n{}", RNNC_VERSION, generator_hash(), key);
}

std::string entry_name(std::string_view key) {
  const XXH128_hash_t hash = XXH3_128bits(key.data(), key.size());
  return fmt::format("{:016x}{:016x}{}", hash.high64, hash.low64, kSuffix);
}

/// Whether a file of this name is an entry of ours.
bool is_entry_name(std::string_view name) {
  return name.size() == kHashDigits + kSuffix.size() && name.ends_with(kSuffix) &&
         name.find_first_not_of("0123456789abcdef") == kHashDigits;
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

// ---- Who may write ----

/// Why others than our user or root could change the file or folder; "": none can. In a sticky
/// folder only the owner of a file can replace it.
std::string find_stranger(const struct stat& info, bool may_be_sticky) {
  if (info.st_uid != 0 && info.st_uid != ::geteuid()) {
    return fmt::format("it belongs to another user (uid {})", info.st_uid);
  }
  const bool is_open = (info.st_mode & (S_IWGRP | S_IWOTH)) != 0;
  if (!is_open || (may_be_sticky && (info.st_mode & S_ISVTX) != 0)) return "";
  return fmt::format("others than its owner may write there (mode {:o}): `chmod go-w` mends that",
                     info.st_mode & 07777);
}

/// Of the folder or one around it, with its name; "": none.
std::string find_stranger(const fs::path& directory) {
  for (fs::path place = directory;; place = place.parent_path()) {
    struct stat info{};
    if (::lstat(place.c_str(), &info) != 0) return "";  // it has just gone
    const std::string stranger = find_stranger(info, place != directory);
    if (!stranger.empty()) return fmt::format("{}: {}", quote(place.string()), stranger);
    if (place == place.parent_path()) return "";
  }
}

// ---- Size ----

/// Counts bytes that this process has stored in the folder. Whether it should now be looked through:
/// after the first entry, and then once each part of the limit. Caches come and go with the programs
/// that use them, so folders are counted by their names.
bool should_look_through(const fs::path& directory, int64_t bytes, int64_t limit) {
  static std::mutex mutex;
  static std::map<std::string, int64_t> stored_since;
  const std::lock_guard lock(mutex);
  const auto [folder, is_first] = stored_since.try_emplace(directory.string(), 0);
  folder->second += bytes;
  if (!is_first && folder->second < limit / kParts) return false;
  folder->second = 0;
  return true;
}

// ---- Entries ----

struct EntryFile {
  std::string name;
  int64_t bytes = 0;
  timespec used = {};
};

Result<std::vector<EntryFile>> list_entries(int folder) {
  const Result<std::vector<std::string>> names = list_folder(folder);
  if (!names) return tl::unexpected(names.error());
  std::vector<EntryFile> entries;
  for (const std::string& name : *names) {
    struct stat info{};
    if (!is_entry_name(name)) continue;
    if (::fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    entries.push_back({name, info.st_size, info.st_mtim});
  }
  return entries;
}

/// An open file with an entry that nobody else can have written; not open if there is none.
Descriptor open_entry(int folder, const std::string& name) {
  struct stat info{};
  const auto is_safe = [&info] {
    return S_ISREG(info.st_mode) && find_stranger(info, false).empty();
  };
  if (::fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 || !is_safe()) {
    return Descriptor(-1);
  }
  // Another file may have the name by now.
  Descriptor file(
      ::openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!file.is_open() || ::fstat(file.get(), &info) != 0 || !is_safe()) return Descriptor(-1);
  if (std::time(nullptr) - info.st_mtim.tv_sec >= kSecondsOfUse) ::futimens(file.get(), nullptr);
  return file;
}

}  // namespace

KernelCache::KernelCache(fs::path directory, int64_t limit)
    : directory_(std::move(directory)), limit_(limit) {}

tl::unexpected<Error> KernelCache::refuse_reading(const Error& error) const {
  return fail("cannot read cache directory {}: {}", quote(directory_.string()), error.message);
}

Result<Descriptor> KernelCache::open() const {
  if (directory_.empty()) return Descriptor(-1);
  std::error_code error;
  const fs::path place = fs::canonical(directory_, error);
  if (error == std::errc::no_such_file_or_directory) return Descriptor(-1);
  if (error) return refuse_reading({error.message()});
  Descriptor folder(::open(place.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder.is_open()) return refuse_reading({error_text(errno)});
  if (const std::string stranger = find_stranger(place); !stranger.empty()) {
    return fail("the kernel cache is not used, since its code could be another's: {}", stranger);
  }
  return folder;
}

Status KernelCache::check() const {
  return open().map([](const Descriptor&) {});
}

std::optional<std::string> KernelCache::get(std::string_view key) const {
  const Result<Descriptor> folder = open();
  if (!folder || !folder->is_open()) return std::nullopt;
  const std::string wanted = full_key(key);
  const std::string name = entry_name(wanted);
  const Descriptor file = open_entry(folder->get(), name);
  if (!file.is_open()) return std::nullopt;
  const Result<std::string> bytes = read_descriptor(file.get(), name);
  if (!bytes) return std::nullopt;
  const std::optional<Entry> entry = parse_entry(*bytes);
  if (!entry) {
    ::unlinkat(folder->get(), name.c_str(), 0);
    return std::nullopt;
  }
  if (entry->key != wanted) return std::nullopt;  // another key with the same hash
  return std::string(entry->value);
}

void KernelCache::put(std::string_view key, std::string_view value) const {
  // A cache that cannot be written is no error: it is only speed.
  static_cast<void>(store(key, value));
}

/// What is missing of the path, for its owner alone.
Status KernelCache::make_folder() const {
  fs::path made;
  std::error_code error;
  for (const fs::path& part : fs::absolute(directory_, error)) {
    made /= part;
    if (::mkdir(made.c_str(), 0700) == 0 || errno == EEXIST) continue;
    const int reason = errno;
    if (!fs::is_directory(made, error)) return fail("{}", error_text(reason));
  }
  if (error) return fail("{}", error.message());
  return {};
}

Status KernelCache::store(std::string_view key, std::string_view value) const {
  if (directory_.empty()) return fail("there is no cache directory");
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
  if (std::ssize(bytes) > limit_) {
    return fail("an entry of {} bytes is more than the {} that the cache may have", bytes.size(),
                limit_);
  }

  const auto refuse = [this](const Error& error) {
    return fail("cannot write to cache directory {}: {}", quote(directory_.string()),
                error.message);
  };
  if (Status made = make_folder(); !made) return refuse(made.error());
  Result<Descriptor> folder = open();
  if (!folder) return tl::unexpected(folder.error());
  Result<TemporaryFile> file = TemporaryFile::create(*std::move(folder), 0600);
  if (!file) return refuse(file.error());
  const Status written =
      write_all(file->get(), bytes).and_then([&] { return file->replace(entry_name(kept_key)); });
  if (!written) return refuse(written.error());
  if (should_look_through(directory_, std::ssize(bytes), limit_)) static_cast<void>(trim(limit_));
  return {};
}

Result<KernelCache::Usage> KernelCache::usage() const {
  Usage usage;
  const Result<Descriptor> folder = open();
  if (!folder) return tl::unexpected(folder.error());
  if (!folder->is_open()) return usage;
  const Result<std::vector<EntryFile>> entries = list_entries(folder->get());
  if (!entries) return refuse_reading(entries.error());
  for (const EntryFile& entry : *entries) {
    ++usage.entries;
    usage.bytes += entry.bytes;
  }
  return usage;
}

Result<KernelCache::Usage> KernelCache::clear() const {
  return trim(-1);
}

Result<KernelCache::Usage> KernelCache::trim(int64_t bytes) const {
  Usage removed;
  const Result<Descriptor> folder = open();
  if (!folder) return tl::unexpected(folder.error());
  if (!folder->is_open()) return removed;
  sweep_temporaries(folder->get());
  Result<std::vector<EntryFile>> entries = list_entries(folder->get());
  if (!entries) return refuse_reading(entries.error());
  int64_t left = 0;
  for (const EntryFile& entry : *entries) left += entry.bytes;
  std::ranges::sort(*entries, [](const EntryFile& a, const EntryFile& b) {
    return std::pair(a.used.tv_sec, a.used.tv_nsec) < std::pair(b.used.tv_sec, b.used.tv_nsec);
  });
  for (const EntryFile& entry : *entries) {
    if (left <= bytes) break;
    left -= entry.bytes;
    if (::unlinkat(folder->get(), entry.name.c_str(), 0) == 0) {
      ++removed.entries;
      removed.bytes += entry.bytes;
    } else if (errno != ENOENT) {  // else another process was faster
      return fail("cannot remove {}: {}", quote((directory_ / entry.name).string()),
                  error_text(errno));
    }
  }
  return removed;
}

}  // namespace rnnc
