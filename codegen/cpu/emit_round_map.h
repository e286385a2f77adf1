/// The composed map of a scan's round, as vectors that go round from step to step.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <functional>
#include <vector>

#include "codegen/cpu/vector_math.h"
#include "ir/plan/scan_round.h"

namespace rnnc {

/// In the order of CpuScanRound: coefficients [m, m], offsets [m], and the greatest size that any of
/// these had on the way, where the semiring's zero counts as 0. A NaN does not count there, but
/// stays in the map.
class RoundMap {
 public:
  using Values = std::vector<llvm::Value*>;

  RoundMap(llvm::IRBuilder<>& builder, VectorMath& math, const ScanRound& round)
      : builder_(builder), math_(math), round_(round) {}

  Values identity();
  /// `map`, and then a step's, whose instructions have the values that `value` gives.
  Values then(const Values& map, const std::function<llvm::Value*(uint32_t)>& value);

 private:
  llvm::Value* zero();
  llvm::Value* times(llvm::Value* a, llvm::Value* b);
  llvm::Value* join(llvm::Value* sum, llvm::Value* a, llvm::Value* b);
  llvm::Value* greatest(llvm::Value* so_far, llvm::Value* value);
  size_t size() const { return round_.states.size(); }

  llvm::IRBuilder<>& builder_;
  VectorMath& math_;
  const ScanRound& round_;
};

}  // namespace rnnc
