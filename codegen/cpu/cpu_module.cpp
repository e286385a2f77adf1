#include <llvm/ExecutionEngine/Orc/ExecutionUtils.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/Support/MemoryBuffer.h>

#include <algorithm>

#include "codegen/cpu/cpu_code.h"
#include "codegen/cpu/cpu_loops.h"
#include "codegen/cpu/emit_gemm.h"
#include "codegen/cpu/host_target.h"
#include "codegen/cpu/kernel_names.h"
#include "codegen/cpu/kernel_schedule.h"
#include "ir/plan/launches/launches.h"

namespace rnnc {
namespace {

std::string describe(llvm::Error error) {
  return llvm::toString(std::move(error));
}

class JitModule : public CpuModule {
 public:
  Status load_objects(const Plan& plan, const std::string& object, const std::string& gemm_object,
                      const HostTarget& host) {
    llvm::orc::JITTargetMachineBuilder machine{llvm::Triple(host.triple)};
    auto jit = llvm::orc::LLJITBuilder()
                   .setJITTargetMachineBuilder(std::move(machine))
                   .setPlatformSetUp(llvm::orc::setUpInactivePlatform)
                   .create();
    if (!jit) return fail("cannot start the JIT: {}", describe(jit.takeError()));
    jit_ = std::move(*jit);
    // What goes wrong is in the errors of calls, too.
    jit_->getExecutionSession().setErrorReporter(llvm::consumeError);
    if (auto linked = link_libraries(); !linked) return linked;
    if (Status added = add_object(object); !added) return added;
    if (has_products(plan)) {
      if (Status added = add_object(gemm_object); !added) return added;
    }
    return find_functions(plan, host);
  }

  const std::vector<CpuKernel>& kernels() const override { return kernels_; }
  const std::vector<CpuSteps>& loops() const override { return loops_; }
  const std::vector<std::vector<CpuScanRound>>& rounds() const override { return rounds_; }
  const CpuGemm& gemm() const override { return gemm_; }
  size_t scratch_bytes() const override { return scratch_bytes_; }

 private:
  /// Vector math comes from libmvec, the rest of the math library from this process.
  Status link_libraries() {
    using Generator = llvm::orc::DynamicLibrarySearchGenerator;
    const char prefix = jit_->getDataLayout().getGlobalPrefix();
    auto process = Generator::GetForCurrentProcess(prefix);
    if (!process) return fail("cannot search this program: {}", describe(process.takeError()));
    jit_->getMainJITDylib().addGenerator(std::move(*process));
    if (auto vector_library = Generator::Load("libmvec.so.1", prefix)) {
      jit_->getMainJITDylib().addGenerator(std::move(*vector_library));
    } else {
      llvm::consumeError(vector_library.takeError());  // then no kernel calls it
    }
    return {};
  }

  Status add_object(const std::string& object) {
    // The copy is the JIT's: it may keep the object longer than our caller does.
    auto buffer = llvm::MemoryBuffer::getMemBufferCopy(object, "rnnc kernels");
    if (auto error = jit_->addObjectFile(std::move(buffer))) {
      return fail("cannot load kernels: {}", describe(std::move(error)));
    }
    return {};
  }

  template <typename Function>
  Status find(const std::string& name, std::vector<Function>& functions) {
    auto symbol = jit_->lookup(name);
    if (!symbol) return fail("cannot load kernel {}: {}", name, describe(symbol.takeError()));
    functions.push_back(symbol->toPtr<Function>());
    return {};
  }

  Status find_functions(const Plan& plan, const HostTarget& host) {
    const std::vector<bool> plain = plain_kernels(plan);
    for (size_t i = 0; i < plan.kernels.size(); ++i) {
      if (!plain[i]) {
        kernels_.push_back(nullptr);
        continue;
      }
      if (auto found = find(kernel_name(i), kernels_); !found) return found;
      const KernelSchedule schedule = schedule_kernel(plan.kernels[i]);
      scratch_bytes_ = std::max<size_t>(scratch_bytes_, schedule.scratch_slots *
                                                            scratch_slot_elements(plan.kernels[i]) *
                                                            size_of(compute_type(plan.dtype)));
    }
    if (Status found = find_loops(plan); !found) return found;
    gemm_.lanes = gemm_lanes(host, plan.dtype);
    gemm_.block_k = gemm_block_k(host);
    if (!has_products(plan)) return {};
    for (int vectors = 1; vectors <= kMostPanelVectors; ++vectors) {
      for (int rows = 1; rows <= most_tile_rows(host, vectors); ++rows) {
        auto found = find(gemm_tile_name({rows, vectors}), gemm_.tiles[vectors - 1]);
        if (!found) return found;
      }
    }
    return {};
  }

  Status find_loops(const Plan& plan) {
    loops_.resize(plan.stages.size());
    rounds_.resize(plan.stages.size());
    for (const CpuLoop& loop : cpu_loops(plan)) {
      std::vector<CpuSteps> function;
      if (Status found = find(loop_name(loop.stage), function); !found) return found;
      loops_[loop.stage] = function[0];
      if (Status found = find_rounds(loop); !found) return found;
    }
    return {};
  }

  Status find_rounds(const CpuLoop& loop) {
    if (loop.rounds == nullptr) return {};
    for (size_t i = 0; i < loop.rounds->size(); ++i) {
      std::vector<CpuSteps> functions;
      for (const std::string& name :
           {round_map_name(loop.stage, i), round_states_name(loop.stage, i)}) {
        if (Status found = find(name, functions); !found) return found;
      }
      rounds_[loop.stage].push_back({.map = functions[0], .states = functions[1]});
    }
    return {};
  }

  std::unique_ptr<llvm::orc::LLJIT> jit_;
  std::vector<CpuKernel> kernels_;
  std::vector<CpuSteps> loops_;
  std::vector<std::vector<CpuScanRound>> rounds_;
  CpuGemm gemm_;
  size_t scratch_bytes_ = 0;
};

}  // namespace

std::string kernel_name(size_t index) {
  return fmt::format("kernel_{}", index);
}

bool has_products(const Plan& plan) {
  return std::ranges::any_of(plan.stages, [&](const Stage& stage) {
    return std::ranges::any_of(stage.launches, [&](const Launch& launch) {
      return work_of(plan, launch, 1).products > 0;
    });
  });
}

Result<std::unique_ptr<CpuModule>> CpuModule::load(const Plan& plan, const std::string& object,
                                                   const std::string& gemm_object,
                                                   const CpuTarget& target) {
  auto module = std::make_unique<JitModule>();
  if (auto loaded = module->load_objects(plan, object, gemm_object, host_target(target)); !loaded) {
    return tl::unexpected(loaded.error());
  }
  return module;
}

}  // namespace rnnc
