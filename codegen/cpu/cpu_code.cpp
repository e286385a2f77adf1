#include "codegen/cpu/cpu_code.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Pass.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Transforms/Scalar.h>

#include "codegen/cpu/cpu_loops.h"
#include "codegen/cpu/emit_gemm.h"
#include "codegen/cpu/emit_kernel.h"
#include "codegen/cpu/emit_loop.h"
#include "codegen/cpu/host_target.h"
#include "codegen/cpu/kernel_names.h"

namespace rnnc {
namespace {

Status check_dtype(DType dtype) {
  if (dtype == DType::f32 || dtype == DType::f64) return {};
  return fail("the CPU runs f32 and f64, not {}", to_string(dtype));
}

Status check_types(const Plan& plan) {
  if (Status status = check_dtype(plan.dtype); !status) return status;
  for (const Kernel& kernel : plan.kernels) {
    for (const Kernel::Argument& argument : kernel.arguments) {
      RNNC_CHECK(argument.dtype == plan.dtype, "kernel `{}` of a plan in {} has an argument in {}",
                 kernel.name, to_string(plan.dtype), to_string(argument.dtype));
    }
  }
  return {};
}

using Module = std::unique_ptr<llvm::Module>;

Result<Module> make_module(const HostTarget& host, llvm::LLVMContext& context) {
  auto machine = make_target_machine(host);
  if (!machine) return tl::unexpected(machine.error());
  auto module = std::make_unique<llvm::Module>("rnnc", context);
  module->setTargetTriple(host.triple);
  module->setDataLayout((*machine)->createDataLayout());
  return module;
}

void check(const llvm::Module& module) {
  std::string problems;
  llvm::raw_string_ostream stream(problems);
  RNNC_CHECK(!llvm::verifyModule(module, &stream), "{}", problems);
}

Result<Module> kernels_module(const Plan& plan, const HostTarget& host,
                              llvm::LLVMContext& context) {
  if (Status checked = check_types(plan); !checked) return tl::unexpected(checked.error());
  Result<Module> module = make_module(host, context);
  if (!module) return module;
  const std::vector<ArgumentStrides> strides = argument_strides(plan);
  const std::vector<bool> plain = plain_kernels(plan);
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    if (!plain[i]) continue;
    emit_kernel(**module, host, plan.kernels[i], strides[i], plan.dtype, kernel_name(i));
  }
  for (const CpuLoop& loop : cpu_loops(plan)) emit_loop(**module, host, loop, plan.dtype);
  check(**module);
  return module;
}

/// The kernels and the tiles.
Result<Module> whole_module(const Plan& plan, const HostTarget& host, llvm::LLVMContext& context) {
  Result<Module> module = kernels_module(plan, host, context);
  if (!module || !has_products(plan)) return module;
  emit_gemm_tiles(**module, host, plan.dtype);
  check(**module);
  return module;
}

std::string print(const llvm::Module& module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, nullptr);
  return text;
}

/// The emitter already does what an optimiser would (vectors, unrolling, fusion), so all that is
/// left to do before code generation is to compute equal values once.
Result<std::string> generate_code(llvm::Module& module, const HostTarget& host,
                                  llvm::CodeGenFileType type) {
  auto machine = make_target_machine(host);
  if (!machine) return tl::unexpected(machine.error());
  llvm::SmallVector<char, 0> code;
  llvm::raw_svector_ostream stream(code);
  llvm::legacy::PassManager passes;
  // Without the target's cost model masked loads and stores would become branches per lane.
  passes.add(llvm::createTargetTransformInfoWrapperPass((*machine)->getTargetIRAnalysis()));
  passes.add(llvm::createEarlyCSEPass());
  if ((*machine)->addPassesToEmitFile(passes, stream, nullptr, type)) {
    return fail("LLVM cannot write this kind of file for {}", host.triple);
  }
  passes.run(module);
  return std::string(code.begin(), code.end());
}

class EmittedKernels : public CpuKernels {
 public:
  EmittedKernels(std::unique_ptr<llvm::LLVMContext> context, Module module, const HostTarget& host)
      : context_(std::move(context)), module_(std::move(module)), host_(host) {}

  std::string text() const override { return print(*module_); }
  Result<std::string> compile() override {
    return generate_code(*module_, host_, llvm::CodeGenFileType::ObjectFile);
  }

 private:
  std::unique_ptr<llvm::LLVMContext> context_;  // outlives the module
  Module module_;
  const HostTarget& host_;
};

}  // namespace

Result<std::string> emit_llvm(const Plan& plan, const CpuTarget& target) {
  llvm::LLVMContext context;
  return whole_module(plan, host_target(target), context).map([](const Module& module) {
    return print(*module);
  });
}

Result<std::unique_ptr<CpuKernels>> CpuKernels::emit(const Plan& plan, const CpuTarget& target) {
  auto context = std::make_unique<llvm::LLVMContext>();
  const HostTarget& host = host_target(target);
  Result<Module> module = kernels_module(plan, host, *context);
  if (!module) return tl::unexpected(module.error());
  return std::make_unique<EmittedKernels>(std::move(context), *std::move(module), host);
}

Result<std::string> emit_assembly(const Plan& plan, const CpuTarget& target) {
  llvm::LLVMContext context;
  const HostTarget& host = host_target(target);
  const Result<Module> module = whole_module(plan, host, context);
  if (!module) return tl::unexpected(module.error());
  return generate_code(**module, host, llvm::CodeGenFileType::AssemblyFile);
}

Result<std::string> compile_object(const Plan& plan, const CpuTarget& target) {
  return CpuKernels::emit(plan, target).and_then([](const std::unique_ptr<CpuKernels>& kernels) {
    return kernels->compile();
  });
}

Result<std::string> compile_gemm_object(DType dtype, const CpuTarget& target) {
  if (Status checked = check_dtype(dtype); !checked) return tl::unexpected(checked.error());
  llvm::LLVMContext context;
  const HostTarget& host = host_target(target);
  const Result<Module> module = make_module(host, context);
  if (!module) return tl::unexpected(module.error());
  emit_gemm_tiles(**module, host, dtype);
  check(**module);
  return generate_code(**module, host, llvm::CodeGenFileType::ObjectFile);
}

}  // namespace rnnc
