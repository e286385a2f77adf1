#include "runtime/explain/emit_code.h"

#ifdef RNNC_WITH_CPU
#include "codegen/cpu/cpu_code.h"
#endif
#ifdef RNNC_WITH_CUDA
#include "codegen/cuda/cuda_code.h"
#endif

namespace rnnc::explain {
namespace {

Result<std::string> emit_cpu_code([[maybe_unused]] const Plan& plan,
                                  [[maybe_unused]] std::string_view form,
                                  [[maybe_unused]] const CpuTarget& target) {
#ifdef RNNC_WITH_CPU
  return form == "llvm" ? emit_llvm(plan, target) : emit_assembly(plan, target);
#else
  return fail("this build of rnnc has no CPU backend");
#endif
}

Result<std::string> emit_cuda_code([[maybe_unused]] const Plan& plan,
                                   [[maybe_unused]] std::string_view form,
                                   [[maybe_unused]] const std::string& arch) {
#ifdef RNNC_WITH_CUDA
  Result<std::string> source = emit_cuda(plan, arch);
  if (!source || form == "cuda") return source;
  return form == "ptx" ? compile_ptx(*source, arch) : compile_cubin(*source, arch);
#else
  return fail("this build of rnnc has no CUDA backend");
#endif
}

}  // namespace

Result<std::string> emit_code(const Plan& plan, std::string_view form, const CodeTarget& target) {
  const bool cpu = form == "llvm" || form == "asm";
  return cpu ? emit_cpu_code(plan, form, target.cpu) : emit_cuda_code(plan, form, target.arch);
}

}  // namespace rnnc::explain
