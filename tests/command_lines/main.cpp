// Random command lines: README.md beside this file.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>

#include "tests/command_lines/line_runner.h"
#include "tests/command_lines/line_writer.h"

namespace rnnc::test {
namespace {

/// Prints a line as a shell takes it.
std::string shell_text(const std::vector<std::string>& words) {
  std::string text = "rnnc";
  for (const std::string& word : words) {
    text += " $'";
    for (const unsigned char c : word) {
      const bool plain = c >= ' ' && c < 127 && c != '\'' && c != '\\';
      text += plain ? std::string(1, static_cast<char>(c)) : fmt::format("\\x{:02x}", c);
    }
    text += "'";
  }
  return text;
}

struct Options {
  uint64_t from = 1;
  uint64_t count = UINT64_MAX;
  double seconds = 1e9;
  bool show = false;
};

int run(const Options& options) {
  constexpr const char* kProgram = RNNC_BINARY_DIR "/tools/rnnc";
  if (!std::filesystem::exists(kProgram)) {
    fmt::print(stderr, "there is no {}\n", kProgram);
    return 2;
  }
  LineRunner runner(kProgram);
  LineWriter writer(runner);
  const auto start = std::chrono::steady_clock::now();
  std::array<uint64_t, 3> exits = {};
  uint64_t done = 0;
  for (; done < options.count; ++done) {
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    if (taken.count() > options.seconds) break;
    const uint64_t seed = options.from + done;
    const Line line = writer.write(seed);
    if (options.show) {
      fmt::print("{} < {}\n", shell_text(line.words), line.input);
      continue;
    }
    const LineResult result = runner.run(line);
    const std::string problem = check(result);
    if (problem.empty()) {
      ++exits[static_cast<size_t>(result.exit_code)];
      continue;
    }
    fmt::print("seed {}: {} < {}\n{}\n{}{}\n", seed, shell_text(line.words), line.input, problem,
               result.output.substr(0, 2000), result.errors.substr(0, 4000));
    return 1;
  }
  fmt::print("{} command lines; by exit code {}\n", done, fmt::join(exits, ", "));
  return 0;
}

}  // namespace
}  // namespace rnnc::test

int main(int argc, char** argv) {
  rnnc::test::Options options;
  CLI::App app("Runs rnnc with random command lines.");
  uint64_t shown = 0;
  app.add_option("--from", options.from, "The first seed")->capture_default_str();
  app.add_option("--count", options.count, "How many seeds");
  app.add_option("--seconds", options.seconds, "How long at most");
  CLI::Option* show = app.add_option("--show", shown, "Only print the command line of this seed");
  CLI11_PARSE(app, argc, argv);
  if (show->count() > 0) options = {.from = shown, .count = 1, .show = true};
  return rnnc::test::run(options);
}
