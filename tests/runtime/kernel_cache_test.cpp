#include "runtime/kernel_cache.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/runtime/temporary_directory.h"

namespace rnnc {
namespace {

namespace fs = std::filesystem;
using test::TemporaryDirectory;

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
  const KernelCache cache(directory / "file" / "cache");
  cache.put("key", "value");
  EXPECT_FALSE(cache.get("key"));
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
