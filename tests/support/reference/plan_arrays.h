/// The memory of a plan that is executed in host memory: its workspace, program memory, and the
/// arrays of the call. All that nobody has written is NaN.
#pragma once

#include <cstddef>
#include <vector>

#include "ir/graph/interpreter.h"
#include "ir/plan/waves.h"

namespace rnnc {

class PlanArrays {
 public:
  /// Both outlive this.
  PlanArrays(const Plan& plan, const InterpreterArgs& args);

  /// The caller's initial value of a state, or of what it is an earlier value of, or null.
  const std::vector<double>* given(size_t state) const;
  std::byte* memory(const Buffer& buffer);
  /// Elements from here on.
  struct Place {
    DType dtype;
    std::byte* data;
  };
  Place locate(const Access& access, Position at, int64_t row);
  InterpreterResult results() const;

 private:
  void clear_pads();
  std::vector<std::byte> caller_array(const Buffer& buffer) const;

  const Plan& plan_;
  const InterpreterArgs& args_;
  std::vector<std::vector<std::byte>> caller_;  // arrays of the call, per buffer; others empty
  std::vector<std::byte> workspace_, program_memory_;
};

double load(const PlanArrays::Place& place, int64_t index);
void store(const PlanArrays::Place& place, int64_t index, double value);

}  // namespace rnnc
