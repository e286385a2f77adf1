#include <map>

#include "codegen/cuda/cuda_code.h"
#include "codegen/cuda/emit_kernel.h"
#include "codegen/cuda/kernel_abi.h"
#include "codegen/cuda/prelude.h"
#include "codegen/cuda/step_product.h"

namespace rnnc {
namespace {

/// The kernels of the products that rnnc does itself, each once.
std::string emit_step_products(const Plan& plan) {
  std::map<std::string, std::string> definitions;
  for (const Stage& stage : plan.stages) {
    if (stage.domain != Domain::Step) continue;
    for (const Launch& launch : stage.launches) {
      const auto* gemm = std::get_if<GemmLaunch>(&launch);
      if (gemm == nullptr) continue;
      if (std::optional<StepProduct> product = step_product(plan, *gemm)) {
        definitions.emplace(std::move(product->name), std::move(product->definition));
      }
    }
  }
  if (definitions.empty()) return {};
  std::string text(kCudaStepProduct);
  for (const auto& [name, definition] : definitions) text += '\n' + definition;
  return text;
}

}  // namespace

Result<std::string> emit_cuda(const Plan& plan) {
  if (plan.dtype == DType::f64) {
    return fail("f64 runs on the CPU only; on a GPU use f32, bf16 or f16");
  }
  std::string unit(kCudaPrelude);
  unit += emit_step_products(plan);
  if (has_sequence_kernels(plan)) unit += kCudaSequence;
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    const Kernel& kernel = plan.kernels[i];
    if (kernel.arguments.size() > kCudaMaxArguments) {
      return fail("one step reads and writes {} arrays; on a GPU at most {} work",
                  kernel.arguments.size(), kCudaMaxArguments);
    }
    unit += '\n';
    unit += emit_cuda_kernel(kernel, i);
  }
  return unit;
}

}  // namespace rnnc
