#include "runtime/files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "runtime/describe.h"
#include "runtime/host_memory.h"
#include "tests/runtime/temporary_directory.h"

namespace rnnc {
namespace {

namespace fs = std::filesystem;
using test::TemporaryDirectory;

TEST(Files, ReadsFilesAndPipes) {
  const TemporaryDirectory directory;
  EXPECT_EQ(*read_file(directory.write("empty", "")), "");
  const std::string bytes = std::string(100000, 'x') + '\0' + "end";
  EXPECT_EQ(*read_file(directory.write("long", bytes)), bytes);
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const pid_t writer = ::fork();
  ASSERT_GE(writer, 0);
  if (writer == 0) {
    ::usleep(20000);  // so that the reader has to wait
    ::_exit(::write(pipe[1], bytes.data(), bytes.size()) == std::ssize(bytes) ? 0 : 1);
  }
  ::close(pipe[1]);
  EXPECT_EQ(*read_file(fmt::format("/dev/fd/{}", pipe[0])), bytes);
  ::waitpid(writer, nullptr, 0);
  ::close(pipe[0]);
}

TEST(Files, WaitsForNothingThatMightNeverEnd) {
  const TemporaryDirectory directory;
  const fs::path fifo = directory / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const auto problem = [](const fs::path& path, Readable readable) {
    const Result<std::string> bytes = read_file(path, kAnyLength, readable);
    EXPECT_FALSE(bytes);
    return bytes ? "" : bytes.error().message;
  };
  EXPECT_EQ(problem(fifo, Readable::regular_file_or_pipe),
            "cannot read `" + fifo.string() + "`: it is a named pipe, which might never end");
  EXPECT_EQ(problem(fifo, Readable::regular_file),
            "cannot read `" + fifo.string() + "`: it is a pipe, not a file");
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const std::string unnamed = fmt::format("/dev/fd/{}", pipe[0]);
  EXPECT_EQ(problem(unnamed, Readable::regular_file),
            "cannot read `" + unnamed + "`: it is a pipe, not a file");
  ::close(pipe[0]);
  ::close(pipe[1]);
  EXPECT_EQ(problem("/dev/zero", Readable::regular_file_or_pipe),
            "cannot read `/dev/zero`: it is not a regular file");
  EXPECT_EQ(problem(directory.path(), Readable::regular_file),
            "cannot read `" + directory.path().string() + "`: it is a directory");
}

TEST(Files, ReadsNoMoreThanItsLimit) {
  const TemporaryDirectory directory;
  const fs::path file = directory.write("file", "12345");
  EXPECT_EQ(*read_file(file, 5), "12345");
  EXPECT_EQ(
      read_file(file, 4).error().message,
      "cannot read `" + file.string() + "`: it has 5 bytes, and 4 are the most that it may have");
  // Pipes say nothing of their size, and this one does not end.
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  ASSERT_EQ(::write(pipe[1], "12345", 5), 5);
  EXPECT_EQ(read_descriptor(pipe[0], "stdin", 4).error().message,
            "cannot read `stdin`: more than 4 bytes come, the most that it may have");
  ::close(pipe[0]);
  ::close(pipe[1]);
}

TEST(Files, ClaimedSizesFillNoMemory) {
  const TemporaryDirectory directory;
  const fs::path sparse = directory.write("sparse", "");
  std::error_code error;
  fs::resize_file(sparse, uintmax_t{1} << 42, error);
  if (error) GTEST_SKIP() << "no sparse files of this size here";
  EXPECT_EQ(read_file(sparse).error().message,
            "cannot read `" + sparse.string() + "`: its 4398046511104 bytes do not fit in memory");
}

TEST(Files, WritesWholeFiles) {
  const TemporaryDirectory directory;
  ASSERT_TRUE(write_file(directory / "new", "first"));
  EXPECT_EQ(TemporaryDirectory::read(directory / "new"), "first");
  ASSERT_TRUE(write_file(directory / "new", "second"));
  EXPECT_EQ(TemporaryDirectory::read(directory / "new"), "second");
  EXPECT_EQ(directory.list(), (std::vector<std::string>{"new"}));
}

TEST(Files, KeepsPermissionsAndLinks) {
  const TemporaryDirectory directory;
  const fs::path target = directory.write("target", "old");
  fs::permissions(target, fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("target", directory / "link");
  ASSERT_TRUE(write_file(directory / "link", "new"));
  EXPECT_TRUE(fs::is_symlink(directory / "link"));
  EXPECT_EQ(TemporaryDirectory::read(target), "new");
  EXPECT_EQ(fs::status(target).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST(Files, DevicesAreWrittenNotReplaced) {
  ASSERT_TRUE(check_writable("/dev/null"));
  ASSERT_TRUE(write_file("/dev/null", "x"));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_EQ(write_file("/dev/full", "x").error().message,
            "cannot write `/dev/full`: No space left on device");
}

TEST(Files, SaysWhatCannotBeWritten) {
  const TemporaryDirectory directory;
  const std::string place = directory.path().string();
  directory.write("file", "");
  const auto both = [](const fs::path& path) {
    const Status checked = check_writable(path);
    const Status written = write_file(path, "x");
    EXPECT_FALSE(written);
    EXPECT_FALSE(checked);
    return checked ? "" : checked.error().message;
  };
  EXPECT_EQ(both(""), "cannot write: the path is empty");
  EXPECT_EQ(both(directory.path()), "cannot write `" + place + "`: it is a directory");
  EXPECT_EQ(both(place + "/new/"), "cannot write `" + place + "/new/`: it names a directory");
  EXPECT_EQ(both(place + "/no/file"),
            "cannot write `" + place + "/no/file`: `" + place + "/no`: No such file or directory");
  EXPECT_EQ(both(place + "/file/x"), "cannot write `" + place + "/file/x`: Not a directory");
  const std::string long_name(300, 'x');
  EXPECT_NE(both(directory / long_name).find("File name too long"), std::string::npos);
  EXPECT_EQ(directory.list(), (std::vector<std::string>{"file"}));
}

TEST(Files, ATransactionShowsAllFilesOrNone) {
  const TemporaryDirectory directory;
  const fs::path kept = directory.write("kept", "old");
  {
    FileTransaction files;
    ASSERT_TRUE(files.add(kept, "new"));
    ASSERT_TRUE(files.add(directory / "other", "new"));
    EXPECT_FALSE(files.add(directory / "no" / "place", "new"));
    EXPECT_EQ(TemporaryDirectory::read(kept), "old");
  }
  EXPECT_EQ(directory.list(), (std::vector<std::string>{"kept"}));
  EXPECT_EQ(TemporaryDirectory::read(kept), "old");
  FileTransaction files;
  ASSERT_TRUE(files.add(kept, "new"));
  ASSERT_TRUE(files.add(directory / "other", "new"));
  ASSERT_TRUE(files.commit());
  EXPECT_EQ(directory.list(), (std::vector<std::string>{"kept", "other"}));
  EXPECT_EQ(TemporaryDirectory::read(kept), "new");
}

TEST(Files, AFullDiskLeavesNothingHalfWritten) {
  const TemporaryDirectory directory;
  const fs::path path = directory.write("kept", "old");
  // In a process of its own, whose files may not grow beyond 1000 bytes.
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const rlimit limit{1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    std::signal(SIGXFSZ, SIG_IGN);
    const Status status = write_file(path, std::string(100000, 'x'));
    ::_exit(!status && status.error().message.ends_with(": File too large") ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(directory.list(), (std::vector<std::string>{"kept"}));
  EXPECT_EQ(TemporaryDirectory::read(path), "old");
}

TEST(HostMemory, RefusesWhatCannotFit) {
  EXPECT_GT(host_memory(), 0);
  EXPECT_TRUE(check_host_memory("this takes", host_memory()));
  const std::string text = check_host_memory("this takes", int64_t{1} << 60).error().message;
  EXPECT_EQ(text.find("not enough memory: this takes 1073741824.0 GiB, and there are "), 0U)
      << text;
}

TEST(Describe, QuotesAreSafeOnATerminal) {
  EXPECT_EQ(quote("W_i"), "`W_i`");
  EXPECT_EQ(quote("größe ∂"), "`größe ∂`");
  EXPECT_EQ(quote("\x1b[31mred\n"), "`\\x1b[31mred\\x0a`");
  EXPECT_EQ(quote("\xc2\x9b"), "`\\xc2\\x9b`");
  EXPECT_EQ(quote("\xff\xc3"), "`\\xff\\xc3`");
  EXPECT_EQ(quote(std::string(1000, 'x')), "`" + std::string(120, 'x') + "...`");
}

TEST(Describe, CountsElementsWithoutOverflow) {
  EXPECT_EQ(count_elements({}), 1);
  EXPECT_EQ(count_elements({2, 3}), 6);
  EXPECT_EQ(count_elements({2, 0}), 0);
  EXPECT_EQ(count_elements({-1}), std::nullopt);
  EXPECT_EQ(count_elements({INT64_MAX}), std::nullopt);
  EXPECT_EQ(count_elements({int64_t{1} << 40, int64_t{1} << 40}), std::nullopt);
  EXPECT_EQ(count_elements({0, int64_t{1} << 40, int64_t{1} << 40}), std::nullopt);
}

}  // namespace
}  // namespace rnnc
