/// What a seed decides besides the program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/base/dtype.h"
#include "ir/base/status.h"
#include "passes/options/pass_set.h"
#include "passes/options/strategy.h"

namespace rnnc::test {

struct Setting {
  int64_t steps = 1;
  int64_t batch = 1;
  DType dtype = DType::f64;
  int64_t chunk = 0;  // 0: as rnnc likes
  int threads = 1;
  int64_t piece = 0;
  std::vector<int64_t> lengths;  // empty: all of them
  std::vector<uint8_t> resets;   // empty: none
  bool with_states = false;
  bool reversed = false;              // a layer is: in one piece alone
  PassSet passes = PassSet::none();   // besides all
  Strategy strategy = Strategy::Any;  // of loops
};

/// Of a strategy: not all programs have a recurrence that runs so.
inline bool is_refusal(const Error& error) {
  return error.message.find("strategy `") != std::string::npos;
}

/// Loops in loops of cells in cells may come to more operations than a file may have.
inline bool is_too_large(const Error& error) {
  return error.message.find("this file has more than") != std::string::npos;
}

}  // namespace rnnc::test
