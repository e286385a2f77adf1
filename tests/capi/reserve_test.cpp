// Bounds of reserves that are not prepared yet, and shapes that are forgotten.
#include <algorithm>

#include "tests/capi/handles.h"

namespace rnnc::test {
namespace {

constexpr int64_t kSizes[] = {1, 3, 7, 33, 300};

rnnc_reserve_bound bound_of(rnnc_program* program, const rnnc_shape& shape) {
  rnnc_reserve_bound bound = {};
  bound.struct_size = sizeof bound;
  EXPECT_EQ(rnnc_program_reserve_bound(program, &shape, &bound), RNNC_OK) << rnnc_last_error();
  return bound;
}

size_t at(const rnnc_reserve_bound& bound, int64_t batch, int64_t steps) {
  const auto sequences = static_cast<size_t>(batch), length = static_cast<size_t>(steps);
  return bound.fixed + bound.per_step * length + bound.per_sequence * sequences +
         bound.per_row * length * sequences;
}

size_t reserve_of(rnnc_program* program, const rnnc_shape& shape) {
  rnnc_sizes sizes = {};
  sizes.struct_size = sizeof sizes;
  EXPECT_EQ(rnnc_program_sizes(program, &shape, &sizes), RNNC_OK) << rnnc_last_error();
  return sizes.reserve;
}

/// Every cell at every batch size, each time with other options; all lengths up to the prepared one.
TEST(CApiReserve, StaysWithinItsBound) {
  int variant = 0;
  for (const char* name :
       {"elman", "lstm", "gru", "peephole_lstm", "layernorm_lstm", "mgu", "minlstm", "lmu", "rhn",
        "sru", "qrnn", "slstm", "stacked_lstm", "bidirectional_gru"}) {
    const Owned<rnnc_program> program = compile(shipped(name).get(), 3);
    int32_t streams = 0;
    ASSERT_EQ(rnnc_program_streams(program.get(), &streams), RNNC_OK);
    for (const int64_t batch : kSizes) {
      rnnc_shape shape = shape_of(batch, 0, true);
      shape.residuals = static_cast<rnnc_residuals>(variant % 3);
      shape.lengths = variant / 3 % 2;
      shape.resets = variant / 2 % 2;
      shape.outputs = variant / 5 % 2;
      constexpr int64_t kCheckpoints[] = {0, 1, 0, 8, 0, 50, 1000};
      shape.checkpoint = streams != 0 ? kCheckpoints[variant % std::size(kCheckpoints)] : 0;
      ++variant;
      const rnnc_reserve_bound bound = bound_of(program.get(), shape);
      shape.steps = 300;
      ASSERT_EQ(rnnc_program_prepare(program.get(), &shape), RNNC_OK) << rnnc_last_error();
      for (const int64_t steps : kSizes) {
        shape.steps = steps;
        const size_t bytes = reserve_of(program.get(), shape);
        EXPECT_LE(bytes, at(bound, batch, steps)) << name << ", batch " << batch << ", " << steps
                                                  << " steps, checkpoint " << shape.checkpoint;
        if (shape.checkpoint == 0) {
          EXPECT_GE(bytes + bound.fixed, at(bound, batch, steps)) << name << ": far too much";
        }
      }
      ASSERT_EQ(rnnc_program_forget(program.get(), nullptr), RNNC_OK);
    }
  }
}

TEST(CApiReserve, BoundsOfWrongOptionsAreErrors) {
  const Owned<rnnc_program> program = compile(shipped("bidirectional_gru").get());
  rnnc_shape shape = shape_of(0, 0, true);
  shape.checkpoint = 4;
  rnnc_reserve_bound bound = {};
  bound.struct_size = sizeof bound;
  bound.per_row = 77;
  EXPECT_EQ(rnnc_program_reserve_bound(program.get(), &shape, &bound), RNNC_INVALID_ARGUMENT);
  EXPECT_EQ(bound.per_row, 0u);
  shape.checkpoint = 0;
  shape.residuals = static_cast<rnnc_residuals>(3);
  EXPECT_EQ(rnnc_program_reserve_bound(program.get(), &shape, &bound), RNNC_INVALID_ARGUMENT);
  EXPECT_STREQ(rnnc_last_error(), "there is no choice 3 of residuals");
}

TEST(CApiForget, ForgetsAShapeOrAll) {
  const Owned<rnnc_program> program = compile(shipped("lstm").get());
  rnnc_shape shapes[] = {shape_of(2, 5), shape_of(2, 5, true), shape_of(2, 5), shape_of(3, 5)};
  shapes[2].lengths = 1;
  const auto prepared = [&] {
    std::vector<bool> prepared;
    for (const rnnc_shape& shape : shapes) {
      rnnc_sizes sizes = {};
      sizes.struct_size = sizeof sizes;
      const rnnc_status status = rnnc_program_sizes(program.get(), &shape, &sizes);
      EXPECT_TRUE(status == RNNC_OK || status == RNNC_NOT_PREPARED) << rnnc_last_error();
      prepared.push_back(status == RNNC_OK);
    }
    return prepared;
  };
  const auto prepare = [&] {
    for (const rnnc_shape& shape : shapes) {
      ASSERT_EQ(rnnc_program_prepare(program.get(), &shape), RNNC_OK) << rnnc_last_error();
    }
  };
  prepare();
  const std::vector<double> bits = run(program.get(), 2, 5);
  const rnnc_shape unknown = shape_of(9, 1);
  ASSERT_EQ(rnnc_program_forget(program.get(), &unknown), RNNC_OK) << rnnc_last_error();
  EXPECT_EQ(prepared(), (std::vector<bool>{true, true, true, true}));
  ASSERT_EQ(rnnc_program_forget(program.get(), &shapes[0]), RNNC_OK) << rnnc_last_error();
  EXPECT_EQ(prepared(), (std::vector<bool>{false, false, true, true}));
  ASSERT_EQ(rnnc_program_forget(program.get(), nullptr), RNNC_OK) << rnnc_last_error();
  EXPECT_EQ(prepared(), (std::vector<bool>{false, false, false, false}));
  prepare();
  EXPECT_EQ(run(program.get(), 2, 5), bits);
}

}  // namespace
}  // namespace rnnc::test
