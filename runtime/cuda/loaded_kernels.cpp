#include "runtime/cuda/loaded_kernels.h"

#include <set>

#include "codegen/cuda/cuda_code.h"
#include "codegen/cuda/elementwise/kernel_traits.h"
#include "runtime/cuda/cubin.h"

namespace rnnc {
namespace {

/// Beyond what every kernel gets, shared memory has to be asked for.
Status allow_shared_memory(cudaKernel_t kernel, uint32_t bytes) {
  return check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         static_cast<int>(bytes)),
                    "loading a kernel");
}

/// Beyond what every device takes, larger clusters have to be asked for.
Status allow_large_clusters(cudaKernel_t kernel, uint32_t blocks) {
  constexpr uint32_t kPortable = 8;
  if (blocks <= kPortable) return {};
  return check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1),
                    "loading a kernel");
}

Result<std::string> refuse_blocks(cudaKernel_t kernel, const CudaRecurrenceShape& shape,
                                  const CudaDevice& device) {
  int resident = 0;  // blocks of a multiprocessor
  const Status asked =
      check_cuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                     &resident, kernel, static_cast<int>(shape.threads), shape.shared_bytes),
                 "asking how many blocks fit");
  if (!asked) return tl::unexpected(asked.error());
  const int64_t room = static_cast<int64_t>(resident) * device.multiprocessors;
  if (room >= shape.blocks) return std::string();
  return fmt::format("its kernel needs {} blocks at once, and cuda:{} ({}) has room for {}",
                     shape.blocks, device.index, device.name, room);
}

/// Clusters do not wait for each other: those that find no room at once come later.
Result<std::string> refuse_clusters(cudaKernel_t kernel, const CudaRecurrenceShape& shape,
                                    const CudaDevice& device) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {shape.cluster, 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(shape.blocks);
  config.blockDim = dim3(shape.threads);
  config.dynamicSmemBytes = shape.shared_bytes;
  config.attrs = &attribute;
  config.numAttrs = 1;
  int room = 0;
  const Status allowed = allow_large_clusters(kernel, shape.cluster);
  if (!allowed) return tl::unexpected(allowed.error());
  const cudaError_t error = cudaOccupancyMaxActiveClusters(&room, kernel, &config);
  if (error == cudaErrorInvalidClusterSize) {
    cudaGetLastError();
    room = 0;
  } else if (Status asked = check_cuda(error, "asking how many clusters fit"); !asked) {
    return tl::unexpected(asked.error());
  }
  if (room > 0) return std::string();
  return fmt::format("its kernel needs clusters of {} blocks, and cuda:{} ({}) has room for none",
                     shape.cluster, device.index, device.name);
}

}  // namespace

Result<LoadedKernels> LoadedKernels::load(const Plan& plan, const CudaContext& context) {
  const Result<Cubin> cubin = compile_plan(plan, context.arch, context.cache);
  if (!cubin) return tl::unexpected(cubin.error());
  LoadedKernels kernels(plan, context.arch);
  const Status loaded = check_cuda(cudaLibraryLoadData(&kernels.library_, cubin->code.data(),
                                                       nullptr, nullptr, 0, nullptr, nullptr, 0),
                                   "loading kernels")
                            .and_then([&] { return kernels.find_elementwise(plan); })
                            .and_then([&] { return kernels.find_fused_and_loops(); })
                            .and_then([&] { return kernels.find_recurrences(context.device); })
                            .and_then([&] { return kernels.find_own(plan); });
  if (!loaded) return tl::unexpected(loaded.error());
  return kernels;
}

/// Those of elementwise launches: the others are part of fused and loop kernels, or of that for
/// states.
Status LoadedKernels::find_elementwise(const Plan& plan) {
  elementwise_.resize(plan.kernels.size());
  const std::vector<std::optional<KernelTraits>> traits = kernel_traits(plan);
  const auto add = [&](const ElementwiseLaunch& launch) -> Status {
    Loaded<CudaKernelShape>& kernel = elementwise_[launch.kernel];
    if (kernel.handle != nullptr) return {};
    const Result<cudaKernel_t> handle = find(cuda_kernel_name(launch.kernel));
    if (!handle) return tl::unexpected(handle.error());
    kernel = {*handle,
              cuda_kernel_shape(plan.kernels[launch.kernel], traits[launch.kernel]->items)};
    return {};
  };
  Status status;
  for (const Stage& stage : plan.stages) {
    for (const Launch& launch : stage.launches) {
      const auto* elementwise = std::get_if<ElementwiseLaunch>(&launch);
      if (status && elementwise != nullptr) status = add(*elementwise);
    }
  }
  if (!status || !states_.exists()) return status;
  const Result<cudaKernel_t> handle = find(states_.shape().name);
  if (!handle) return tl::unexpected(handle.error());
  state_kernel_ = *handle;
  return {};
}

Status LoadedKernels::find_fused_and_loops() {
  for (const CudaFusedShape& shape : fused_.shapes()) {
    const Result<cudaKernel_t> handle = find(shape.name);
    if (!handle) return tl::unexpected(handle.error());
    fused_kernels_.push_back({*handle, shape});
    if (Status allowed = allow_shared_memory(*handle, shape.shared_bytes); !allowed) return allowed;
  }
  for (const CudaLoopShape& shape : loops_.shapes()) {
    const Result<cudaKernel_t> handle = find(shape.name);
    if (!handle) return tl::unexpected(handle.error());
    loop_kernels_.push_back({*handle, shape});
  }
  return {};
}

Status LoadedKernels::find_recurrences(const CudaDevice& device) {
  for (const CudaRecurrenceShape& shape : recurrences_.shapes()) {
    const Result<cudaKernel_t> handle = find(shape.name);
    if (!handle) return tl::unexpected(handle.error());
    recurrence_kernels_.push_back({*handle, shape});
    const Result<std::string> refusal = refuse(*handle, shape, device);
    if (!refusal) return tl::unexpected(refusal.error());
    if (refusal_.empty()) refusal_ = *refusal;
  }
  return {};
}

/// Blocks of a recurrence wait for one another: the device must have room for all of them at once,
/// or for those of a cluster.
Result<std::string> LoadedKernels::refuse(cudaKernel_t kernel, const CudaRecurrenceShape& shape,
                                          const CudaDevice& device) const {
  cudaFuncAttributes attributes = {};
  Result<std::string> refusal =
      check_cuda(cudaFuncGetAttributes(&attributes, kernel), "loading a kernel")
          .and_then([&] { return allow_shared_memory(kernel, shape.shared_bytes); })
          .and_then([&] {
            return shape.cluster > 1 ? refuse_clusters(kernel, shape, device)
                                     : refuse_blocks(kernel, shape, device);
          });
  if (!refusal || !refusal->empty()) return refusal;
  return refuse_spills(static_cast<int64_t>(attributes.localSizeBytes), shape.step_seconds);
}

/// Those of the prelude, and of sequence.cuh.
Status LoadedKernels::find_own(const Plan& plan) {
  std::vector<std::pair<std::string, cudaKernel_t*>> own = {{kCudaSetFrameName, &set_frame_},
                                                            {kCudaEndChunkName, &end_chunk_}};
  const std::set<std::string> needed = cuda_sequence_kernels(plan);
  const auto add = [&](const std::string& name, cudaKernel_t& kernel) {
    if (needed.contains(name)) own.emplace_back(name, &kernel);
  };
  add(kCudaMaskName, mask_);
  add(kCudaSplitName, split_);
  for (const DType dtype : {DType::f16, DType::f32}) {
    add(cuda_reverse_name(dtype), reverse_[size_of(dtype) == 4]);
    add(cuda_transpose_name(dtype), transpose_[size_of(dtype) == 4]);
  }
  for (const auto& [name, kernel] : own) {
    const Result<cudaKernel_t> found = find(name);
    if (!found) return tl::unexpected(found.error());
    *kernel = *found;
  }
  return {};
}

Result<cudaKernel_t> LoadedKernels::find(const std::string& name) const {
  cudaKernel_t kernel = nullptr;
  // Asking for a kernel's attributes loads it, which would otherwise happen at its first launch.
  cudaFuncAttributes attributes = {};
  const Status status =
      check_cuda(cudaLibraryGetKernel(&kernel, library_, name.c_str()), "finding a kernel")
          .and_then([&] {
            return check_cuda(cudaFuncGetAttributes(&attributes, kernel), "loading a kernel");
          });
  if (!status) return tl::unexpected(status.error());
  return kernel;
}

LoadedKernels::LoadedKernels(LoadedKernels&& other) noexcept
    : library_(std::exchange(other.library_, nullptr)),
      fused_(std::move(other.fused_)),
      loops_(std::move(other.loops_)),
      recurrences_(std::move(other.recurrences_)),
      states_(std::move(other.states_)),
      elementwise_(std::move(other.elementwise_)),
      fused_kernels_(std::move(other.fused_kernels_)),
      loop_kernels_(std::move(other.loop_kernels_)),
      recurrence_kernels_(std::move(other.recurrence_kernels_)),
      state_kernel_(other.state_kernel_),
      set_frame_(other.set_frame_),
      end_chunk_(other.end_chunk_),
      refusal_(std::move(other.refusal_)),
      reverse_(other.reverse_),
      transpose_(other.transpose_),
      mask_(other.mask_),
      split_(other.split_) {}

LoadedKernels::~LoadedKernels() {
  if (library_ != nullptr) cudaLibraryUnload(library_);
}

}  // namespace rnnc
