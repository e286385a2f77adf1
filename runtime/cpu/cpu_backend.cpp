#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "codegen/cpu/cpu_code.h"
#include "runtime/backend/backend.h"
#include "runtime/cpu/cpu_executable.h"
#include "runtime/cpu/memory.h"
#include "runtime/cpu/thread_pool.h"

namespace rnnc::cpu {
namespace {

class CpuBackend : public Backend {
 public:
  CpuBackend(int threads, std::optional<OpenMp> openmp, const CpuTarget& target, KernelCache& cache)
      : pools_(threads, openmp), target_(target), cache_(cache) {}

  Result<std::unique_ptr<Executable>> prepare(Plan plan) override {
    auto module = load_module(plan);
    if (!module) return tl::unexpected(module.error());
    auto executable = CpuExecutable::create(std::move(plan), std::move(*module), pools_);
    if (!executable) return tl::unexpected(executable.error());
    return std::unique_ptr<Executable>(std::move(*executable));
  }

  Machine machine() const override {
    Machine machine = cpu_machine(pools_.most_threads());
    machine.name = fmt::format("CPU ({})", target_summary(target_));
    return machine;
  }

  Result<void*> allocate(size_t bytes) override { return allocate_aligned(bytes); }
  void release(void* memory) override { release_aligned(memory); }

  Status upload(void* device, const void* host, size_t bytes) override {
    std::memcpy(device, host, bytes);
    return {};
  }

  Status download(void* host, const void* device, size_t bytes) override {
    std::memcpy(host, device, bytes);
    return {};
  }

  Status clear(void* device, size_t bytes, Stream /*stream*/) override {
    std::memset(device, 0, bytes);
    return {};
  }

  Status copy(void* to, const void* from, size_t bytes, Stream /*stream*/) override {
    std::memcpy(to, from, bytes);
    return {};
  }

  Status synchronize(Stream /*stream*/) override { return {}; }

 private:
  Result<std::unique_ptr<CpuModule>> load_module(const Plan& plan) {
    // The code before optimisation says all that the object depends on besides compiler and host.
    const auto kernels = CpuKernels::emit(plan, target_);
    if (!kernels) return tl::unexpected(kernels.error());
    const std::string key = cache_key((*kernels)->text());
    if (auto kept = load_kept(plan, key)) return *std::move(kept);
    auto object = (*kernels)->compile();
    if (!object) return tl::unexpected(object.error());
    cache_.put(key, *object);
    auto gemm = gemm_object(plan, Tiles::Any);
    if (!gemm) return tl::unexpected(gemm.error());
    auto module = CpuModule::load(plan, *object, *gemm, target_);
    if (module || gemm->empty()) return module;
    // The tiles came from the cache and are sound, but not ours.
    gemm = gemm_object(plan, Tiles::Fresh);
    if (!gemm) return tl::unexpected(gemm.error());
    return CpuModule::load(plan, *object, *gemm, target_);
  }

  /// From the cache's object code; nothing if it has none that can be loaded.
  std::optional<std::unique_ptr<CpuModule>> load_kept(const Plan& plan, const std::string& key) {
    const auto object = cache_.get(key);
    if (!object) return std::nullopt;
    const auto gemm = gemm_object(plan, Tiles::Any);
    if (!gemm) return std::nullopt;
    auto module = CpuModule::load(plan, *object, *gemm, target_);
    return module ? std::optional(*std::move(module)) : std::nullopt;
  }

  std::string cache_key(std::string_view source) const {
    return fmt::format("cpu object, LLVM {}, {}\n{}", llvm_version(), target_description(target_),
                       source);
  }

  enum class Tiles : uint8_t { Any, Fresh };

  /// Of the plan's products; "" if it has none. Compiled once in a process, or read from the cache.
  Result<std::string> gemm_object(const Plan& plan, Tiles tiles) {
    static std::mutex mutex;
    static std::map<std::pair<DType, CpuTarget>, std::string> compiled;
    if (!has_products(plan)) return std::string();
    const std::scoped_lock lock(mutex);
    const auto found = compiled.find({plan.dtype, target_});
    if (found != compiled.end() && tiles == Tiles::Any) return found->second;
    const std::string key = cache_key(fmt::format("gemm tiles in {}", to_string(plan.dtype)));
    std::optional<std::string> object;
    if (tiles == Tiles::Any) object = cache_.get(key);
    if (!object) {
      auto fresh = compile_gemm_object(plan.dtype, target_);
      if (!fresh) return fresh;
      object = *std::move(fresh);
      cache_.put(key, *object);
    }
    return compiled.insert_or_assign({plan.dtype, target_}, *std::move(object)).first->second;
  }

  ThreadPools pools_;
  CpuTarget target_;
  KernelCache& cache_;
};

int hardware_threads() {
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace
}  // namespace rnnc::cpu

namespace rnnc {

Result<std::unique_ptr<Backend>> make_cpu_backend(const CompileOptions& options,
                                                  KernelCache& cache) {
  const int threads = options.threads > 0 ? options.threads : cpu::hardware_threads();
  if (Status runs = check_runs(options.cpu); !runs) return tl::unexpected(runs.error());
  std::optional<cpu::OpenMp> openmp;
  if (options.openmp) openmp = cpu::OpenMp::of_process();
  return std::make_unique<cpu::CpuBackend>(threads, openmp, options.cpu, cache);
}

DeviceDescription describe_cpu_device() {
  return {.name = "cpu",
          .detail = fmt::format("{}, {} threads", target_summary({}), cpu::hardware_threads()),
          .usable = true,
          .reason = ""};
}

}  // namespace rnnc
