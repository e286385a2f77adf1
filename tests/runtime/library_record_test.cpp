// What is remembered of a library counts as long as nothing has changed.
#include "runtime/backend/library_record.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/runtime/temporary_directory.h"

namespace rnnc::test {
namespace {

class LibraryRecord : public testing::Test {
 protected:
  LibraryRecord() {
    directory_.write("library", "code");
    directory_.write("list", "library");
    remember_version("13.0", file_, places_, cache_);
  }
  std::optional<std::string> recall() const { return recall_version(places_, cache_); }

  const TemporaryDirectory directory_;
  const std::string file_ = (directory_ / "library").string();
  const std::string first_ = (directory_ / "first").string();
  const std::vector<std::string> places_ = {first_, (directory_ / "list").string()};
  const KernelCache cache_{directory_ / "cache"};
};

TEST_F(LibraryRecord, IsWhatWasRememberedLast) {
  EXPECT_EQ(recall(), "13.0");
  remember_version("13.0", file_, places_, cache_);
  EXPECT_EQ(cache_.usage()->entries, 1);
  remember_version("13.1", file_, places_, cache_);
  EXPECT_EQ(recall(), "13.1");
  EXPECT_EQ(cache_.usage()->entries, 1);
}

TEST_F(LibraryRecord, IsOfOnePath) {
  EXPECT_EQ(recall_version({first_}, cache_), std::nullopt);
  EXPECT_EQ(recall_version({}, cache_), std::nullopt);
  remember_version("13.2", file_, {first_}, cache_);
  EXPECT_EQ(recall_version({first_}, cache_), "13.2");
  EXPECT_EQ(recall(), "13.0");
}

TEST_F(LibraryRecord, EndsWithTheLibrary) {
  directory_.write("library", "more code");
  EXPECT_EQ(recall(), std::nullopt);
  remember_version("13.1", file_, places_, cache_);
  EXPECT_EQ(recall(), "13.1");
  std::filesystem::remove(file_);
  EXPECT_EQ(recall(), std::nullopt);
}

TEST_F(LibraryRecord, EndsWhereItsTimeIsSetBack) {
  const auto written = std::filesystem::last_write_time(file_);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // times come in ticks
  directory_.write("library", "edoc");
  std::filesystem::last_write_time(file_, written);
  EXPECT_EQ(recall(), std::nullopt);
}

TEST_F(LibraryRecord, EndsWhereAnotherMayComeFirst) {
  directory_.write("first", "another");
  EXPECT_EQ(recall(), std::nullopt);
  std::filesystem::remove(first_);
  EXPECT_EQ(recall(), "13.0");
  directory_.write("list", "library, another");
  EXPECT_EQ(recall(), std::nullopt);
}

TEST_F(LibraryRecord, OfWhatIsNotAFileIsNotKept) {
  EXPECT_TRUE(cache_.clear());
  remember_version("13.0", "", places_, cache_);
  remember_version("13.0", first_, places_, cache_);
  remember_version("13.0", file_, {}, cache_);
  EXPECT_EQ(cache_.usage()->entries, 0);
}

TEST_F(LibraryRecord, OfAnyBytesTellsNothing) {
  const std::string key = "version of the first of\n" + places_[0] + "\n" + places_[1];
  const std::string entry = cache_.get(key).value();
  for (size_t size = 0; size < entry.size(); ++size) {
    cache_.put(key, entry.substr(0, size));
    EXPECT_EQ(recall(), std::nullopt) << size;
  }
  cache_.put(key, entry);
  EXPECT_EQ(recall(), "13.0");
}

}  // namespace
}  // namespace rnnc::test
