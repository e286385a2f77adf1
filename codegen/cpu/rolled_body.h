/// The body of a kernel with loops, at some vectors of a row at once.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <functional>
#include <map>
#include <vector>

#include "codegen/cpu/vector_math.h"
#include "ir/plan/plan.h"

namespace rnnc {

/// How the values of a body are loaded and stored. `element`: of an array, else null; `place`:
/// which of the vectors, of what has one value per row the first.
struct BodyMemory {
  std::function<llvm::Value*(uint32_t instruction, llvm::Value* element, size_t place)> load;
  std::function<void(uint32_t instruction, llvm::Value* element, llvm::Value* value, size_t place)>
      store;
  /// Of a row, whose vectors all are here; unset where kernels have no reductions.
  std::function<llvm::Value*(Op reduction, const std::vector<llvm::Value*>& values)> reduce = {};
};

/// In order, which is what the kernel means; loops stay loops. Arrays that it keeps lie in the
/// function's frame.
void emit_rolled_body(llvm::IRBuilder<>& builder, VectorMath& math, llvm::FixedVectorType* vector,
                      const Kernel& kernel, size_t places, const BodyMemory& memory);

/// `count` vectors in the function's frame.
llvm::Value* vectors_in_frame(llvm::IRBuilder<>& builder, llvm::FixedVectorType* vector,
                              int64_t count);

}  // namespace rnnc
