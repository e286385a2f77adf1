#include "runtime/base/files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <functional>

#include "runtime/base/describe.h"
#include "runtime/base/host_memory.h"
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
  EXPECT_EQ(read_file(file, 4).error().message,
            fmt::format("cannot read `{}`: it has 5 bytes, and 4 are the most that it may have",
                        file.string()));
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

TEST(Files, ATransactionThatCannotEndChangesNothing) {
  const TemporaryDirectory directory;
  const fs::path kept = directory.write("kept", "old");
  // The last of them becomes a folder meanwhile.
  {
    FileTransaction files;
    ASSERT_TRUE(files.add(kept, "new"));
    ASSERT_TRUE(files.add(directory / "other", "new"));
    ASSERT_TRUE(files.add(directory / "last", "new"));
    fs::create_directory(directory / "last");
    EXPECT_EQ(files.commit().error().message,
              "cannot write `" + (directory / "last").string() + "`: Is a directory");
  }
  EXPECT_EQ(directory.list(), (std::vector<std::string>{"kept", "last"}));
  EXPECT_EQ(TemporaryDirectory::read(kept), "old");
}

TEST(Files, DevicesAreWrittenBeforeAnyFileAppears) {
  const TemporaryDirectory directory;
  const fs::path kept = directory.write("kept", "old");
  for (const auto& [first, second] : {std::pair<fs::path, fs::path>(kept, "/dev/full"),
                                      std::pair<fs::path, fs::path>("/dev/full", kept)}) {
    FileTransaction files;
    ASSERT_TRUE(files.add(first, "new"));
    ASSERT_TRUE(files.add(second, "new"));
    EXPECT_EQ(files.commit().error().message, "cannot write `/dev/full`: No space left on device");
    EXPECT_EQ(TemporaryDirectory::read(kept), "old");
  }
  EXPECT_EQ(directory.list(), std::vector<std::string>{"kept"});
}

TEST(Files, SweepsWhatKilledWritersLeft) {
  const TemporaryDirectory directory;
  // A process that is killed amid a transaction.
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    FileTransaction files;
    static_cast<void>(files.add(directory / "a", "new"));
    static_cast<void>(files.add(directory / "b", "new"));
    std::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(directory.list().size(), 2U);
  FileTransaction living;
  ASSERT_TRUE(living.add(directory / "c", "new"));
  ASSERT_TRUE(write_file(directory / "a", "new"));
  EXPECT_EQ(directory.list().size(), 2U);  // `a`, and what will be `c`
  ASSERT_TRUE(living.commit());
  EXPECT_EQ(directory.list(), (std::vector<std::string>{"a", "c"}));
}

/// What `work` says in a process of its own, where it must end by itself.
void expect_in_a_process(const std::function<bool()>& work) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(work() ? 0 : 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(Files, AFullDiskLeavesNothingHalfWritten) {
  const TemporaryDirectory directory;
  const fs::path path = directory.write("kept", "old");
  // Files may not grow beyond 1000 bytes; the signal that comes with that is not ours to die of.
  expect_in_a_process([&] {
    const rlimit limit{1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const Status status = write_file(path, std::string(100000, 'x'));
    sigset_t pending;
    return !status && status.error().message.ends_with(": File too large") &&
           ::sigpending(&pending) == 0 && ::sigismember(&pending, SIGXFSZ) == 0;
  });
  EXPECT_EQ(directory.list(), (std::vector<std::string>{"kept"}));
  EXPECT_EQ(TemporaryDirectory::read(path), "old");
}

TEST(Files, APipeThatNobodyReadsIsAnError) {
  const TemporaryDirectory directory;
  expect_in_a_process([&] {
    int ends[2];
    if (::pipe(ends) != 0) return false;
    ::close(ends[0]);
    const Status status = write_file(fmt::format("/proc/self/fd/{}", ends[1]), "x");
    return !status && status.error().message.ends_with(": Broken pipe");
  });
}

TEST(Files, AFolderThatIsGoneIsSaid) {
  const TemporaryDirectory directory;
  const fs::path gone = directory / "gone";
  fs::create_directory(gone);
  expect_in_a_process([&] {
    if (::chdir(gone.c_str()) != 0 || ::rmdir(gone.c_str()) != 0) return false;
    return check_writable("file").error().message ==
               "cannot write `file`: the working folder was deleted" &&
           write_file("file", "x").error().message ==
               "cannot write `file`: No such file or directory";
  });
}

TEST(HostMemory, RefusesWhatCannotFit) {
  EXPECT_GT(host_memory(), 0);
  EXPECT_TRUE(check_host_memory("this takes", static_cast<double>(host_memory())));
  const std::string text = check_host_memory("this takes", 0x1p60).error().message;
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
