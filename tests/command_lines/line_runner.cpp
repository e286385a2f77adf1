#include "tests/command_lines/line_runner.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

namespace rnnc::test {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kMostTime(60);

constexpr const char* kToy = R"(cell Toy[I, H](x: [I]) -> h {
  state h: [H]
  param W: [H, I]
  param b: [H]
  h[t] = tanh(W @ x[t] + b + h[t-1])
}
)";
constexpr const char* kTwo = R"(import "toy.rnn"
cell Sum[H](x: [H]) -> (s, y) {
  state s: [H]
  s[t] = s[t-1] + x[t-1]
  y = 2 * s[t]
}
network Both[I = 3, H = 4, L = 2](x: [I]) -> y {
  y = x
  for l in 0..L { y = concat(Toy[H = H](y), reverse Toy[H = H](y)) }
}
)";

int open_file(const fs::path& path, int flags) {
  return ::open(path.c_str(), flags | O_CLOEXEC, 0600);
}

/// UTF-8 without control characters but line ends and tabs.
bool is_safe(const std::string& text) {
  for (size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    const size_t more = c < 0x80 ? 0 : c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : c >= 0xc2 ? 1 : 9;
    if (more > 3 || i + more >= text.size() || (c < ' ' && c != '\n' && c != '\t') || c == 127) {
      return false;
    }
    for (size_t k = 1; k <= more; ++k) {
      if ((static_cast<unsigned char>(text[i + k]) & 0xc0) != 0x80) return false;
    }
    i += more + 1;
  }
  return true;
}

}  // namespace

std::string check(const LineResult& result) {
  const std::string& errors = result.errors;
  if (result.timed_out) return fmt::format("still runs after {} s", kMostTime.count());
  if (result.exit_code < 0) return fmt::format("ended by signal {}", result.signal);
  if (result.exit_code > 2) return fmt::format("exit code {}", result.exit_code);
  for (const char* sanitizer : {"Sanitizer", "runtime error: "}) {
    if (errors.find(sanitizer) != errors.npos) return "a sanitizer's find";
  }
  if (!result.temporary_files.empty()) return "leaves " + result.temporary_files[0];
  if (!is_safe(errors)) return "bytes on standard error that are not safe on a terminal";
  if (errors.find("this is a bug in rnnc") != errors.npos) return "a bug, by its own words";
  if (result.exit_code == 0) return errors.find("error: ") == errors.npos ? "" : "0 with an error";
  if (result.changed_files) return "fails, and yet has changed files";
  // `check --json` tells programs on standard output.
  const bool told = errors.find("error: ") != errors.npos ||
                    result.output.find("\"severity\": \"error\"") != result.output.npos;
  if (!told) return "fails without an error";
  if (result.exit_code == 1) return "";
  const bool usage = errors.starts_with("rnnc: error: ") && errors.ends_with(" --help`\n");
  if (!usage) return "a usage error that does not look like one";
  return result.output.empty() ? "" : "a usage error, and yet there is output";
}

LineRunner::LineRunner(fs::path rnnc) : rnnc_(std::move(rnnc)), folder_(place_ / "folder") {
  fill_folder();
}

void LineRunner::fill_folder() {
  using namespace std::string_literals;
  fs::remove_all(folder_);
  fs::create_directories(folder_ / "below");
  const auto write = [this](const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  };
  write("toy.rnn", kToy);
  write("two.rnn", kTwo);
  write("bad.rnn", "cell Bad[I](x: [I]) -> y {\n  y = x[t] + z\n}\n");
  write("toy.map", "W = transpose(kernel)\nb = bias or zeros\n");
  write("empty", "");
  write("noise", "\x93NUMPY\x01\0\xff\xff{'descr'\x1b[31m\0\0"s);
  fs::create_symlink("toy.rnn", folder_ / "link.rnn");
  if (!files_.empty()) {
    for (const char* made : {"w.safetensors", "x.npy", "n.npy", "s.npz"}) {
      fs::copy_file(place_ / made, folder_ / made);
    }
    return;
  }
  ask({"weights", "toy.rnn", "--dim=I=3", "--dim=H=4", "--random", "-o", "w.safetensors"});
  ask({"inputs", "toy.rnn", "--dim=I=3", "--batch=2", "--steps=5", "--random", "-o", "x=x.npy",
       "--lengths", "n.npy"});
  ask({"run", "toy.rnn", "--weights", "w.safetensors", "--input", "x=x.npy", "--carry-out",
       "s.npz"});
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const std::string name = entry.path().filename();
    files_.push_back(name);
    if (entry.is_regular_file()) fs::copy_file(entry.path(), place_ / name);
  }
  std::ranges::sort(files_);
}

std::map<std::string, std::string> LineRunner::look() const {
  std::map<std::string, std::string> seen;
  for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
    const bool file = entry.is_regular_file();
    seen[entry.path()] = file ? fmt::format("{} {}", entry.file_size(),
                                            entry.last_write_time().time_since_epoch().count())
                              : "";
  }
  return seen;
}

std::string LineRunner::ask(const std::vector<std::string>& words) {
  return run({words, "/dev/null"}).output;
}

LineResult LineRunner::run(const Line& line) {
  const auto before = look();
  std::vector<std::string> words = line.words;
  words.insert(words.begin(), rnnc_.string());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("RNNC_CACHE_DIR", (place_ / "cache").c_str(), 1);
    const bool ready = ::chdir(folder_.c_str()) == 0 &&
                       ::dup2(open_file(line.input, O_RDONLY), 0) == 0 &&
                       ::dup2(open_file(place_ / "out", O_WRONLY | O_CREAT | O_TRUNC), 1) == 1 &&
                       ::dup2(open_file(place_ / "err", O_WRONLY | O_CREAT | O_TRUNC), 2) == 2;
    if (ready) ::execv(pointers[0], pointers.data());
    ::_exit(127);
  }
  LineResult result;
  int status = 0;
  const auto start = std::chrono::steady_clock::now();
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() - start > kMostTime && !result.timed_out) {
      result.timed_out = true;
      ::kill(child, SIGKILL);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  result.output = TemporaryDirectory::read(place_ / "out");
  result.errors = TemporaryDirectory::read(place_ / "err");
  const auto after = look();
  for (const auto& [path, info] : after) {
    if (path.find("/.rnnc-") != path.npos) result.temporary_files.push_back(path);
  }
  result.changed_files = before != after;
  if (result.changed_files && !files_.empty()) fill_folder();
  return result;
}

}  // namespace rnnc::test
