/// Where the first NaN or infinity of a run came from.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/debug/observer.h"

namespace rnnc::debug {

struct NonFinite {
  std::string name;   // of the value: "k", "`exp(a)` in k", "W" of a param
  std::string place;  // "cell.rnn:5:7", or empty
  double value = 0;
  std::string element;      // "unit 3", or empty
  bool is_of_step = false;  // else of a param or an initial state
  size_t step = 0;
  size_t sequence = 0;
  /// What the value was made of: names, and their values at the same unit, or where an operand has
  /// other units the largest magnitude among them.
  struct Operand {
    std::string name;
    double value = 0;
    bool is_largest = false;
  };
  std::vector<Operand> operands = {};
};

/// The first by steps as they run (a layer in reverse begins with the last), within a step by its
/// order of values, within a value by sequence and unit. Before the steps: params and given initial
/// states. Nothing: all values are finite. Values are looked at some at a time, as memory allows.
Result<std::optional<NonFinite>> first_non_finite(const Observer& observer);

}  // namespace rnnc::debug
