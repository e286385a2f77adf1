#include "runtime/program/compile_ahead.h"

#include "ir/graph/text.h"
#include "runtime/backend/generator.h"
#include "runtime/cuda/cubin.h"
#include "runtime/cuda/typical_device.h"
#include "runtime/program/choose_plan.h"

namespace rnnc::cuda {
namespace {

/// As a device would, that has room for what its plans are made for.
Verdict judge(const CudaModule& module, std::string_view code) {
  Verdict verdict;
  for (const CudaKernel& kernel : module.kernels) {
    const auto* shape = std::get_if<CudaRecurrenceShape>(&kernel.shape);
    if (shape == nullptr) continue;
    const int64_t bytes = local_bytes(code, kernel.name);
    if (verdict.refusal.empty()) verdict.refusal = refuse_spills(bytes, shape->step_seconds);
    if (verdict.doubt.empty()) verdict.doubt = doubt_spills(bytes, shape->step_seconds);
  }
  return verdict;
}

// ---- Remembering ----
// What became of a graph is kept beside its code, so that who asks again need not plan or emit.

/// The options that decide which module a planner's graph becomes; all others are named and unused, so
/// that this does not compile once there is a new one.
std::string describe(const CompileOptions& options) {
  const auto& [dims, dtype, param_dtype, device, allow_tf32, threads, openmp, cpu, cache_directory,
               cache_limit, chunk, reverse, passes, graphs, strategy, tile_rank, tune, allocator,
               spare] = options;
  return fmt::format(
      "{}, params {}, on {}, tf32 {}, chunk {}, reverse {}, passes {}, strategy {}, tile {}",
      to_string(dtype), to_string(param_dtype.value_or(dtype)), device.to_string(), allow_tf32,
      chunk, reverse, passes.to_string(), to_string(strategy), tile_rank);
}

/// The target's device is known by its architecture and number of multiprocessors: all else that is
/// assumed of it stands in the sources, which the hash covers.
std::string record_key(const Planner& planner, const PlanShape& shape, std::string_view arch,
                       int multiprocessors, std::string_view nvrtc) {
  return fmt::format(
      "module made ahead by {}, NVRTC {}, for {} with {} multiprocessors\n"
      "batch {}, steps {}, lengths {}, resets {}\n{}\n{}",
      planner_hash(), nvrtc, arch, multiprocessors, shape.batch, shape.max_steps,
      shape.features.lengths, shape.features.resets, describe(planner.options()),
      to_string(planner.graph()));
}

/// Bytes of the code, if it is there and whole and was made as asked.
std::optional<size_t> recall(const Planner& planner, const PlanShape& shape, std::string_view arch,
                             int multiprocessors, const KernelCache& cache) {
  const std::optional<std::string> nvrtc = known_nvrtc_version(cache);
  if (!nvrtc) return std::nullopt;
  const std::optional<std::string> source =
      cache.get(record_key(planner, shape, arch, multiprocessors, *nvrtc));
  if (!source) return std::nullopt;
  const std::optional<std::string> code = find_cubin(*source, arch, *nvrtc, cache);
  return code ? std::optional(code->size()) : std::nullopt;
}

void remember(const Planner& planner, const PlanShape& shape, std::string_view arch,
              int multiprocessors, const std::string& source, const KernelCache& cache) {
  const std::optional<std::string> nvrtc = known_nvrtc_version(cache);
  if (nvrtc) cache.put(record_key(planner, shape, arch, multiprocessors, *nvrtc), source);
}

Result<CudaDevice> device_of(const Planner& planner, const PlanShape& shape,
                             const AheadTarget& target) {
  Result<CudaDevice> device = typical_cuda_device(target.arch);
  if (!device) return device;
  if (target.multiprocessors > 0) device->multiprocessors = target.multiprocessors;
  if (Status status = leave(*device, planner.options().spare_multiprocessors); !status) {
    return tl::unexpected(status.error());
  }
  if (Status status = planner.check_size(shape.batch, shape.max_steps); !status) {
    return tl::unexpected(status.error());
  }
  return device;
}

/// Compiles what a program there would choose, and says of it in `result`. The module's source.
Result<std::string> compile(const ShapePlanner& of_shape, const AheadTarget& target,
                            const KernelCache& cache, CompiledAhead& result) {
  const PlanChoice choice = of_shape.planner().choice();
  Result<Plan> plan = of_shape.plan(choice);
  if (!plan) return tl::unexpected(plan.error());
  std::string source;
  const auto take = [&](const Plan& given) -> Result<Verdict> {
    Result<CudaModule> module = make_cuda_module(given, target.arch);
    if (!module) return tl::unexpected(module.error());
    const Result<Cubin> cubin = compile_module(*module, target.arch, cache);
    if (!cubin) return tl::unexpected(cubin.error());
    if (!cubin->kept) {
      return fail("kernels were compiled and cannot be kept: {}", cubin->kept.error().message);
    }
    result.bytes = cubin->code.size();
    result.cached = cubin->cached;
    Verdict verdict = judge(*module, cubin->code);
    source = std::move(module->source);
    return verdict;
  };
  const Result<ChosenPlan> chosen = choose_plan(of_shape, *std::move(plan), choice, take);
  if (!chosen) return tl::unexpected(chosen.error());
  result.note = chosen->note;
  return source;
}

}  // namespace
}  // namespace rnnc::cuda

namespace rnnc {

Result<CompiledAhead> compile_ahead(const Planner& planner, const PlanShape& shape,
                                    const AheadTarget& target, const KernelCache& cache) {
  const Result<cuda::CudaDevice> device = cuda::device_of(planner, shape, target);
  if (!device) return tl::unexpected(device.error());
  CompiledAhead result{.device = device->name, .multiprocessors = device->multiprocessors};
  const std::optional<size_t> bytes =
      cuda::recall(planner, shape, target.arch, device->multiprocessors, cache);
  if (bytes) {
    result.bytes = *bytes;
    result.cached = true;
    return result;
  }
  const Result<ShapePlanner> of_shape = planner.at(shape, cuda::cuda_machine(*device));
  if (!of_shape) return tl::unexpected(of_shape.error());
  const Result<std::string> source = cuda::compile(*of_shape, target, cache, result);
  if (!source) return tl::unexpected(source.error());
  // What was not made as asked says so each time.
  if (result.note.empty()) {
    cuda::remember(planner, shape, target.arch, result.multiprocessors, *source, cache);
  }
  return result;
}

Result<CompiledAhead> compile_training_ahead(const Planner& planner, const PlanShape& shape,
                                             const TrainingOptions& options,
                                             const AheadTarget& target, const KernelCache& cache) {
  const Result<cuda::CudaDevice> device = cuda::device_of(planner, shape, target);
  if (!device) return tl::unexpected(device.error());
  const Machine machine = cuda::cuda_machine(*device);
  Result<TrainingGraphs> graphs = planner.differentiate(shape.features, options, machine);
  if (!graphs) return tl::unexpected(graphs.error());
  CompiledAhead both{
      .device = device->name, .multiprocessors = device->multiprocessors, .cached = true};
  for (Graph* half : {&graphs->forward, &graphs->backward}) {
    CompiledAhead result;
    const ShapePlanner of_half = planner.at(std::move(*half), options.residuals, shape, machine);
    const Result<std::string> source = cuda::compile(of_half, target, cache, result);
    if (!source) return tl::unexpected(source.error());
    both.bytes += result.bytes;
    both.cached = both.cached && result.cached;
    if (both.note.empty()) both.note = result.note;
  }
  return both;
}

}  // namespace rnnc
