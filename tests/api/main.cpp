// Calls the public API with what no caller should give (README.md).
//
//     rnnc_test_api [--from SEED] [--count N] [--seconds S]
//
// Stops with the first seed that fails, or in which something throws.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>

#include "tests/api/calls.h"
#include "tests/runtime/temporary_directory.h"

namespace rnnc::test {
namespace {

Status check_seed(uint64_t seed, const std::filesystem::path& folder) {
  Random random(seed);
  try {
    return make_program_calls(random, folder).and_then([&] {
      return make_other_calls(random, folder);
    });
  } catch (const std::exception& exception) {
    return fail("a call throws: {}", exception.what());
  }
}

int run(uint64_t from, uint64_t count, double seconds) {
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const TemporaryDirectory directory;
  uint64_t done = 0;
  for (; done < count && elapsed() < seconds; ++done) {
    // Where a sanitizer ends the process, its report follows this.
    fmt::print(stderr, "seed {}\r", from + done);
    if (Status status = check_seed(from + done, directory.path()); !status) {
      fmt::print(stderr, " failed: {}\n", status.error().message);
      return 1;
    }
  }
  fmt::print(stderr, "\n");
  fmt::print("{} scenarios from seed {} ({:.0f} s)\n", done, from, elapsed());
  return done > 0 ? 0 : 1;
}

}  // namespace
}  // namespace rnnc::test

int main(int argc, char** argv) {
  uint64_t from = 1;
  uint64_t count = UINT64_MAX;
  double seconds = 1e9;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view flag = argv[i];
    if (flag == "--from") from = std::strtoull(argv[i + 1], nullptr, 10);
    if (flag == "--count") count = std::strtoull(argv[i + 1], nullptr, 10);
    if (flag == "--seconds") seconds = std::strtod(argv[i + 1], nullptr);
  }
  return rnnc::test::run(from, count, seconds);
}
