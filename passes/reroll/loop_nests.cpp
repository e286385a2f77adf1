// 1. Fold the loops (passes/reroll/folded_kernel.h), so that each of their instructions is one.
// 2. Find the families of that, whose positions are whole arrays where instructions are, and make
//    loops of them.
// 3. Unfold the loops in what is left, in loops and outside.
#include "passes/reroll/loop_nests.h"

#include <utility>

#include "passes/reroll/folded_kernel.h"

namespace rnnc {

std::optional<RerolledKernel> nest_loops(const RerolledKernel& rolled,
                                         const std::vector<Access>& accesses) {
  const FoldedKernel folded = fold_loops(rolled.kernel);
  std::vector<Access> own;
  for (const uint32_t argument : rolled.arguments) own.push_back(accesses[argument]);
  const KernelFamilies families =
      find_families(folded.kernel, own, rolled.carries, {.least = kLeastOuterTurns});
  if (families.families.empty()) return std::nullopt;
  RerolledKernel result = reroll_kernel(folded.kernel, rolled.carries, families);
  std::optional<Kernel> unfolded =
      unfold_loops(result.kernel, folded, result.origins, result.carries);
  if (!unfolded) return std::nullopt;
  result.kernel = *std::move(unfolded);
  result.origins.clear();
  for (uint32_t& argument : result.arguments) argument = rolled.arguments[argument];
  return result;
}

}  // namespace rnnc
