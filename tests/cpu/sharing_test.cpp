// When threads that wait for one another at every step are worth it.
#include <gtest/gtest.h>

#include "runtime/cpu/step_stage.h"

namespace rnnc::test {
using cpu::Sharing;

namespace {

/// Times that it is off, if one thread takes so many nanoseconds a step.
int times_off(Sharing& sharing, double nanoseconds) {
  int times = 0;
  for (; sharing.is_off(); ++times) sharing.alone(nanoseconds);
  return times;
}

TEST(Sharing, GoesOnWhileThreadsAreInTime) {
  Sharing sharing;
  for (const int64_t late : {0, 1, 8}) {
    sharing.shared(64, late, 1e9);
    EXPECT_FALSE(sharing.is_off()) << late;
  }
}

TEST(Sharing, IsTriedAgainMoreRarelyTheOftenerItFails) {
  Sharing sharing;
  for (const int times : {4, 8, 16, 32, 64, 128, 256, 512, 1024, 1024}) {
    sharing.shared(64, 9, 1000);
    EXPECT_EQ(times_off(sharing, 500), times);
  }
  sharing.shared(64, 0, 1000);
  sharing.shared(64, 64, 1000);
  EXPECT_EQ(times_off(sharing, 500), 4) << "it had gone well in between";
}

TEST(Sharing, GoesOnWhereOneThreadIsSlowerStill) {
  Sharing sharing;
  sharing.shared(64, 64, 1000);
  EXPECT_EQ(times_off(sharing, 1001), 1);
  sharing.shared(64, 64, 1000);
  EXPECT_FALSE(sharing.is_off()) << "what one thread takes is known";
  sharing.shared(64, 64, 2000);
  EXPECT_TRUE(sharing.is_off()) << "threads are slower than one now";
}

TEST(Sharing, GoesOnAfterAnAccident) {
  Sharing sharing;
  sharing.shared(64, 64, 100);
  EXPECT_EQ(times_off(sharing, 300), 1);
  sharing.shared(64, 0, 100);
  sharing.shared(64, 64, 800);
  EXPECT_FALSE(sharing.is_off());
  sharing.shared(64, 64, 800);
  EXPECT_TRUE(sharing.is_off()) << "it was no accident";
}

}  // namespace
}  // namespace rnnc::test
