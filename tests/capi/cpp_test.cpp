// rnnc.hpp: what it adds to rnnc.h.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "runtime/capi/rnnc.hpp"

namespace {

constexpr const char* kScale = R"(cell Scale[H](x: [H]) -> h {
  state h: [H]
  param w: [H]
  h[t] = w * x[t] + 0.5 * h[t-1]
}
)";

rnnc::Program scale() {
  rnnc::Options options;
  options.dtype = RNNC_F64;
  options.threads = 1;
  return rnnc::Program::compile(rnnc::Unit::parse("scale.rnn", kScale).lower(), {{"H", 2}},
                                options);
}

/// The error that `work` throws.
template <typename Work>
rnnc::Error error_of(const Work& work) {
  try {
    work();
  } catch (const rnnc::Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return rnnc::Error(RNNC_OK, "");
}

TEST(Cpp, TheLibrary) {
  EXPECT_EQ(rnnc::version(), "0.1.0");
  EXPECT_EQ(rnnc::build(), rnnc_build());
  rnnc::add_library_folder(".");
  ASSERT_FALSE(rnnc::devices().empty());
  EXPECT_EQ(rnnc::devices()[0].substr(0, 11), "cpu\tusable\t");
}

TEST(Cpp, UnitsAndGraphs) {
  auto unit = rnnc::Unit::parse("two.rnn",
                                std::string(kScale) + "cell Same(x: [2]) -> y {\n  y = x[t]\n}\n");
  EXPECT_EQ(unit.definitions(), (std::vector<std::string>{"Scale", "Same"}));
  EXPECT_EQ(unit.diagnostics(), "");
  EXPECT_EQ(unit.lower("Same").text().substr(0, 12), "graph Same()");
  EXPECT_EQ(error_of([&] { unit.lower(); }).status(), RNNC_INVALID_ARGUMENT);
}

TEST(Cpp, ShippedUnitsAndGraphsOfTexts) {
  const std::vector<std::string> names = rnnc::shipped();
  EXPECT_EQ(std::count(names.begin(), names.end(), "lstm"), 1);
  const std::string text = rnnc::Unit::shipped("lstm").lower().text();
  EXPECT_EQ(rnnc::Graph::parse(text).text(), text);
  EXPECT_EQ(error_of([] { rnnc::Unit::shipped("lstn"); }).status(), RNNC_INVALID_ARGUMENT);
  EXPECT_STREQ(error_of([] { rnnc::Graph::parse("graph"); }).what(),
               "line 1: expected a name, found the end");
}

TEST(Cpp, ErrorsHaveTheirStatusAndWords) {
  const rnnc::Error text = error_of([] { rnnc::Unit::parse("bad.rnn", "cell"); });
  EXPECT_EQ(text.status(), RNNC_INVALID_TEXT);
  EXPECT_EQ(std::string(text.what()).substr(0, 13), "bad.rnn:1:5: ");
  EXPECT_EQ(error_of([] { rnnc::Unit::read("no/such/file.rnn"); }).status(), RNNC_INVALID_ARGUMENT);
  rnnc::Program program = scale();
  rnnc::Shape shape;
  shape.batch = shape.steps = 1;
  EXPECT_EQ(error_of([&] { program.sizes(shape); }).status(), RNNC_NOT_PREPARED);
  const rnnc::Program moved = std::move(program);
  EXPECT_STREQ(error_of([&] { program.arrays(RNNC_INPUT); }).what(), "`program` is NULL");
}

TEST(Cpp, Arrays) {
  const rnnc::Program program = scale();
  const std::vector<rnnc::Array> params = program.arrays(RNNC_PARAM);
  ASSERT_EQ(params.size(), 1u);
  EXPECT_EQ(params[0].name, "w");
  EXPECT_EQ(params[0].dtype, RNNC_F64);
  EXPECT_EQ(params[0].shape, (std::vector<int64_t>{2}));
  EXPECT_EQ(params[0].elements(), 2u);
  EXPECT_TRUE(program.streams());
}

TEST(Cpp, ShapesOfPrograms) {
  rnnc::Program program = scale();
  rnnc::Shape shape;
  shape.batch = 5;
  shape.steps = 3;
  shape.training = 1;
  const rnnc::ReserveBound bound = program.reserve_bound(shape);
  program.prepare(shape);
  EXPECT_LE(program.sizes(shape).reserve, bound.fixed + bound.per_row * 15);
  EXPECT_EQ(program.explain(shape).substr(0, 22), "Scale: training, f64, ");
  EXPECT_EQ(program.emit(shape, "backward plan").substr(0, 28), "plan Scale: f64, descending,");
  program.forget(shape);
  EXPECT_EQ(error_of([&] { program.sizes(shape); }).status(), RNNC_NOT_PREPARED);
  program.prepare(shape);
  program.forget();
  EXPECT_EQ(error_of([&] { program.sizes(shape); }).status(), RNNC_NOT_PREPARED);
}

TEST(Cpp, WeightMaps) {
  const rnnc::Program program = scale();
  const std::string layout = rnnc::WeightMap::parse("s.map", "w = gate[1 of 2]").resolve(program);
  EXPECT_NE(layout.find("\"tensor\": \"gate\""), std::string::npos) << layout;
  EXPECT_EQ(error_of([&] { rnnc::WeightMap::shipped("torch/gru").resolve(program); }).status(),
            RNNC_INVALID_ARGUMENT);
}

TEST(Cpp, ForwardAndBackward) {
  rnnc::Program program = scale();
  rnnc::Shape shape;
  shape.batch = 1;
  shape.steps = 2;
  shape.training = 1;
  program.prepare(shape);
  EXPECT_TRUE(program.notes().empty());
  const rnnc::Sizes sizes = program.sizes(shape);
  std::vector<char> forward_workspace(sizes.forward_workspace);
  std::vector<char> backward_workspace(sizes.backward_workspace);
  std::vector<char> reserve(sizes.reserve);
  const double x[] = {1, 2, 3, 4};
  const double w[] = {2, -1};
  const double dy[] = {1, 1, 1, 1};
  double y[4];
  double dw[2];
  const void* inputs[] = {x};
  const void* params[] = {w};
  const void* output_gradients[] = {dy};
  void* outputs[] = {y};
  void* param_gradients[] = {dw};
  rnnc::ForwardArgs forward;
  forward.steps = 2;
  forward.batch = 1;
  forward.inputs = inputs;
  forward.params = params;
  forward.outputs = outputs;
  forward.workspace = forward_workspace.data();
  forward.workspace_bytes = forward_workspace.size();
  forward.reserve = reserve.data();
  forward.reserve_bytes = reserve.size();
  program.forward(forward);
  EXPECT_EQ(std::vector<double>(y, y + 4), (std::vector<double>{2, -2, 7, -5}));
  rnnc::BackwardArgs backward;
  backward.steps = 2;
  backward.batch = 1;
  backward.inputs = inputs;
  backward.params = params;
  backward.output_gradients = output_gradients;
  backward.param_gradients = param_gradients;
  backward.workspace = backward_workspace.data();
  backward.workspace_bytes = backward_workspace.size();
  backward.reserve = reserve.data();
  backward.reserve_bytes = reserve.size();
  program.backward(backward);
  EXPECT_EQ(std::vector<double>(dw, dw + 2), (std::vector<double>{4.5, 7}));
}

}  // namespace
