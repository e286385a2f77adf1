#include "runtime/backend/kernel_cache.h"

#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "runtime/base/files.h"

#include "tests/runtime/temporary_directory.h"

namespace rnnc {
namespace {

namespace fs = std::filesystem;
using test::TemporaryDirectory;

constexpr uid_t kStranger = 54321;

TEST(KernelCache, GivesBackWhatWasPut) {
  const TemporaryDirectory directory;
  const KernelCache cache(directory / "a" / "b");
  EXPECT_FALSE(cache.get("key"));
  const std::string value("\0code\xff", 6);
  cache.put("key", value);
  cache.put("", "value of the empty key");
  cache.put("empty value", "");
  EXPECT_EQ(cache.get("key"), value);
  EXPECT_EQ(cache.get(""), "value of the empty key");
  EXPECT_EQ(cache.get("empty value"), "");
  EXPECT_FALSE(cache.get("Key"));
  cache.put("key", "newer");
  EXPECT_EQ(cache.get("key"), "newer");
  EXPECT_EQ(cache.usage()->entries, 3);
}

TEST(KernelCache, WithoutADirectoryHoldsNothing) {
  const KernelCache cache("");
  cache.put("key", "value");
  EXPECT_FALSE(cache.get("key"));
  EXPECT_EQ(cache.usage()->entries, 0);
  EXPECT_EQ(cache.clear()->entries, 0);
}

TEST(KernelCache, OnlyItsOwnerMayWriteIt) {
  const TemporaryDirectory directory;
  const KernelCache cache(directory / "cache");
  cache.put("key", "value");
  EXPECT_EQ(fs::status(directory / "cache").permissions(), fs::perms::owner_all);
}

/// The only entry's path.
fs::path entry(const fs::path& directory) {
  return fs::directory_iterator(directory)->path();
}

TEST(KernelCache, EveryDamagedByteIsFoundAndTheEntryRemoved) {
  const TemporaryDirectory directory;
  const KernelCache cache(directory.path());
  const std::string value = "machine code";
  cache.put("key", value);
  const fs::path path = entry(directory.path());
  const std::string whole = TemporaryDirectory::read(path);
  ASSERT_GT(whole.size(), 40 + value.size());
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    std::ofstream(path, std::ios::binary) << damaged;
    EXPECT_FALSE(cache.get("key")) << "byte " << i;
    EXPECT_FALSE(fs::exists(path)) << "byte " << i;
  }
  cache.put("key", value);
  EXPECT_EQ(cache.get("key"), value);
}

TEST(KernelCache, CutAndLengthenedEntriesAreRemoved) {
  const TemporaryDirectory directory;
  const KernelCache cache(directory.path());
  cache.put("key", "value");
  const fs::path path = entry(directory.path());
  const std::string whole = TemporaryDirectory::read(path);
  for (size_t size = 0; size < whole.size(); ++size) {
    std::ofstream(path, std::ios::binary) << whole.substr(0, size);
    EXPECT_FALSE(cache.get("key")) << size;
    EXPECT_FALSE(fs::exists(path)) << size;
  }
  std::ofstream(path, std::ios::binary) << whole << "more";
  EXPECT_FALSE(cache.get("key"));
  EXPECT_FALSE(fs::exists(path));
}

TEST(KernelCache, AnotherKeyOfTheSameHashIsAbsentAndStays) {
  const TemporaryDirectory directory;
  const KernelCache cache(directory.path());
  cache.put("first", "1");
  const fs::path first = entry(directory.path());
  const std::string bytes = TemporaryDirectory::read(first);
  fs::remove(first);
  cache.put("second", "2");
  const fs::path second = entry(directory.path());
  // As if both keys had one hash: a sound entry under the other's name.
  std::ofstream(second, std::ios::binary) << bytes;
  EXPECT_FALSE(cache.get("second"));
  EXPECT_TRUE(fs::exists(second));
  cache.put("second", "2");
  EXPECT_EQ(cache.get("second"), "2");
}

TEST(KernelCache, AnUnwritableDirectoryIsNoError) {
  const TemporaryDirectory directory;
  directory.write("file", "");
  const fs::path place = directory / "file" / "cache";
  const KernelCache cache(place);
  cache.put("key", "value");
  EXPECT_FALSE(cache.get("key"));
  EXPECT_EQ(cache.store("key", "value").error().message,
            fmt::format("cannot write to cache directory `{}`: Not a directory", place.string()));
  EXPECT_EQ(KernelCache("").store("key", "value").error().message, "there is no cache directory");
}

TEST(KernelCache, ClearRemovesOnlyItsOwnFiles) {
  const TemporaryDirectory directory;
  const KernelCache cache(directory.path());
  cache.put("one", "1");
  cache.put("two", "22");
  directory.write("notes.txt", "mine");
  directory.write("0123.rnnc", "not of ours");
  directory.write(".rnnc-1-2-3.tmp", "left by a writer that was killed");
  const int64_t bytes = cache.usage()->bytes;
  EXPECT_EQ(cache.usage()->entries, 2);
  const Result<KernelCache::Usage> removed = cache.clear();
  ASSERT_TRUE(removed);
  EXPECT_EQ(removed->entries, 2);
  EXPECT_EQ(removed->bytes, bytes);
  EXPECT_EQ(directory.list(), (std::vector<std::string>{"0123.rnnc", "notes.txt"}));
  EXPECT_EQ(cache.usage()->entries, 0);
}

// ---- Others ----

std::string problem_of(const KernelCache& cache) {
  const Status status = cache.check();
  return status ? "" : status.error().message;
}

/// Nothing is read, written or removed, and all say why.
void expect_left_alone(const fs::path& directory, const std::string& reason) {
  const KernelCache cache(directory);
  const std::string message =
      "the kernel cache is not used, since its code could be another's: " + reason;
  EXPECT_EQ(problem_of(cache), message);
  EXPECT_FALSE(cache.get("key"));
  EXPECT_EQ(cache.store("other", "value").error().message, message);
  EXPECT_EQ(cache.usage().error().message, message);
  EXPECT_EQ(cache.clear().error().message, message);
  EXPECT_EQ(std::distance(fs::directory_iterator(directory), fs::directory_iterator()), 1);
}

std::string open_folder(const fs::path& place, int mode) {
  return fmt::format(
      "`{}`: others than its owner may write there (mode {:o}): `chmod go-w` mends that",
      place.string(), mode);
}

TEST(KernelCache, AFolderThatOthersMayWriteIsLeftAlone) {
  const TemporaryDirectory directory;
  const fs::path place = directory / "cache";
  const KernelCache cache(place);
  EXPECT_EQ(problem_of(cache), "");
  cache.put("key", "value");
  EXPECT_EQ(problem_of(cache), "");
  for (const mode_t mode : {0770, 0702, 01777}) {
    ASSERT_EQ(::chmod(place.c_str(), mode), 0);
    expect_left_alone(place, open_folder(place, static_cast<int>(mode)));
  }
  ASSERT_EQ(::chmod(place.c_str(), 0755), 0);
  EXPECT_EQ(cache.get("key"), "value");
  // Around it: who may write there can put another folder in its place.
  for (const mode_t mode : {0775, 0703}) {
    ASSERT_EQ(::chmod(directory.path().c_str(), mode), 0);
    expect_left_alone(place, open_folder(directory.path(), static_cast<int>(mode)));
  }
  ASSERT_EQ(::chmod(directory.path().c_str(), 01777), 0);
  EXPECT_EQ(cache.get("key"), "value");
  // A link is what it leads to.
  fs::create_directory_symlink("cache", directory / "link");
  EXPECT_EQ(KernelCache(directory / "link").get("key"), "value");
  ASSERT_EQ(::chmod(place.c_str(), 0777), 0);
  expect_left_alone(directory / "link", open_folder(place, 0777));
}

TEST(KernelCache, WhatAnotherUserOwnsIsLeftAlone) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  const TemporaryDirectory directory;
  const fs::path place = directory / "cache";
  const KernelCache cache(place);
  cache.put("key", "value");
  const fs::path file = entry(place);
  ASSERT_EQ(::chown(file.c_str(), kStranger, kStranger), 0);
  EXPECT_FALSE(cache.get("key"));
  cache.put("key", "remade");
  EXPECT_EQ(cache.get("key"), "remade");
  for (const fs::path& owned : {place, directory.path()}) {
    ASSERT_EQ(::chown(owned.c_str(), kStranger, kStranger), 0);
    expect_left_alone(
        place, fmt::format("`{}`: it belongs to another user (uid {})", owned.string(), kStranger));
    ASSERT_EQ(::chown(owned.c_str(), 0, 0), 0);
  }
  EXPECT_EQ(cache.get("key"), "remade");
}

TEST(KernelCache, EntriesThatAreNoneAreNotOpenedAndRemade) {
  const TemporaryDirectory directory;
  const KernelCache cache(directory.path());
  cache.put("key", "value");
  const fs::path file = entry(directory.path());
  const std::string bytes = TemporaryDirectory::read(file);
  const auto expect_remade = [&] {
    EXPECT_FALSE(cache.get("key"));
    cache.put("key", "value");
    EXPECT_EQ(cache.get("key"), "value");
    EXPECT_EQ(directory.list(), std::vector<std::string>{file.filename().string()});
  };
  ASSERT_EQ(::chmod(file.c_str(), 0620), 0);
  expect_remade();
  fs::remove(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);  // which whoever opens waits for
  expect_remade();
  // A sound entry elsewhere.
  const TemporaryDirectory elsewhere;
  fs::remove(file);
  fs::create_symlink(elsewhere.write("entry", bytes), file);
  expect_remade();
  EXPECT_EQ(TemporaryDirectory::read(elsewhere / "entry"), bytes);
}

// ---- Size ----

/// As if the entries had been used so long ago.
void age(const fs::path& directory, std::chrono::minutes minutes) {
  for (const auto& file : fs::directory_iterator(directory)) {
    fs::last_write_time(file, fs::last_write_time(file) - minutes);
  }
}

TEST(KernelCache, WhatWasNotUsedForLongestGoesFirst) {
  const TemporaryDirectory directory;
  const std::string value(1000, 'x');
  const KernelCache unlimited(directory.path());
  for (const char* key : {"a", "b", "c"}) {
    unlimited.put(key, value);
    age(directory.path(), std::chrono::minutes(10));
  }
  const int64_t three = unlimited.usage()->bytes;
  EXPECT_TRUE(unlimited.get("a"));  // now used again
  const KernelCache cache(directory.path(), three);
  cache.put("d", value);
  EXPECT_TRUE(cache.get("a"));
  EXPECT_FALSE(cache.get("b"));
  EXPECT_TRUE(cache.get("c"));
  EXPECT_TRUE(cache.get("d"));
  EXPECT_EQ(cache.usage()->bytes, three);
  const Result<KernelCache::Usage> removed = cache.trim(three - 1);
  ASSERT_TRUE(removed) << removed.error().message;
  EXPECT_EQ(removed->entries, 1);
  EXPECT_EQ(removed->bytes, three / 3);
  // What is too large for all of it is not worth the others.
  EXPECT_EQ(KernelCache(directory.path(), 1000).store("large", value).error().message,
            fmt::format("an entry of {} bytes is more than the 1000 that the cache may have",
                        three / 3 + 4));
  EXPECT_EQ(cache.usage()->entries, 2);
}

/// A folder that may have 128 entries, of one size.
class KernelCacheOfManyEntries : public ::testing::Test {
 protected:
  KernelCacheOfManyEntries() {
    const KernelCache cache(directory_ / "one");
    cache.put("000", value_);
    entry_bytes_ = cache.usage()->bytes;
    limit_ = 128 * entry_bytes_;
  }
  void put(const KernelCache& cache, int number) const {
    cache.put(fmt::format("{:03}", number), value_);
  }
  int64_t bytes() const { return KernelCache(place_).usage()->bytes; }

  const TemporaryDirectory directory_;
  const fs::path place_ = directory_ / "cache";
  const std::string value_ = std::string(1000, 'x');
  int64_t entry_bytes_ = 0;
  int64_t limit_ = 0;
};

TEST_F(KernelCacheOfManyEntries, HasA64thMoreThanItsLimitAtMost) {
  int64_t most = 0;
  for (int number = 0; number < 300; ++number) {
    put(KernelCache(place_, limit_), number);  // as programs do that come and go
    most = std::max(most, bytes());
  }
  EXPECT_GE(most, limit_);
  EXPECT_LE(most, limit_ + limit_ / 64);
}

TEST_F(KernelCacheOfManyEntries, IsLookedThroughOnceA64thWasStored) {
  const KernelCache cache(place_, limit_);
  put(cache, 0);
  const fs::path left = place_ / ".rnnc-1-2-3.tmp";  // by a writer that was killed
  std::ofstream(left) << "some";
  put(cache, 1);
  EXPECT_TRUE(fs::exists(left));
  put(KernelCache(place_, limit_), 2);
  EXPECT_FALSE(fs::exists(left));
}

TEST_F(KernelCacheOfManyEntries, HasA64thMoreForEachProcessThatWrites) {
  constexpr int kProcesses = 4;
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const KernelCache cache(place_, limit_);
      for (int number = 0; number < 100; ++number) put(cache, process * 100 + number);
      ::_exit(bytes() <= limit_ + kProcesses * (limit_ / 64 + entry_bytes_) ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  EXPECT_GE(bytes(), limit_ / 2);
}

TEST(KernelCache, WhatKilledWritersLeftIsSwept) {
  const TemporaryDirectory directory;
  directory.write(".rnnc-1-2-3.tmp", "left by a writer that was killed");
  directory.write(".rnnc-4-5-6.tmp", "of one that lives");
  const Descriptor living(::open((directory / ".rnnc-4-5-6.tmp").c_str(), O_WRONLY));
  ASSERT_EQ(::flock(living.get(), LOCK_EX), 0);
  fs::create_symlink("nowhere", directory / ".rnnc-7-8-9.tmp");
  const KernelCache cache(directory.path());
  cache.put("key", "value");
  const std::vector<std::string> left = directory.list();
  EXPECT_EQ(left.size(), 3U);
  EXPECT_EQ(left[0], ".rnnc-4-5-6.tmp");
  EXPECT_EQ(left[1], ".rnnc-7-8-9.tmp");
}

TEST(KernelCache, ALimitOfFileSizesIsNoSignal) {
  const TemporaryDirectory directory;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const rlimit limit{1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const KernelCache cache(directory / "cache");
    cache.put("key", std::string(100000, 'x'));
    ::_exit(cache.get("key") ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_TRUE(fs::is_empty(directory / "cache"));
}

TEST(KernelCache, SaysWhatIsNoDirectory) {
  const TemporaryDirectory directory;
  const fs::path file = directory.write("file", "");
  const KernelCache cache(file);
  EXPECT_EQ(cache.usage().error().message,
            "cannot read cache directory `" + file.string() + "`: Not a directory");
}

TEST(KernelCache, ManyProcessesAtOnceSeeWholeEntriesOnly) {
  const TemporaryDirectory directory;
  constexpr int kProcesses = 8;
  constexpr int kRounds = 100;
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const KernelCache cache(directory.path());
      bool good = true;
      for (int round = 0; round < kRounds; ++round) {
        const std::string key = std::to_string(round % 5);
        const std::optional<std::string> value = cache.get(key);
        // All bytes of a value are the same digit: a mixture would show.
        good &= !value || (value->size() == 10000 &&
                           value->find_first_not_of(value->front()) == std::string::npos);
        cache.put(key, std::string(10000, static_cast<char>('0' + process)));
        if (round % 40 == 39) good &= cache.clear().has_value();
      }
      ::_exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  for (const std::string& name : directory.list()) {
    EXPECT_TRUE(name.ends_with(".rnnc")) << name << " was left behind";
  }
}

}  // namespace
}  // namespace rnnc
