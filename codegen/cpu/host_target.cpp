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
#include <array>
#include <charconv>
#include <map>
#include <mutex>
#include <new>
#include <vector>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "codegen/cpu/vector_bits.h"

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

/// The processor's name for people: CPUID's, of which a virtual machine may have made another.
std::string brand() {
  std::string text;
#if defined(__x86_64__)
  constexpr unsigned kFirstLeaf = 0x80000002;
  constexpr unsigned kLeaves = 3;
  if (__get_cpuid_max(0x80000000, nullptr) < kFirstLeaf + kLeaves - 1) return text;
  for (unsigned leaf = kFirstLeaf; leaf < kFirstLeaf + kLeaves; ++leaf) {
    std::array<unsigned, 4> words = {};
    __get_cpuid(leaf, words.data(), &words[1], &words[2], &words[3]);
    text.append(reinterpret_cast<const char*>(words.data()), sizeof(words));
  }
#endif
  return text.substr(0, text.find('\0'));
}

/// What the level allows, with the vectors that are fast there.
void find_instructions(HostTarget& host, const llvm::MCSubtargetInfo& subtarget, bool is_host) {
  const auto has = [&](const char* feature) { return subtarget.checkFeatures(feature); };
  if (!host.x86) {
    host.vectors = {128, 128};
    host.vector_registers = 32;
    host.fma = true;
    return;
  }
  host.avx512 = has("+avx512f") && has("+avx512vl") && has("+avx512bw") && has("+avx512dq");
  host.fma = has("+fma") || host.avx512;
  host.vector_registers = host.avx512 ? 32 : 16;
  const std::string name = is_host ? brand() : "";
  host.vectors = fast_vector_bits({.name = host.cpu,
                                   .brand = name,
                                   .avx512 = host.avx512,
                                   .avx2 = has("+avx2") && has("+fma")});
}

HostTarget find_level(CpuLevel level) {
  HostTarget host;
  host.triple = llvm::sys::getProcessTriple();
  host.x86 = llvm::Triple(host.triple).getArch() == llvm::Triple::x86_64;
  const bool is_host = level == CpuLevel::Host || !host.x86;
  if (is_host) {
    host.cpu = llvm::sys::getHostCPUName().str();
    host.features = host_features();
  } else {
    host.cpu = level == CpuLevel::Avx2 ? "x86-64-v3" : "x86-64";
  }
  if (auto machine = make_target_machine(host)) {
    find_instructions(host, *(*machine)->getMCSubtargetInfo(), is_host);
  }
  return host;
}

unsigned widest_vectors(const HostTarget& host) {
  if (host.avx512) return 512;
  return host.x86 && host.fma ? 256 : 128;
}

/// Levels with the vectors that are fast there, and targets with those that were asked for.
class Targets {
 public:
  Targets() {
    // LLVM has no exceptions, and would end the process; its frames let ours pass.
    llvm::install_bad_alloc_error_handler([](void* /*data*/, const char* /*reason*/,
                                             bool /*diagnostics*/) { throw std::bad_alloc(); });
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    for (const CpuLevel level : {CpuLevel::Host, CpuLevel::Avx2, CpuLevel::Baseline}) {
      levels_.push_back(find_level(level));
    }
  }

  const HostTarget& level(CpuLevel level) const { return levels_[static_cast<size_t>(level)]; }

  const HostTarget& find(const CpuTarget& target) {
    const std::scoped_lock lock(mutex_);
    const auto [entry, is_new] = targets_.try_emplace(target, level(target.level));
    HostTarget& host = entry->second;
    if (!is_new) return host;
    const auto [products, elementwise] = target.vectors;
    if (products != 0) host.vectors.products = products;
    host.vectors.elementwise =
        std::min(elementwise != 0 ? elementwise : host.vectors.elementwise, host.vectors.products);
    if (host.vectors.products == 512) host.features += ",-prefer-256-bit";
    return host;
  }

 private:
  std::mutex mutex_;
  std::vector<HostTarget> levels_;           // in the order of `CpuLevel`
  std::map<CpuTarget, HostTarget> targets_;  // whose addresses stay
};

Targets& targets() {
  static Targets all;
  return all;
}

bool is_width(unsigned bits) {
  return bits == 128 || bits == 256 || bits == 512;
}

}  // namespace

const HostTarget& host_target(const CpuTarget& target) {
  return targets().find(target);
}

Result<CpuLevel> parse_cpu_level(const std::string& text) {
  for (const CpuLevel level : {CpuLevel::Host, CpuLevel::Avx2, CpuLevel::Baseline}) {
    if (text == to_string(level)) return level;
  }
  return fail("a CPU level is `host`, `avx2` or `baseline`, not `{}`", text);
}

std::string to_string(CpuLevel level) {
  constexpr std::array<const char*, 3> kNames = {"host", "avx2", "baseline"};
  return kNames[static_cast<size_t>(level)];
}

Result<VectorBits> parse_vector_bits(const std::string& text) {
  const size_t comma = text.find(',');
  const auto number = [](std::string_view part) {
    unsigned bits = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), bits);
    const bool whole = error == std::errc() && end == part.data() + part.size();
    return whole && is_width(bits) ? bits : 0;
  };
  const std::string_view all = text;
  VectorBits vectors = {.products = number(all.substr(0, comma))};
  vectors.elementwise =
      comma == std::string::npos ? vectors.products : number(all.substr(comma + 1));
  if (vectors.products != 0 && vectors.elementwise != 0) return vectors;
  return fail(
      "vectors have 128, 256 or 512 bits, those of products before those of elementwise "
      "work if they differ (`512,256`), not `{}`",
      text);
}

Status check_target(const CpuTarget& target) {
  const HostTarget& level = targets().level(target.level);
  const unsigned widest = widest_vectors(level);
  const auto [products, elementwise] = target.vectors;
  if (std::max(products, elementwise) > widest) {
    return fail("{} has no {}-bit vectors: at most {} bits", level.cpu,
                std::max(products, elementwise), widest);
  }
  const unsigned most = products != 0 ? products : level.vectors.products;
  if (elementwise > most) {
    return fail(
        "vectors of elementwise work ({} bits) are at most as wide as those of products "
        "({} bits)",
        elementwise, most);
  }
  return {};
}

Status check_runs(const CpuTarget& target) {
  const HostTarget& host = targets().level(CpuLevel::Host);
  if (target.level == CpuLevel::Avx2 && widest_vectors(host) < 256) {
    return fail("this machine's processor ({}) has no AVX2", host.cpu);
  }
  return check_target(target);
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

std::string target_description(const CpuTarget& target) {
  const HostTarget& host = host_target(target);
  return fmt::format("{} {} {}-bit and {}-bit vectors {}", host.triple, host.cpu,
                     host.vectors.products, host.vectors.elementwise, host.features);
}

std::string target_summary(const CpuTarget& target) {
  const HostTarget& host = host_target(target);
  const auto [products, elementwise] = host.vectors;
  if (products == elementwise) return fmt::format("{}, {}-bit vectors", host.cpu, products);
  return fmt::format("{}, {}-bit vectors for products, {}-bit ones for elementwise work", host.cpu,
                     products, elementwise);
}

std::string llvm_version() {
  return LLVM_VERSION_STRING;
}

}  // namespace rnnc
