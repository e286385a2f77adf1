// Launches of recurrences: hand-made plans through the CPU backend, against loops.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/cpu/kernel_runner.h"
#include "tests/cpu/plan_maker.h"

namespace rnnc::test {
namespace {

using Kind = Instruction::Kind;

/// Builds a kernel from its arguments on.
class BodyMaker {
 public:
  BodyMaker(DType dtype, int64_t length) : dtype_(dtype) { kernel.length = length; }

  uint32_t load(bool product = false) {
    kernel.arguments.push_back({dtype_, true, false, product});
    return add({.kind = Kind::Load, .vector = true, .argument = last(), .operands = {}});
  }
  uint32_t constant(double value) {
    return add({.kind = Kind::Constant, .value = value, .operands = {}});
  }
  uint32_t scalar(Op op, std::vector<uint32_t> operands) {
    return add({.kind = Kind::Scalar, .op = op, .vector = true, .operands = std::move(operands)});
  }
  void store(uint32_t value) {
    kernel.arguments.push_back({dtype_, true, true});
    add({.kind = Kind::Store, .vector = true, .argument = last(), .operands = {value}});
  }

  Kernel kernel;

 private:
  uint32_t last() const { return static_cast<uint32_t>(kernel.arguments.size() - 1); }
  uint32_t add(Instruction instruction) {
    kernel.body.push_back(std::move(instruction));
    return static_cast<uint32_t>(kernel.body.size() - 1);
  }
  DType dtype_;
};

struct StepProduct {
  uint32_t first_argument = 0;
  uint32_t members = 1;
  int64_t blocks = 1;
  bool of_input = false;  // else of the state at the step before
};

/// h[t] = 0.5 tanh(x[t] + sum over m of (m + 1) p_m), with p_m sums of products.
struct Recurrence {
  int64_t length = 0;
  uint32_t arguments = 0;  // results of products
  std::vector<StepProduct> products;
};

double weight_scale(const Recurrence& cell) {
  return 1.0 / static_cast<double>(cell.length);
}

int64_t weight_elements(const Recurrence& cell, const StepProduct& product) {
  return product.members * cell.length * (cell.length / product.blocks);
}

Plan make_plan(const Recurrence& cell, DType dtype, int64_t batch, int64_t chunk) {
  int64_t weights = 0;
  for (const StepProduct& product : cell.products) weights += weight_elements(cell, product);
  PlanMaker maker(dtype, batch, chunk, cell.length);
  const Access weight = maker.param(weights);
  const Access state = maker.state("h", cell.length);
  const Access output = maker.output(cell.length);
  Access before = state;
  before.delay = 1;

  BodyMaker body(dtype, cell.length);
  std::vector<uint32_t> results;
  for (uint32_t m = 0; m < cell.arguments; ++m) results.push_back(body.load(true));
  uint32_t sum = body.load();
  for (uint32_t m = 0; m < cell.arguments; ++m) {
    sum = body.scalar(Op::Add, {sum, body.scalar(Op::Mul, {results[m], body.constant(m + 1)})});
  }
  const uint32_t value = body.scalar(Op::Mul, {body.scalar(Op::Tanh, {sum}), body.constant(0.5)});
  body.store(value);
  body.store(value);
  maker.plan.kernels.push_back(body.kernel);

  FusedLaunch launch;
  launch.kernel = static_cast<uint32_t>(maker.plan.kernels.size() - 1);
  launch.accesses.resize(cell.arguments);
  for (const Access& access : {maker.input, state, output}) launch.accesses.push_back(access);
  Access next = weight;
  for (const StepProduct& product : cell.products) {
    launch.products.push_back({.left = product.of_input ? maker.input : before,
                               .weight = next,
                               .k = cell.length / product.blocks,
                               .blocks = product.blocks,
                               .first_argument = product.first_argument,
                               .members = product.members});
    next.column += weight_elements(cell, product);
  }
  Stage& stage = maker.stage(Domain::Step);
  stage.recurrence = RecurrenceClass::Dense;
  stage.launches = {launch};
  return maker.plan;
}

Values expected_outputs(const Recurrence& cell, const Call& call, int64_t batch) {
  const int64_t n = cell.length;
  Values outputs(call.input.size());
  Values zero(n, 0);
  for (int64_t row = 0; row < call.steps * batch; ++row) {
    const double* x = &call.input[row * n];
    const double* h = row < batch ? zero.data() : &outputs[(row - batch) * n];
    for (int64_t j = 0; j < n; ++j) {
      double sum = x[j];
      const double* weight = call.param.data();
      for (const StepProduct& product : cell.products) {
        const int64_t k = n / product.blocks;
        const double* left = (product.of_input ? x : h) + j / k * k;
        for (uint32_t m = 0; m < product.members; ++m) {
          for (int64_t i = 0; i < k; ++i) {
            sum += (product.first_argument + m + 1) * left[i] * weight[(m * n + j) * k + i];
          }
        }
        weight += weight_elements(cell, product);
      }
      outputs[row * n + j] = 0.5 * std::tanh(sum);
    }
  }
  return outputs;
}

void expect_near(const Values& got, const Values& wanted, DType dtype) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], wanted[i], dtype == DType::f64 ? 1e-13 : 2e-6) << "element " << i;
  }
}

class StepLaunches : public testing::TestWithParam<CodeParam> {
 protected:
  void check(const Recurrence& cell, int64_t batch, const std::vector<int>& threads) const {
    SCOPED_TRACE(fmt::format("{} columns, {} arguments, {} products, batch {}", cell.length,
                             cell.arguments, cell.products.size(), batch));
    const Plan plan = make_plan(cell, GetParam().dtype, batch, 4);
    int64_t weights = 0;
    for (const StepProduct& product : cell.products) weights += weight_elements(cell, product);
    Call call = {.steps = 9,
                 .input = random_values(9 * batch * cell.length),
                 .param = random_values(weights),
                 .lengths = {},
                 .reset = {}};
    // What f32 holds exactly, so that both sides compute with the same numbers.
    for (double& weight : call.param) weight = static_cast<float>(weight * weight_scale(cell));
    const Values one = run(plan, call, GetParam().target)[0];
    expect_near(one, expected_outputs(cell, call, batch), GetParam().dtype);
    for (const int count : threads) {
      call.threads = count;
      ASSERT_EQ(run(plan, call, GetParam().target)[0], one) << count << " threads";
    }
  }
};

TEST_P(StepLaunches, ProductsWithAnEpilogue) {
  for (const int64_t length : {1, 3, 7, 33}) {
    for (const uint32_t members : {1, 2, 3, 4, 5}) {
      const Recurrence cell = {length, members, {{0, members}}};
      for (const int64_t batch : {1, 7}) check(cell, batch, {2});
    }
  }
}

TEST_P(StepLaunches, OnAnyNumberOfThreads) {
  for (const uint32_t members : {1, 3, 4}) {
    const Recurrence cell = {200, members, {{0, members}}};
    for (const int64_t batch : {1, 3, 33}) check(cell, batch, {2, 3, 5});
  }
}

TEST_P(StepLaunches, ManyRowsAndLongSums) {
  check({300, 2, {{0, 2}}}, 70, {3});
  check({17, 4, {{0, 4}}}, 200, {3});
}

TEST_P(StepLaunches, SumsOfProducts) {
  check({33, 3, {{0, 3, 1, true}, {0, 3}}}, 3, {2, 5});
  check({70, 3, {{2, 1, 1, true}, {0, 2}}}, 7, {3});
}

TEST_P(StepLaunches, ProductsThatShareSomeArguments) {
  check({33, 4, {{0, 4, 1, true}, {0, 2}, {3, 1}}}, 3, {2, 3});
  check({40, 3, {{0, 2, 1, true}, {1, 2}}}, 7, {2});
}

TEST_P(StepLaunches, Blocks) {
  check({36, 4, {{0, 4, 3}}}, 3, {2, 3});
  check({60, 2, {{0, 2, 1, true}, {0, 1, 4}, {1, 1, 6}}}, 7, {2, 5});
  check({128, 1, {{0, 1, 2}}}, 1, {2});
}

// What is added to one argument is not added, times zero, to those beside it.
TEST_P(StepLaunches, InfinityStaysWhereItIs) {
  const Recurrence cell = {2, 2, {{0, 2}, {1, 1, 1, true}}};
  Plan plan = make_plan(cell, GetParam().dtype, 1, 4);
  // Without the argument that has the product of x: 1 * p_0 alone.
  for (Instruction& instruction : plan.kernels.back().body) {
    if (instruction.kind == Kind::Constant && instruction.value == 2) {
      instruction = {.kind = Kind::Constant, .value = 0, .operands = {}};
    }
    if (instruction.kind == Kind::Scalar && instruction.op == Op::Mul &&
        instruction.operands[0] == 1) {
      instruction.operands[0] = 0;
    }
  }
  const double infinity = std::numeric_limits<double>::infinity();
  const Call call = {.steps = 1,
                     .input = {infinity, -infinity},
                     .param = Values(12, 1),
                     .lengths = {},
                     .reset = {}};
  EXPECT_EQ(run(plan, call, GetParam().target)[0], (Values{0.5, -0.5}));
}

/// h[t] = x[t] - 0.5 h[t-1] and y = h[t-1] + x[t], as one loop.
Plan make_loop(DType dtype, int64_t batch, int64_t length) {
  PlanMaker maker(dtype, batch, 4, length);
  const Access carried = {
      maker.add("h", Placement::Workspace, Role::Temporary, Extent::Batch, length), 0, 0, length};
  const Access output = maker.output(length);
  Kernel zero;
  zero.name = "zero";
  zero.length = length;
  zero.arguments = {{dtype, true, true}};
  zero.body = {{.kind = Kind::Constant, .operands = {}},
               {.kind = Kind::Store, .vector = true, .argument = 0, .operands = {0}}};
  maker.plan.kernels = {zero};
  maker.plan.states.push_back({.name = "h",
                               .init_given = {},
                               .init_declared = {0, {carried}, 1},
                               .write_final = {},
                               .hide = {}});

  BodyMaker body(dtype, length);
  const uint32_t h = body.load();
  const uint32_t x = body.load();
  body.store(body.scalar(Op::Sub, {x, body.scalar(Op::Mul, {h, body.constant(0.5)})}));
  body.store(body.scalar(Op::Add, {h, x}));
  maker.plan.kernels.push_back(body.kernel);
  Stage& stage = maker.stage(Domain::Sequence);
  stage.recurrence = RecurrenceClass::Linear;
  stage.launches = {LoopLaunch{1, {carried, maker.input, carried, output}, {{0, 2}}}};
  return maker.plan;
}

TEST_P(StepLaunches, Loops) {
  for (const int64_t batch : {1, 3, 7}) {
    for (const int64_t length : {1, 3, 7, 33, 200}) {
      SCOPED_TRACE(fmt::format("batch {}, {} columns", batch, length));
      const Plan plan = make_loop(GetParam().dtype, batch, length);
      Call call = {.steps = 10,
                   .input = random_values(10 * batch * length),
                   .param = {},
                   .lengths = {},
                   .reset = {}};
      Values expected(call.input.size());
      Values h(batch * length, 0);
      for (size_t i = 0; i < expected.size(); ++i) {
        double& carried = h[i % h.size()];
        expected[i] = carried + call.input[i];
        carried = call.input[i] - 0.5 * carried;
      }
      for (const int threads : {1, 2, 3, 5}) {
        call.threads = threads;
        // Multiples of 2^-16 below 2: exact in f32 too.
        ASSERT_EQ(run(plan, call, GetParam().target)[0], expected) << threads << " threads";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Code, StepLaunches, testing::ValuesIn(code_params()), name_of);

}  // namespace
}  // namespace rnnc::test
