// What stands between a caller and the library.
#include "runtime/base/call.h"

#include <gtest/gtest.h>

#include <vector>

namespace rnnc {
namespace {

TEST(Call, ExceptionsOfMemoryAreErrors) {
  const auto message_of = [](const auto& work) {
    return without_exceptions("run", "Toy", work).error().message;
  };
  EXPECT_EQ(message_of([]() -> Status { throw std::bad_alloc(); }),
            "not enough memory to run `Toy`");
  EXPECT_EQ(message_of([]() -> Status {
              const std::vector<char> larger_than_any(std::vector<char>().max_size() + 1);
              return {};
            }),
            "not enough memory to run `Toy`");
  EXPECT_EQ(message_of([]() -> Status { return fail("an error of its own"); }),
            "an error of its own");
}

TEST(Call, OverlappingOnesAreRefused) {
  CallState calls;
  const auto idle = []() -> Status { return {}; };
  Status inner;
  EXPECT_TRUE(call_alone(calls, "run", "Toy", [&]() -> Status {
    inner = call_alone(calls, "prepare", "Toy", idle);
    return {};
  }));
  EXPECT_EQ(inner.error().message, "cannot prepare `Toy` while another call of it is running");
  // It ends with the call, however that ends.
  EXPECT_FALSE(call_alone(calls, "run", "Toy", []() -> Status { throw std::bad_alloc(); }));
  EXPECT_TRUE(call_alone(calls, "run", "Toy", idle));
}

TEST(Call, BugsAreErrorsAndTheLastCalls) {
  CallState calls;
  const auto idle = []() -> Status { return {}; };
  const Status met = call_alone(calls, "run", "Toy", []() -> Status {
    RNNC_CHECK(1 > 2, "numbers");
    return {};
  });
  EXPECT_TRUE(met.error().message.starts_with("this is a bug in rnnc: runtime/call_test.cpp:"))
      << met.error().message;
  EXPECT_EQ(met.error().kind, ErrorKind::Internal);
  EXPECT_EQ(call_alone(calls, "run", "Toy", idle).error().message,
            "cannot run `Toy` any more: a call before met a bug in rnnc");
}

}  // namespace
}  // namespace rnnc
