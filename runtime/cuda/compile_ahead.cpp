#include "runtime/program/compile_ahead.h"

#include "runtime/cuda/cubin.h"
#include "runtime/cuda/typical_device.h"
#include "runtime/program/choose_plan.h"

namespace rnnc::cuda {
namespace {

/// As a device would, that has room for what its plans are made for.
std::string refuse(const CudaModule& module, std::string_view code) {
  for (const CudaKernel& kernel : module.kernels) {
    const auto* shape = std::get_if<CudaRecurrenceShape>(&kernel.shape);
    if (shape == nullptr) continue;
    std::string refusal = refuse_spills(local_bytes(code, kernel.name), shape->step_seconds);
    if (!refusal.empty()) return refusal;
  }
  return "";
}

}  // namespace
}  // namespace rnnc::cuda

namespace rnnc {

Result<CompiledAhead> compile_ahead(const Planner& planner, const PlanShape& shape,
                                    const AheadTarget& target, const KernelCache& cache) {
  Result<cuda::CudaDevice> device = cuda::typical_cuda_device(target.arch);
  if (!device) return tl::unexpected(device.error());
  if (target.multiprocessors > 0) device->multiprocessors = target.multiprocessors;
  if (Status status = planner.check_size(shape.batch, shape.max_steps); !status) {
    return tl::unexpected(status.error());
  }
  const Machine machine = cuda::cuda_machine(*device);
  const Result<ShapePlanner> of_shape = planner.at(shape, machine);
  if (!of_shape) return tl::unexpected(of_shape.error());
  Result<Plan> plan = of_shape->plan(planner.choice());
  if (!plan) return tl::unexpected(plan.error());

  CompiledAhead result{.device = device->name, .multiprocessors = device->multiprocessors};
  const auto take = [&](const Plan& given) -> Result<std::string> {
    const Result<CudaModule> module = make_cuda_module(given, target.arch);
    if (!module) return tl::unexpected(module.error());
    const Result<cuda::Cubin> cubin = cuda::compile_module(*module, target.arch, cache);
    if (!cubin) return tl::unexpected(cubin.error());
    if (!cubin->kept) {
      return fail("kernels were compiled and cannot be kept: {}", cubin->kept.error().message);
    }
    result.bytes = cubin->code.size();
    result.cached = cubin->cached;
    return cuda::refuse(*module, cubin->code);
  };
  const Result<ChosenPlan> chosen =
      choose_plan(*of_shape, *std::move(plan), planner.choice(), take);
  if (!chosen) return tl::unexpected(chosen.error());
  result.note = chosen->note;
  return result;
}

}  // namespace rnnc
