#include "runtime/cuda/loaded_kernels.h"

#include "codegen/cuda/cuda_code.h"

namespace rnnc {
namespace {

Result<std::string> cubin_of(const Plan& plan, const CudaContext& context) {
  Result<std::string> source = emit_cuda(plan);
  if (!source) return source;
  Result<std::string> compiler = nvrtc_version();
  if (!compiler) return compiler;
  const std::string key = fmt::format("rnnc {}\ncubin for {} by NVRTC {}\n{}", RNNC_VERSION,
                                      context.arch, *compiler, *source);
  if (std::optional<std::string> cached = context.cache.get(key)) return *std::move(cached);
  Result<std::string> cubin = compile_cubin(*source, context.arch);
  if (cubin) context.cache.put(key, *cubin);
  return cubin;
}

}  // namespace

Result<LoadedKernels> LoadedKernels::load(const Plan& plan, const CudaContext& context) {
  const Result<std::string> cubin = cubin_of(plan, context);
  if (!cubin) return tl::unexpected(cubin.error());
  LoadedKernels kernels;
  if (Status status = check_cuda(cudaLibraryLoadData(&kernels.library_, cubin->data(), nullptr,
                                                     nullptr, 0, nullptr, nullptr, 0),
                                 "loading kernels");
      !status) {
    return tl::unexpected(status.error());
  }
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    const Result<cudaKernel_t> handle = kernels.find(cuda_kernel_name(i));
    if (!handle) return tl::unexpected(handle.error());
    kernels.plan_kernels_.push_back({*handle, cuda_kernel_shape(plan.kernels[i])});
  }
  if (Status status = kernels.find_own(has_sequence_kernels(plan)); !status) {
    return tl::unexpected(status.error());
  }
  // With TF32 allowed the library's tensor-core products are the faster ones.
  if (!context.allow_tf32) {
    if (Status status = kernels.find_products(plan); !status) {
      return tl::unexpected(status.error());
    }
  }
  return kernels;
}

/// Those of the prelude, and of sequence.cuh.
Status LoadedKernels::find_own(bool sequence_kernels) {
  std::vector<std::pair<std::string, cudaKernel_t*>> own = {{kCudaSetFrameName, &set_frame_},
                                                            {kCudaEndChunkName, &end_chunk_}};
  if (sequence_kernels) {
    own.emplace_back(kCudaMaskName, &mask_);
    for (size_t i = 0; i < reverse_.size(); ++i) {
      const char* size = i == 0 ? "2" : "4";
      own.emplace_back(std::string(kCudaReverseName) + size, &reverse_[i]);
      own.emplace_back(std::string(kCudaTransposeName) + size, &transpose_[i]);
    }
  }
  for (const auto& [name, kernel] : own) {
    const Result<cudaKernel_t> found = find(name);
    if (!found) return tl::unexpected(found.error());
    *kernel = *found;
  }
  return {};
}

Status LoadedKernels::find_products(const Plan& plan) {
  for (const Stage& stage : plan.stages) {
    if (stage.domain != Domain::Step) continue;
    for (const Launch& launch : stage.launches) {
      const auto* gemm = std::get_if<GemmLaunch>(&launch);
      if (gemm == nullptr) continue;
      std::optional<StepProduct> product = step_product(plan, *gemm);
      if (!product) continue;
      const Result<cudaKernel_t> handle = find(product->name);
      if (!handle) return tl::unexpected(handle.error());
      product_kernels_.emplace(gemm, ProductKernel{*handle, std::move(*product)});
    }
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
      plan_kernels_(std::move(other.plan_kernels_)),
      product_kernels_(std::move(other.product_kernels_)),
      set_frame_(other.set_frame_),
      end_chunk_(other.end_chunk_),
      reverse_(other.reverse_),
      transpose_(other.transpose_),
      mask_(other.mask_) {}

LoadedKernels::~LoadedKernels() {
  if (library_ != nullptr) cudaLibraryUnload(library_);
}

}  // namespace rnnc
