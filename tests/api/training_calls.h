/// Training calls of a program, right ones and wrong ones.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "tests/api/odd_values.h"

namespace rnnc::test {

/// One forward call and its backward call: all memory they take, and lists that may be spoiled.
struct TrainingCall {
  /// Right ones for random sizes, options and features.
  TrainingCall(Random& random, const Signature& signature);

  /// Prepares the shape and takes the memory that its calls need, to the byte. `anew`: even if it is
  /// prepared so, perhaps for more steps, whose chunks decide in which order sums are added up.
  Status prepare(Program& program, bool anew);
  /// Both on memory as it was made.
  Status run(Program& program);
  ForwardArgs forward();
  BackwardArgs backward();
  /// Everything that calls write but for the workspace.
  std::vector<std::byte> written() const;
  void restore();

  int64_t steps, batch, max_steps;
  SequenceFeatures features;
  TrainingOptions options;
  TrainingSizes sizes;

  std::vector<Array> read, results;  // in the order of the lists
  std::vector<Array> results_before;
  std::vector<const void*> inputs, params, initial_states, output_gradients, final_gradients;
  std::vector<void*> outputs, final_states, param_gradients, input_gradients, initial_gradients;
  std::vector<int32_t> lengths;
  std::vector<uint8_t> reset;
  std::vector<char> workspace, reserve;
  // What calls are given of them; spoiled ones are others.
  const int32_t* lengths_pointer = nullptr;
  void* reserve_pointer = nullptr;
  size_t reserve_bytes = 0, workspace_bytes = 0;
};

class TrainingCalls {
 public:
  TrainingCalls(Random& random, const Graph& graph, const CompileOptions& options)
      : random_(random), graph_(graph), options_(options) {}

  /// Some calls of the program, which is one of the graph's. An error says what they should not
  /// have done.
  Status call(Program& program);

 private:
  Status prepare_oddly(Program& program);
  Status query(Program& program);
  Status compare(Program& program);
  Status call_forward_wrongly(Program& program);
  Status call_backward_wrongly(Program& program);
  Status call_in_wrong_order(Program& program);
  Result<Program*> other_program();

  Random& random_;
  const Graph& graph_;
  const CompileOptions& options_;
  std::optional<Program> other_;
};

}  // namespace rnnc::test
