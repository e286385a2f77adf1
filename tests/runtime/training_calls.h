/// A program and the arrays of its training calls, for tests of their contract.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "ir/graph/text.h"
#include "runtime/program/program.h"
#include "tests/support/reference/deterministic.h"

namespace rnnc::test {

inline constexpr std::string_view kElman = R"(graph Elman(I, H = 4) {
  input x: [I]
  param W: [H, I]
  param R: [H, H]
  state h: [H]
  %0 = param W : [H, I]
  %1 = input x : [I]
  %2 = matmul %0, %1 : [H]
  %3 = param R : [H, H]
  %4 = state h @ 1 : [H]
  %5 = matmul %3, %4 : [H]
  %6 = add %2, %5 : [H]
  %7 = tanh %6 : [H]
  %8 = const 0 : []
  %9 = sum %7 : []
  init h = %8
  next h = %7
  output h = %7
  output total = %9
}
)";

inline constexpr int64_t kSteps = 6;
inline constexpr int64_t kBatch = 2;

inline std::vector<double> values(const std::string& name, int64_t count) {
  return deterministic_values(name, count, 1, DType::f64);
}

/// A program and the arrays of its calls, all float64.
class Training {
 public:
  explicit Training(const TrainingOptions& options, int64_t chunk = 0)
      : program_(compile(chunk)), options_(options) {
    const Status prepared = program_.prepare_training(kBatch, kSteps, options);
    EXPECT_TRUE(prepared) << prepared.error().message;
    sizes_ = program_.training_sizes(kBatch, kSteps).value_or(TrainingSizes{});
    workspace_.resize(std::max(sizes_.forward_workspace, sizes_.backward_workspace + sizes_.zeros));
    reserve_.resize(sizes_.reserve);
  }

  Program& program() { return program_; }
  const TrainingSizes& sizes() const { return sizes_; }

  /// Steps [begin, end).
  ForwardArgs forward_args(int64_t begin = 0, int64_t end = kSteps) {
    inputs_ = {x_.data() + begin * kBatch * 3};
    params_ = {w_.data(), r_.data()};
    outputs_ = {h_.data() + begin * kBatch * 4, total_.data() + begin * kBatch};
    final_ = {last_.data()};
    initial_ = {options_.given_states.empty() || !options_.given_states[0] ? nullptr
                                                                           : first_.data()};
    return {.steps = end - begin,
            .batch = kBatch,
            .inputs = inputs_,
            .params = params_,
            .outputs = outputs_,
            .initial_states = initial_,
            .final_states = final_,
            .workspace = workspace_.data(),
            .workspace_bytes = workspace_.size(),
            .reserve = reserve_.data(),
            .reserve_bytes = reserve_.size()};
  }

  BackwardArgs backward_args(int64_t begin = 0, int64_t end = kSteps) {
    const ForwardArgs forward = forward_args(begin, end);
    output_gradients_ = {dh_.data() + begin * kBatch * 4, dtotal_.data() + begin * kBatch};
    final_gradients_ = {dlast_.data()};
    param_gradients_ = {dw.data(), dr.data()};
    input_gradients_ = {wants(options_.inputs) ? dx.data() + begin * kBatch * 3 : nullptr};
    initial_gradients_ = {wants(options_.initial_states) ? dfirst.data() : nullptr};
    return {.steps = forward.steps,
            .batch = forward.batch,
            .inputs = forward.inputs,
            .params = forward.params,
            .outputs = forward.outputs,
            .output_gradients = output_gradients_,
            .final_state_gradients = final_gradients_,
            .param_gradients = param_gradients_,
            .input_gradients = input_gradients_,
            .initial_state_gradients = initial_gradients_,
            .workspace = workspace_.data(),
            .workspace_bytes = workspace_.size(),
            .reserve = reserve_.data(),
            .reserve_bytes = reserve_.size()};
  }

  void run() {
    const Status forward = program_.forward(forward_args());
    ASSERT_TRUE(forward) << forward.error().message;
    const Status backward = program_.backward(backward_args());
    ASSERT_TRUE(backward) << backward.error().message;
  }

  std::string problem(const BackwardArgs& args) {
    const Status status = program_.backward(args);
    EXPECT_FALSE(status);
    return status ? "" : status.error().message;
  }

  // Results.
  std::vector<double> dw = std::vector<double>(12), dr = std::vector<double>(16);
  std::vector<double> dx = std::vector<double>(kSteps * kBatch * 3);
  std::vector<double> dfirst = std::vector<double>(kBatch * 4);

  std::vector<double> first_ = values("first", kBatch * 4), last_ = first_;
  std::vector<double> dlast_ = values("dlast", kBatch * 4);
  std::vector<double> dh_ = values("dh", kSteps* kBatch * 4);
  std::vector<double> dtotal_ = values("dtotal", kSteps* kBatch);
  std::vector<char> reserve_;

 private:
  static bool wants(const std::vector<bool>& list) { return !list.empty() && list[0]; }

  static Program compile(int64_t chunk) {
    const Result<Graph> graph = parse_graph(kElman);
    EXPECT_TRUE(graph) << graph.error().message;
    Result<Program> program = Program::compile(
        *graph, {.dims = {{"I", 3}}, .dtype = DType::f64, .threads = 1, .chunk = chunk});
    EXPECT_TRUE(program) << program.error().message;
    return *std::move(program);
  }

  Program program_;
  TrainingOptions options_;
  TrainingSizes sizes_;
  std::vector<char> workspace_;
  std::vector<double> x_ = values("x", kSteps* kBatch * 3), w_ = values("W", 12);
  std::vector<double> r_ = values("R", 16);
  std::vector<double> h_ = std::vector<double>(kSteps * kBatch * 4);
  std::vector<double> total_ = std::vector<double>(kSteps * kBatch);
  std::vector<const void*> inputs_, params_, initial_, output_gradients_, final_gradients_;
  std::vector<void*> outputs_, final_, param_gradients_, input_gradients_, initial_gradients_;
};

inline const TrainingOptions kAll = {
    .params = {true, true}, .inputs = {true}, .initial_states = {true}, .given_states = {true}};

inline double worst(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

}  // namespace rnnc::test
