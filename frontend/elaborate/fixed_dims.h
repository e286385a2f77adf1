/// Which dims count as numbers.
#pragma once

#include <set>
#include <string>

#include "frontend/elaborate/context.h"
#include "frontend/syntax/ast.h"

namespace rnnc {

/// The definition's dims that say how its step is built, in any line of it: those in bounds of
/// loops, in lengths of arrays, in divisors (`H / N`, `blocks N`), and those given to such dims of
/// the cells that it calls. Where their numbers are known, checks of shapes take these.
const std::set<std::string>& fixed_dims(Context& context, const ast::Definition& definition);

}  // namespace rnnc
