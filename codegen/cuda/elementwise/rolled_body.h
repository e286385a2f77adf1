/// The body of a kernel with loops as CUDA C++.
#pragma once

#include <functional>
#include <string>

#include "ir/plan/plan.h"

namespace rnnc {

/// How values are loaded, an expression, and stored, a statement. `element`: which one of an array in
/// a loop, an expression that may be multiplied; else nothing.
struct CudaBodyMemory {
  std::function<std::string(uint32_t instruction, const std::string& element)> load;
  std::function<std::string(uint32_t instruction, const std::string& element,
                            const std::string& value)>
      store;
};

/// In order, which is what the kernel means. `arrays`: elements of arrays that the caller has
/// beside those that the body keeps.
std::string cuda_rolled_body(const Kernel& kernel, int64_t arrays, const CudaBodyMemory& memory);

/// What comes behind the address of an array's first element in a loop, else nothing.
std::string cuda_element_offset(const Kernel& kernel, bool vector, const std::string& element);

/// What stands before a loop over arrays of so many elements.
std::string cuda_unroll(const Kernel& kernel, int64_t arrays);

}  // namespace rnnc
