// Inputs of integers: what of them is checked before anything runs.
#include <gtest/gtest.h>

#include "ir/graph/text.h"
#include "runtime/program/program.h"
#include "runtime/program/run.h"

namespace rnnc {
namespace {

constexpr std::string_view kGraph = R"(graph Words {
  input token: [] int
  param table: [3, 1]
  %0 = input token : []
  %1 = param table : [3, 1]
  %2 = rows %1, %0 : [1]
  output e = %2
}
)";

Program words() {
  Result<Program> program = Program::compile(*parse_graph(kGraph), {});
  EXPECT_TRUE(program) << program.error().message;
  return *std::move(program);
}

/// Of one run over [T, 1] integers through the C++ pointers: what is wrong, or "".
std::string forward(const std::vector<int32_t>& integers, const int32_t* length = nullptr) {
  Program program = words();
  const auto steps = static_cast<int64_t>(integers.size());
  const SequenceFeatures features = {.lengths = length != nullptr};
  EXPECT_TRUE(program.prepare(1, steps, features));
  const std::vector<float> table = {1, 2, 3};
  std::vector<float> output(integers.size());
  std::vector<std::byte> workspace(*program.workspace_size(1, steps, features));
  const std::vector<const void*> inputs = {integers.data()};
  const std::vector<const void*> params = {table.data()};
  const std::vector<void*> outputs = {output.data()};
  ForwardArgs args;
  args.steps = steps;
  args.batch = 1;
  args.inputs = inputs;
  args.params = params;
  args.outputs = outputs;
  args.lengths = length;
  args.workspace = workspace.data();
  args.workspace_bytes = workspace.size();
  const Status status = program.forward(args);
  return status ? "" : status.error().message;
}

TEST(Integers, ThoseInHostMemoryAreChecked) {
  EXPECT_EQ(forward({0, 2, 1}), "");
  EXPECT_EQ(forward({0, 3, 1}), "input token[1, 0] is 3, but `table` has rows 0 to 2");
  EXPECT_EQ(forward({0, -1}), "input token[1, 0] is -1, but `table` has rows 0 to 2");
  EXPECT_EQ(forward({0, 20000000}),
            "input token[1, 0] is 20000000, expected a whole number from -16777216 to 16777216");
  const int32_t length = 2;
  EXPECT_EQ(forward({0, 2, -100}, &length), "");  // past the end
}

/// The same of arrays of any type.
std::string run(const Array& integers) {
  RunArgs args;
  args.inputs = {{"token", integers}};
  args.params = {{"table", Array::from_doubles({1, 2, 3}, {3, 1}, DType::f64)}};
  Program program = words();
  Runner runner(program);
  const Result<RunResult> result = runner.run(args);
  return result ? "" : result.error().message;
}

TEST(Integers, ArraysHaveWholeNumbers) {
  EXPECT_EQ(run(Array::from_doubles({2, 0}, {1, 2}, DType::i32)), "");
  EXPECT_EQ(run(Array::from_doubles({2, 0.5}, {1, 2}, DType::f64)),
            "input token[0, 1] is 0.5, expected a whole number from -16777216 to 16777216");
  EXPECT_EQ(run(Array::from_doubles({3, 0}, {1, 2}, DType::f64)),
            "input token[0, 0] is 3, but `table` has rows 0 to 2");
}

TEST(Integers, HaveNoGradient) {
  Program program = words();
  const Status status = program.prepare_training(1, 1, {.inputs = {true}});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message,
            "training: the gradient of input `token` is wanted, which is of integers and has none");
  EXPECT_TRUE(program.prepare_training(1, 1));
}

TEST(Integers, AreOfTheirOwnType) {
  const Program program = words();
  const ArrayInfo& token = program.signature().inputs[0];
  EXPECT_EQ(token.dtype, DType::i32);
  EXPECT_EQ(token.table, "table");
  EXPECT_EQ(token.table_rows, 3);
}

/// A step has one row of it for each sequence.
TEST(Integers, TablesDoNotLimitSteps) {
  std::string text(kGraph);
  for (size_t at = 0; (at = text.find("[3, 1]")) != std::string::npos;) {
    text.replace(at, 6, "[1000000, 1]");
  }
  Result<Program> program = Program::compile(*parse_graph(text), {});
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_TRUE(program->prepare(4096, 1024));
  EXPECT_EQ(program->prepare(int64_t{1} << 30, 2048).error().message,
            "2048 steps x batch 1073741824 x 1 elements are too large");
}

}  // namespace
}  // namespace rnnc
