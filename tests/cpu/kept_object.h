/// Object code that tests keep in the build folder, and need again for other numbers of threads.
#pragma once

#include <string>

#include "codegen/cpu/cpu_code.h"

namespace rnnc::test {

/// As `compile_object` gives it, which must succeed.
std::string kept_object(const Plan& plan, const CpuTarget& target);

}  // namespace rnnc::test
