#include "tests/tools/command_run.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/runtime/temporary_directory.h"

namespace rnnc::test {
namespace {

[[noreturn]] void become_program(const std::filesystem::path& directory,
                                 const std::filesystem::path& streams,
                                 std::vector<std::string> arguments) {
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  ::setenv("RNNC_CACHE_DIR", (directory / "cache").c_str(), 1);
  const int input = ::open((streams / "in").c_str(), O_RDONLY);
  const int output = ::open((streams / "out").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const int errors = ::open((streams / "err").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (::chdir(directory.c_str()) == 0 && ::dup2(input, 0) == 0 && ::dup2(output, 1) == 1 &&
      ::dup2(errors, 2) == 2) {
    ::execv(pointers[0], pointers.data());
  }
  ::_exit(127);
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

}  // namespace

CommandResult run_command(const std::filesystem::path& directory,
                          std::vector<std::string> arguments, const std::string& input) {
  arguments.insert(arguments.begin(), RNNC_BINARY_DIR "/tools/rnnc");
  return run_program(directory, arguments, input);
}

CommandResult run_program(const std::filesystem::path& directory,
                          const std::vector<std::string>& arguments, const std::string& input) {
  const TemporaryDirectory streams;
  streams.write("in", input);
  const pid_t child = ::fork();
  if (child == 0) become_program(directory, streams.path(), arguments);
  int status = 0;
  rusage usage{};
  if (child < 0 || ::wait4(child, &status, 0, &usage) != child) return {};
  CommandResult result;
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  result.output = TemporaryDirectory::read(streams / "out");
  result.errors = TemporaryDirectory::read(streams / "err");
  result.cpu_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  return result;
}

}  // namespace rnnc::test
