// Calls that are drawn: numbers at the ends of their ranges, texts with wrong bytes. Each ends with a result or
// with an error in words, and leaves the program as it was. `./dev fuzz` draws anew and anew, under sanitizers:
//
//     rnnc_test_capi --gtest_filter='Random*' --gtest_shuffle --gtest_repeat=100
#include <climits>
#include <random>

#include "tests/capi/handles.h"

namespace rnnc::test {
namespace {

constexpr const char* kElman = R"(cell Elman[I, H](x: [I]) -> h {
  state h: [H]
  param W: [H, I]
  param R: [H, H]
  h[t] = tanh(W @ x[t] + R @ h[t-1])
}
)";

class RandomCalls : public testing::Test {
 protected:
  /// Of gtest's seed: with --gtest_shuffle another one in each run.
  std::mt19937_64 random_{static_cast<uint64_t>(testing::UnitTest::GetInstance()->random_seed())};

  bool coin() { return random_() % 2 == 0; }

  int64_t number() {
    constexpr int64_t kOdd[] = {0, 1, 2, 3, -1, INT64_MAX, INT64_MIN, 1 << 30};
    return coin() ? kOdd[random_() % std::size(kOdd)] : static_cast<int64_t>(random_());
  }

  int32_t word() { return static_cast<int32_t>(number()); }

  /// Mostly what the struct has.
  size_t size_of(size_t bytes) {
    return random_() % 4 == 0 ? static_cast<size_t>(number()) : bytes;
  }

  /// With some wrong bytes.
  std::string spoilt(std::string text) {
    for (int i = 0; i < 3; ++i)
      text[random_() % text.size()] = static_cast<char>(random_() % 255 + 1);
    return text;
  }

  /// Whatever came of it: a refusal has words, a text is freed.
  void ended(rnnc_status status, rnnc_text* text = nullptr) {
    if (status != RNNC_OK) EXPECT_STRNE(rnnc_last_error(), "");
    EXPECT_NE(status, RNNC_INTERNAL) << rnnc_last_error();
    rnnc_text_free(text);
  }

  rnnc_shape shape() {
    rnnc_shape shape = shape_of(number(), number(), coin());
    shape.struct_size = size_of(sizeof shape);
    shape.lengths = word();
    shape.resets = word();
    shape.checkpoint = number();
    shape.residuals = static_cast<rnnc_residuals>(word());
    shape.accumulate = word();
    shape.outputs = word();
    return shape;
  }
};

TEST_F(RandomCalls, Structs) {
  const Owned<rnnc_unit> unit = parse(kElman);
  const Owned<rnnc_graph> graph = lower(unit.get());
  const Owned<rnnc_program> program = compile(graph.get());
  const rnnc_shape known = shape_of(2, 3);
  ASSERT_EQ(rnnc_program_prepare(program.get(), &known), RNNC_OK) << rnnc_last_error();
  const std::vector<double> expected = run(program.get(), 2, 3);
  for (int round = 0; round < 300; ++round) {
    const rnnc_shape drawn = shape();
    rnnc_sizes sizes = {};
    sizes.struct_size = size_of(sizeof sizes);
    ended(rnnc_program_sizes(program.get(), &drawn, &sizes));
    rnnc_reserve_bound bound = {};
    bound.struct_size = size_of(sizeof bound);
    ended(rnnc_program_reserve_bound(program.get(), &drawn, &bound));
    rnnc_forward_args forward = {};
    forward.struct_size = size_of(sizeof forward);
    forward.steps = number();
    forward.batch = number();
    forward.reuse_params = word();
    forward.workspace_bytes = static_cast<size_t>(number());
    forward.reserve_bytes = static_cast<size_t>(number());
    EXPECT_NE(rnnc_forward(program.get(), &forward), RNNC_OK);
    EXPECT_STRNE(rnnc_last_error(), "");
    rnnc_backward_args backward = {};
    backward.struct_size = size_of(sizeof backward);
    backward.steps = number();
    backward.batch = number();
    backward.reserve_bytes = static_cast<size_t>(number());
    backward.foreign_reserve = word();
    EXPECT_NE(rnnc_backward(program.get(), &backward), RNNC_OK);
    rnnc_array array = {};
    array.struct_size = size_of(sizeof array);
    const auto role = static_cast<rnnc_role>(word());
    ended(rnnc_program_array(program.get(), role, static_cast<size_t>(number()), &array));
  }
  EXPECT_EQ(run(program.get(), 2, 3), expected);
}

TEST_F(RandomCalls, Options) {
  const Owned<rnnc_unit> unit = parse(kElman);
  const Owned<rnnc_graph> graph = lower(unit.get());
  for (int round = 0; round < 100; ++round) {
    const std::string device = spoilt("cuda:1"), passes = spoilt("-merge,-split"),
                      name = spoilt("I");
    const rnnc_dim dims[] = {{random_() % 4 != 0 ? "I" : name.c_str(), coin() ? 3 : number()},
                             {"H", coin() ? 4 : number()}};
    rnnc_options options = options_of(static_cast<rnnc_dtype>(coin() ? RNNC_F32 : word()));
    options.struct_size = size_of(sizeof options);
    options.device = coin() ? nullptr : device.c_str();
    options.passes = coin() ? nullptr : passes.c_str();
    options.f32_params = word();
    options.tf32 = word();
    options.chunk = number();
    options.spare_multiprocessors = word();
    options.openmp = word();
    rnnc_program* made = nullptr;
    ended(rnnc_program_compile(graph.get(), dims, 2, &options, &made));
    rnnc_program_free(made);
  }
}

TEST_F(RandomCalls, Texts) {
  const Owned<rnnc_unit> whole = parse(kElman);
  const Owned<rnnc_graph> elman = lower(whole.get());
  const Owned<rnnc_program> program = compile(elman.get());
  const std::string of_graph = text_of(elman.get());
  for (int round = 0; round < 300; ++round) {
    rnnc_unit* unit = nullptr;
    rnnc_text* text = nullptr;
    ended(rnnc_unit_parse("random.rnn", spoilt(kElman).c_str(), &unit));
    if (unit != nullptr) {
      rnnc_status status = rnnc_unit_diagnostics(unit, &text);
      ended(status, text);
      rnnc_graph* graph = nullptr;
      ended(rnnc_unit_lower(unit, nullptr, nullptr, 0, &graph));
      rnnc_graph_free(graph);
    }
    rnnc_unit_free(unit);
    rnnc_graph* graph = nullptr;
    ended(rnnc_graph_parse(spoilt(of_graph).c_str(), &graph));
    rnnc_graph_free(graph);
    rnnc_weight_map* map = nullptr;
    const std::string rule = spoilt("W = weight_ih_l0\nR = weight_hh_l0[0:4]\n");
    ended(rnnc_weight_map_parse("random.map", rule.c_str(), &map));
    if (map != nullptr) {
      text = nullptr;
      const rnnc_status status = rnnc_weight_map_resolve(map, program.get(), &text);
      ended(status, text);
    }
    rnnc_weight_map_free(map);
    text = nullptr;
    const rnnc_shape known = shape_of(1, 2);
    const std::string format = spoilt("plan");
    const rnnc_status status = rnnc_program_emit(program.get(), &known, format.c_str(), &text);
    ended(status, text);
  }
}

}  // namespace
}  // namespace rnnc::test
