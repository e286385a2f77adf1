/// The language's built-in functions.
#pragma once

#include <span>
#include <string_view>

#include "ir/graph/ops.h"

namespace rnnc {

struct Builtin {
  enum class Kind : uint8_t {
    Plain,   // `op` on the arguments
    MinMax,  // elementwise `op` of two arguments, `reduction` of one
    Dot,     // the sum of an elementwise product
    Eye,     // the argument is a dim
    Range,   // the argument is a dim
    Fill,    // `number` everywhere; the arguments are dims
    OneHot,  // the arguments are an integer and a dim
    Step,    // the number of the step
  };
  std::string_view name;
  Kind kind = Kind::Plain;
  size_t fewest = 1;  // arguments
  size_t most = 1;
  std::string_view usage;  // "clamp(v, low, high)"
  Op op = Op::Constant;
  Op reduction = Op::Constant;
  double number = 0;
};

std::span<const Builtin> builtins();
/// Null if there is none of that name.
const Builtin* find_builtin(std::string_view name);

}  // namespace rnnc
