#include "runtime/cuda/loaded_kernels.h"

#include "runtime/cuda/cubin.h"

namespace rnnc::cuda {
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
  int fitting = 0;  // blocks of a multiprocessor
  const Status asked =
      check_cuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                     &fitting, kernel, static_cast<int>(shape.threads), shape.shared_bytes),
                 "asking how many blocks fit");
  if (!asked) return tl::unexpected(asked.error());
  const int64_t room = static_cast<int64_t>(fitting) * device.multiprocessors;
  if (room >= shape.blocks) return std::string();
  return fmt::format("its kernel needs {} blocks at once, and cuda:{} ({}) has room for {}",
                     shape.blocks, device.index, device.name, room);
}

/// Where clusters do not wait for each other, those that find no room at once come later.
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
  if (shape.cooperative) {
    const int64_t blocks = static_cast<int64_t>(room) * shape.cluster;
    if (blocks >= shape.blocks) return std::string();
    return fmt::format(
        "its kernel needs {} blocks in clusters of {} at once, and cuda:{} ({}) has room for {}",
        shape.blocks, shape.cluster, device.index, device.name, blocks);
  }
  if (room > 0) return std::string();
  return fmt::format("its kernel needs clusters of {} blocks, and cuda:{} ({}) has room for none",
                     shape.cluster, device.index, device.name);
}

/// Blocks of a recurrence wait for one another: the device must have room for all of them at once,
/// or for those of a cluster.
Result<std::string> refuse(cudaKernel_t kernel, const CudaRecurrenceShape& shape,
                           const CudaDevice& device) {
  return allow_shared_memory(kernel, shape.shared_bytes).and_then([&]() -> Result<std::string> {
    if (!shape.cooperative && shape.cluster == 1) return std::string();
    return shape.cluster > 1 ? refuse_clusters(kernel, shape, device)
                             : refuse_blocks(kernel, shape, device);
  });
}

}  // namespace

Result<LoadedKernels> LoadedKernels::load(const Plan& plan, const CudaContext& context) {
  Result<CudaModule> module = make_cuda_module(plan, context.arch);
  if (!module) return tl::unexpected(module.error());
  LoadedKernels kernels(*std::move(module));
  const Result<Cubin> cubin = compile_module(kernels.module_, context.arch, context.cache);
  if (!cubin) return tl::unexpected(cubin.error());
  if (Status status = kernels.load(cubin->code); !status) return tl::unexpected(status.error());
  for (const CudaKernel& kernel : kernels.module_.kernels) {
    const Status found = kernels.find(kernel, context.device);
    if (!found) return tl::unexpected(found.error());
  }
  return kernels;
}

Status LoadedKernels::load(const std::string& code) {
  cudaLibrary_t library = nullptr;
  const cudaError_t error =
      cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  library_.reset(library);
  return check_cuda(error, "loading kernels");
}

/// Takes the next of the module's kernels.
Status LoadedKernels::find(const CudaKernel& kernel, const CudaDevice& device) {
  cudaKernel_t found = nullptr;
  // Asking for a kernel's attributes loads it, which would otherwise happen at its first launch.
  cudaFuncAttributes attributes = {};
  Status status =
      check_cuda(cudaLibraryGetKernel(&found, library_.get(), kernel.name.c_str()),
                 "finding a kernel")
          .and_then([&] {
            return check_cuda(cudaFuncGetAttributes(&attributes, found), "loading a kernel");
          });
  if (!status) return status;
  kernels_.push_back(found);
  if (const auto* fused = std::get_if<CudaFusedShape>(&kernel.shape)) {
    return allow_shared_memory(found, fused->shared_bytes);
  }
  const auto* recurrence = std::get_if<CudaRecurrenceShape>(&kernel.shape);
  return recurrence == nullptr ? Status() : prepare(found, *recurrence, device);
}

Status LoadedKernels::prepare(cudaKernel_t kernel, const CudaRecurrenceShape& shape,
                              const CudaDevice& device) {
  cudaFuncAttributes attributes = {};
  Result<std::string> refusal =
      check_cuda(cudaFuncGetAttributes(&attributes, kernel), "loading a kernel").and_then([&] {
        return refuse(kernel, shape, device);
      });
  if (!refusal) return tl::unexpected(refusal.error());
  const auto spilled = static_cast<int64_t>(attributes.localSizeBytes);
  if (refusal->empty()) refusal = refuse_spills(spilled, shape.step_seconds);
  if (refusal_.empty()) refusal_ = *std::move(refusal);
  if (doubt_.empty()) doubt_ = doubt_spills(spilled, shape.step_seconds);
  return {};
}

}  // namespace rnnc::cuda
