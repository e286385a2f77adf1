// Final states where initial ones lie, and lengths that are no numbers of steps.
#include <algorithm>
#include <limits>

#include "tests/capi/handles.h"

namespace rnnc::test {
namespace {

constexpr int64_t kSequences = 3, kSteps = 7;

using Arrays = std::vector<std::vector<double>>;

/// Of a role, each with so many rows, over small numbers.
Arrays arrays(rnnc_program* program, rnnc_role role, int64_t rows) {
  double next = 0;
  Arrays made;
  for (const int64_t count : elements(program, role)) {
    made.emplace_back(count * rows);
    for (double& value : made.back()) value = (next = next < 1 ? next + 0.13 : -1);
  }
  return made;
}

std::vector<void*> pointers(Arrays& arrays) {
  std::vector<void*> found;
  for (std::vector<double>& array : arrays) found.push_back(array.data());
  return found;
}

/// Where final states go: to arrays of their own, or to the initial states', from a place on.
struct Place {
  bool apart = true;
  size_t first = 0;
};

/// Outputs, then final states in their order.
Arrays run(rnnc_program* program, const Place& place, const int32_t* lengths, bool training) {
  Arrays inputs = arrays(program, RNNC_INPUT, kSequences * kSteps);
  Arrays params = arrays(program, RNNC_PARAM, 1);
  Arrays outputs = arrays(program, RNNC_OUTPUT, kSequences * kSteps);
  Arrays states = arrays(program, RNNC_STATE, kSequences), others = states;
  const std::vector<void*> of_inputs = pointers(inputs), of_params = pointers(params),
                           of_outputs = pointers(outputs), initial = pointers(states);
  std::vector<void*> finals = place.apart ? pointers(others) : initial;
  std::rotate(finals.begin(), finals.begin() + static_cast<std::ptrdiff_t>(place.first),
              finals.end());

  rnnc_shape shape = shape_of(kSequences, kSteps, training);
  shape.lengths = lengths != nullptr;
  const std::vector<uint8_t> given(states.size(), 1);
  shape.given_states = given.data();
  EXPECT_EQ(rnnc_program_prepare(program, &shape), RNNC_OK) << rnnc_last_error();
  rnnc_sizes sizes = {};
  sizes.struct_size = sizeof sizes;
  EXPECT_EQ(rnnc_program_sizes(program, &shape, &sizes), RNNC_OK) << rnnc_last_error();
  std::vector<char> workspace(sizes.forward_workspace), reserve(sizes.reserve);
  rnnc_forward_args args = {};
  args.struct_size = sizeof args;
  args.steps = kSteps;
  args.batch = kSequences;
  args.inputs = of_inputs.data();
  args.params = of_params.data();
  args.outputs = of_outputs.data();
  args.initial_states = initial.data();
  args.final_states = finals.data();
  args.lengths = lengths;
  args.workspace = workspace.data();
  args.workspace_bytes = workspace.size();
  args.reserve = training ? reserve.data() : nullptr;
  args.reserve_bytes = reserve.size();
  EXPECT_EQ(rnnc_forward(program, &args), RNNC_OK) << rnnc_last_error();
  for (size_t i = 0; i < states.size(); ++i) {
    const auto* values = static_cast<const double*>(finals[i]);
    outputs.emplace_back(values, values + states[i].size());
  }
  return outputs;
}

TEST(CApiStates, FinalOnesLieWhereInitialOnesDo) {
  const int32_t lengths[kSequences] = {7, 0, 4};
  for (const char* name : {"elman", "gru", "lstm", "slstm", "minlstm", "bidirectional_gru"}) {
    const Owned<rnnc_program> program = compile(shipped(name).get(), 3);
    for (const bool training : {false, true}) {
      for (const int32_t* some : {static_cast<const int32_t*>(nullptr), lengths}) {
        const Arrays expected = run(program.get(), {}, some, training);
        EXPECT_EQ(run(program.get(), {false, 0}, some, training), expected) << name;
        if (elements(program.get(), RNNC_STATE).size() < 2) continue;
        EXPECT_EQ(run(program.get(), {false, 1}, some, training), expected) << name;
      }
    }
  }
}

TEST(CApiStates, LengthsOutOfRangeAreTheNearest) {
  const Owned<rnnc_program> program = compile(shipped("lstm").get(), 3);
  const int32_t lengths[kSequences] = {7, 0, 4}, wrong[kSequences] = {8, -1, 4};
  constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
  const int32_t far[kSequences] = {kMost, -kMost, 4};
  for (const bool training : {false, true}) {
    const Arrays expected = run(program.get(), {}, lengths, training);
    EXPECT_EQ(run(program.get(), {}, wrong, training), expected);
    EXPECT_EQ(run(program.get(), {}, far, training), expected);
  }
}

}  // namespace
}  // namespace rnnc::test
