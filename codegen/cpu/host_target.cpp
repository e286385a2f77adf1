#include "codegen/cpu/host_target.h"

#include <llvm/ADT/StringMap.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/Triple.h>

#include <algorithm>
#include <new>
#include <vector>

namespace rnnc {
namespace {

std::string host_features() {
  std::vector<std::string> features;
  for (const auto& feature : llvm::sys::getHostCPUFeatures()) {
    features.push_back(fmt::format("{}{}", feature.second ? '+' : '-', feature.first().str()));
  }
  std::sort(features.begin(), features.end());
  return fmt::format("{}", fmt::join(features, ","));
}

/// The widest vectors that the host runs at full speed. Some AVX-512 processors lower their clock
/// for 512-bit work; LLVM knows which and says "prefer-256-bit".
void choose_vectors(HostTarget& host, const llvm::MCSubtargetInfo& subtarget) {
  const auto has = [&](const char* feature) { return subtarget.checkFeatures(feature); };
  if (!host.x86) {
    host.vector_registers = 32;
    host.fma = true;
    return;
  }
  const bool avx512 = has("+avx512f") && has("+avx512vl") && has("+avx512bw") && has("+avx512dq");
  host.fma = has("+fma") || avx512;
  host.vector_registers = avx512 ? 32 : 16;
  if (avx512 && !has("+prefer-256-bit")) {
    host.vector_bits = 512;
  } else if (has("+avx2") && host.fma) {
    host.vector_bits = 256;
  }
}

HostTarget find_target(CpuLevel level) {
  HostTarget host;
  host.triple = llvm::sys::getProcessTriple();
  host.x86 = llvm::Triple(host.triple).getArch() == llvm::Triple::x86_64;
  if (level == CpuLevel::Host || !host.x86) {
    host.cpu = llvm::sys::getHostCPUName().str();
    host.features = host_features();
  } else {
    host.cpu = level == CpuLevel::Avx2 ? "x86-64-v3" : "x86-64";
  }
  if (auto machine = make_target_machine(host)) {
    choose_vectors(host, *(*machine)->getMCSubtargetInfo());
  }
  return host;
}

struct Targets {
  Targets() {
    // LLVM has no exceptions, and would end the process; its frames let ours pass.
    llvm::install_bad_alloc_error_handler([](void* /*data*/, const char* /*reason*/,
                                             bool /*diagnostics*/) { throw std::bad_alloc(); });
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    for (const CpuLevel level : {CpuLevel::Host, CpuLevel::Avx2, CpuLevel::Baseline}) {
      levels.push_back(find_target(level));
    }
  }
  std::vector<HostTarget> levels;  // in the order of `CpuLevel`
};

}  // namespace

const HostTarget& host_target(CpuLevel level) {
  static const Targets targets;
  return targets.levels[static_cast<size_t>(level)];
}

Result<std::unique_ptr<llvm::TargetMachine>> make_target_machine(const HostTarget& host) {
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(host.triple, error);
  if (target == nullptr) return fail("LLVM cannot generate code for this machine: {}", error);
  llvm::TargetOptions options;
  // Multiplications and additions may fuse; nothing else about floating point is relaxed.
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  std::unique_ptr<llvm::TargetMachine> machine(
      target->createTargetMachine(host.triple, host.cpu, host.features, options, llvm::Reloc::PIC_,
                                  llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default));
  if (machine == nullptr) return fail("LLVM cannot generate code for {}", host.triple);
  return machine;
}

std::string cpu_target_description(CpuLevel level) {
  const HostTarget& host = host_target(level);
  return fmt::format("{} {} {}-bit vectors {}", host.triple, host.cpu, host.vector_bits,
                     host.features);
}

std::string cpu_summary() {
  const HostTarget& host = host_target(CpuLevel::Host);
  return fmt::format("{}, {}-bit vectors", host.cpu, host.vector_bits);
}

std::string llvm_version() {
  return LLVM_VERSION_STRING;
}

}  // namespace rnnc
