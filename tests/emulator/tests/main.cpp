// Programs on the emulated GPU. --seed N: another order of all that a GPU does in any order.
// --multiprocessors N: of the GPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

#include "tests/emulator/emulator.h"

namespace {

constexpr int kSkipped = 77;

/// Every test has the orders of the seed, whichever ran before it. What a program did wrong is a
/// failure of the test that it ran in.
class EveryTest : public testing::EmptyTestEventListener {
 public:
  explicit EveryTest(uint64_t seed) : seed_(seed) {}

 private:
  void OnTestStart(const testing::TestInfo&) override { rnnc::emulator::set_seed(seed_); }
  void OnTestEnd(const testing::TestInfo& test) override {
    for (const std::string& fault : rnnc::emulator::take_faults()) {
      ADD_FAILURE() << test.test_suite_name() << '.' << test.name() << ": " << fault;
    }
  }
  uint64_t seed_;
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  uint64_t seed = 1;
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::string_view(argv[i]) == "--seed") {
      seed = std::strtoull(argv[i + 1], nullptr, 10);
    } else if (std::string_view(argv[i]) == "--multiprocessors") {
      rnnc::emulator::settings().multiprocessors = std::atoi(argv[i + 1]);
    }
  }
  if (const std::string why = rnnc::emulator::missing_compiler(); !why.empty()) {
    fmt::print("SKIPPED: no C++ compiler for the emulated GPU: {}\n", why);
    return kSkipped;
  }
  testing::UnitTest::GetInstance()->listeners().Append(new EveryTest(seed));
  return RUN_ALL_TESTS();
}
