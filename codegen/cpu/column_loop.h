/// Loops over a row's columns, some vectors at a time.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <functional>

namespace rnnc {

/// Makes a loop that takes `step` columns at a time from `begin` on, as often as they lie in front of
/// `end`: `body` emits what is done from a column on. Gives the first column left.
llvm::Value* emit_column_loop(llvm::IRBuilder<>& builder, llvm::Value* begin, llvm::Value* end,
                              int64_t step, const std::function<void(llvm::Value*)>& body);

/// Lanes of a vector from `begin` on that lie in front of `end`.
llvm::Value* emit_tail_mask(llvm::IRBuilder<>& builder, llvm::Value* begin, llvm::Value* end,
                            unsigned lanes);

}  // namespace rnnc
