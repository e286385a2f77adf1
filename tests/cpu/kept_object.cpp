#include "tests/cpu/kept_object.h"

#include <fmt/format.h>

#include "runtime/backend/kernel_cache.h"
#include "tests/cpu/value_of.h"
#include "tests/support/kept_kernels.h"

namespace rnnc::test {

std::string kept_object(const Plan& plan, const CpuTarget& target) {
  static const KernelCache cache(kept_kernels());
  const auto kernels = value_of(CpuKernels::emit(plan, target));
  const std::string key = fmt::format("a test's object, LLVM {}, {}\n{}", llvm_version(),
                                      target_description(target), kernels->text());
  if (auto kept = cache.get(key)) return *kept;
  std::string object = value_of(kernels->compile());
  cache.put(key, object);
  return object;
}

}  // namespace rnnc::test
