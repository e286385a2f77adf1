/// What a seed decides besides the program.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/base/dtype.h"
#include "passes/options/pass_set.h"

namespace rnnc::test {

struct Setting {
  int64_t steps = 1;
  int64_t batch = 1;
  DType dtype = DType::f64;
  int64_t chunk = 0;
  int64_t piece = 0;
  std::vector<int64_t> lengths;  // empty: all of them
  std::vector<uint8_t> resets;   // empty: none
  bool with_states = false;
  bool reversed = false;             // a layer is: in one piece alone
  PassSet passes = PassSet::none();  // besides all
};

}  // namespace rnnc::test
