/// The language's built-in functions.
#pragma once

#include <span>
#include <string_view>

#include "ir/ops.h"

namespace rnnc {

struct Builtin {
  enum class Kind : uint8_t {
    Scalar,           // elementwise: `op`
    Reduction,        // over the feature axis: `op`
    MinMax,           // elementwise `op` of two arguments, `reduction` of one
    Dot,              // the sum of an elementwise product
    NotCompiled,      // of the language, but not compiled yet
    NotCompiledDims,  // the same; the arguments are dims
  };
  std::string_view name;
  Kind kind = Kind::Scalar;
  size_t fewest = 1;  // arguments
  size_t most = 1;
  std::string_view usage;  // "clamp(v, low, high)"
  Op op = Op::Constant;
  Op reduction = Op::Constant;
  std::string_view instead = {};  // NotCompiled: what to write meanwhile
};

std::span<const Builtin> builtins();
/// Null if there is none of that name.
const Builtin* find_builtin(std::string_view name);

}  // namespace rnnc
