#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "codegen/cpu/cpu_code.h"
#include "runtime/backend.h"
#include "runtime/cpu/cpu_executable.h"
#include "runtime/cpu/memory.h"
#include "runtime/cpu/thread_pool.h"

namespace rnnc {
namespace {

class CpuBackend : public Backend {
 public:
  CpuBackend(int threads, const CpuTarget& target, KernelCache& cache)
      : pools_(threads), target_(target), cache_(cache) {}

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

  Status synchronize(Stream /*stream*/) override { return {}; }

 private:
  Result<std::unique_ptr<CpuModule>> load_module(const Plan& plan) {
    // The code before optimisation says all that the object depends on besides compiler and host.
    auto source = emit_kernels_llvm(plan, target_);
    if (!source) return tl::unexpected(source.error());
    std::string gemm;
    if (has_products(plan)) {
      auto tiles = gemm_object(plan.dtype);
      if (!tiles) return tl::unexpected(tiles.error());
      gemm = *std::move(tiles);
    }
    const std::string key = cache_key(*source);
    if (const auto cached = cache_.get(key)) {
      if (auto module = CpuModule::load(plan, *cached, gemm, target_)) return module;
    }
    auto object = compile_object(plan, target_);
    if (!object) return tl::unexpected(object.error());
    cache_.put(key, *object);
    return CpuModule::load(plan, *object, gemm, target_);
  }

  std::string cache_key(std::string_view source) const {
    return fmt::format("rnnc {} cpu object, LLVM {}, {}\n{}", RNNC_VERSION, llvm_version(),
                       target_description(target_), source);
  }

  /// Compiled once in a process, or read from the cache.
  Result<std::string> gemm_object(DType dtype) {
    static std::mutex mutex;
    static std::map<std::pair<DType, CpuTarget>, std::string> compiled;
    const std::scoped_lock lock(mutex);
    const auto found = compiled.find({dtype, target_});
    if (found != compiled.end()) return found->second;
    const std::string key = cache_key(fmt::format("gemm tiles in {}", to_string(dtype)));
    std::optional<std::string> object = cache_.get(key);
    if (!object) {
      auto fresh = compile_gemm_object(dtype, target_);
      if (!fresh) return fresh;
      object = *std::move(fresh);
      cache_.put(key, *object);
    }
    return compiled.emplace(std::pair(dtype, target_), *std::move(object)).first->second;
  }

  ThreadPools pools_;
  CpuTarget target_;
  KernelCache& cache_;
};

int hardware_threads() {
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

Result<std::unique_ptr<Backend>> make_cpu_backend(const CompileOptions& options,
                                                  KernelCache& cache) {
  const int threads = options.threads > 0 ? options.threads : hardware_threads();
  if (Status runs = check_runs(options.cpu); !runs) return tl::unexpected(runs.error());
  return std::make_unique<CpuBackend>(threads, options.cpu, cache);
}

DeviceDescription describe_cpu_device() {
  return {.name = "cpu",
          .detail = fmt::format("{}, {} threads", target_summary({}), hardware_threads()),
          .usable = true,
          .reason = ""};
}

}  // namespace rnnc
