// CUDA's runtime: units and the launches of their kernels.
#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "tests/emulator/runtime.h"
#include "tests/emulator/unit_image.h"

using rnnc::emulator::call;
using rnnc::emulator::Device;
using rnnc::emulator::kDynamicShared;
using rnnc::emulator::Kernel;
using rnnc::emulator::KernelCall;
using rnnc::emulator::kMostCluster;
using rnnc::emulator::kMostThreads;
using rnnc::emulator::kReservedShared;
using rnnc::emulator::kThreadsPerMultiprocessor;
using rnnc::emulator::settings;
using rnnc::emulator::Unit;
using rnnc::emulator::unsafe_call;

struct CUkern_st {
  Kernel kernel;
  size_t spilled_bytes = 0;
  size_t most_shared = 48 << 10;  // dynamic; more has to be asked for
  unsigned most_cluster = 8;      // blocks; more have to be asked for
};

struct CUlib_st {
  void* handle = nullptr;
  Unit unit = {};
  std::vector<std::unique_ptr<CUkern_st>> kernels;
};

namespace {

int blocks_per_multiprocessor(size_t threads, size_t shared) {
  if (threads == 0 || threads > kMostThreads || shared > kDynamicShared) return 0;
  const size_t by_threads = kThreadsPerMultiprocessor / ((threads + 31) / 32 * 32);
  const size_t by_shared = (kDynamicShared + kReservedShared) / (shared + kReservedShared);
  return std::min(static_cast<int>(std::min(by_threads, by_shared)), settings().most_blocks);
}

int clusters_at_once(unsigned blocks, size_t threads, size_t shared) {
  return blocks_per_multiprocessor(threads, shared) * settings().multiprocessors /
         static_cast<int>(blocks);
}

cudaError_t set_cluster(const cudaLaunchConfig_t& config, const CUkern_st& kernel, dim3 size,
                        KernelCall& launch) {
  if (size.x == 0 || size.x > kernel.most_cluster || size.y != 1 || size.z != 1 ||
      config.gridDim.x % size.x != 0) {
    return cudaErrorInvalidClusterSize;
  }
  launch.cluster = size.x;
  return cudaSuccess;
}

cudaError_t set_attributes(const cudaLaunchConfig_t& config, const CUkern_st& kernel,
                           KernelCall& launch) {
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = config.attrs[i];
    if (attribute.id == cudaLaunchAttributeProgrammaticStreamSerialization) {
      launch.overlaps = attribute.val.programmaticStreamSerializationAllowed != 0;
    } else if (attribute.id == cudaLaunchAttributeCooperative) {
      launch.cooperative = attribute.val.cooperative != 0;
    } else if (attribute.id == cudaLaunchAttributeClusterDimension) {
      const auto& size = attribute.val.clusterDim;
      const cudaError_t error = set_cluster(config, kernel, {size.x, size.y, size.z}, launch);
      if (error != cudaSuccess) return error;
    } else {
      return cudaErrorNotSupported;
    }
  }
  return cudaSuccess;
}

cudaError_t launch(Device& here, const cudaLaunchConfig_t& config, const CUkern_st& kernel,
                   void** arguments) {
  KernelCall launch;
  launch.kernel = &kernel.kernel;
  launch.grid = {config.gridDim.x, config.gridDim.y, config.gridDim.z};
  launch.block = {config.blockDim.x, config.blockDim.y, config.blockDim.z};
  launch.shared_bytes = static_cast<unsigned>(config.dynamicSmemBytes);
  const size_t threads = size_t{launch.block.x} * launch.block.y * launch.block.z;
  const size_t blocks = size_t{launch.grid.x} * launch.grid.y * launch.grid.z;
  if (threads == 0 || threads > kMostThreads || blocks == 0 || launch.grid.y > 65535 ||
      launch.grid.z > 65535 || config.dynamicSmemBytes > kernel.most_shared) {
    return cudaErrorInvalidConfiguration;
  }
  if (cudaError_t error = set_attributes(config, kernel, launch); error != cudaSuccess) {
    return error;
  }
  const int room = std::min(
      blocks_per_multiprocessor(threads, config.dynamicSmemBytes) * settings().multiprocessors,
      settings().most_cooperative_blocks);
  if (launch.cooperative && std::cmp_greater(blocks, room)) {
    return cudaErrorCooperativeLaunchTooLarge;
  }
  const int clusters = std::min(clusters_at_once(launch.cluster, threads, config.dynamicSmemBytes),
                                settings().most_clusters);
  if (launch.cluster > 1 && clusters == 0) {
    return cudaErrorLaunchOutOfResources;
  }
  for (unsigned i = 0; i < kernel.kernel.entry.parameters; ++i) {
    const auto* const first = static_cast<const std::byte*>(arguments[i]);
    launch.parameters.emplace_back(first, first + kernel.kernel.entry.sizes[i]);
  }
  return here.queue.submit(here.queue.stream(config.stream), std::move(launch));
}

/// A unit's shared object; every one by itself, though the same may be loaded already.
void* open_image(const void* code) {
  const std::string_view object = rnnc::emulator::object_of_image(code);
  if (object.empty()) return nullptr;
  std::string name = std::filesystem::temp_directory_path() / "rnnc-unit-XXXXXX";
  const int file = mkstemp(name.data());
  if (file < 0) return nullptr;
  const bool written = ::write(file, object.data(), object.size()) == std::ssize(object);
  close(file);
  void* const handle = written ? dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (handle == nullptr) rnnc::emulator::add_fault(fmt::format("a unit: {}", dlerror()));
  unlink(name.c_str());
  return handle;
}

}  // namespace

cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code, cudaJitOption*, void**,
                                unsigned, cudaLibraryOption*, void**, unsigned) {
  return unsafe_call([=](Device&) {
    void* const handle = open_image(code);
    if (handle == nullptr) return cudaErrorInvalidKernelImage;
    const auto unit_of =
        reinterpret_cast<void (*)(Unit*)>(dlsym(handle, rnnc::emulator::kUnitFunction));
    auto loaded = std::make_unique<CUlib_st>();
    loaded->handle = handle;
    unit_of(&loaded->unit);
    const bool spills = settings().spilling_units > 0;
    if (spills) --settings().spilling_units;
    for (const auto* entry = loaded->unit.kernels; entry->name != nullptr; ++entry) {
      loaded->kernels.push_back(std::make_unique<CUkern_st>(
          CUkern_st{.kernel = {.name = entry->name, .unit = loaded->unit, .entry = *entry},
                    .spilled_bytes = spills ? static_cast<size_t>(settings().spilled_bytes) : 0}));
    }
    *library = loaded.release();
    return cudaSuccess;
  });
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  return call([=](Device& here) {
    const cudaError_t error = here.queue.complete_all();
    dlclose(library->handle);
    delete library;
    return error;
  });
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name) {
  return call([=](Device&) {
    for (const auto& own : library->kernels) {
      if (own->kernel.name != name) continue;
      *kernel = own.get();
      return cudaSuccess;
    }
    return cudaErrorSymbolNotFound;
  });
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  *attributes = {};
  attributes->localSizeBytes = static_cast<const CUkern_st*>(function)->spilled_bytes;
  attributes->numRegs = 64;
  attributes->maxThreadsPerBlock = kMostThreads;
  attributes->binaryVersion = 90;
  attributes->ptxVersion = 90;
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  auto* const kernel = static_cast<cudaKernel_t>(const_cast<void*>(function));
  return call([=](Device&) {
    if (attribute == cudaFuncAttributeNonPortableClusterSizeAllowed) {
      kernel->most_cluster = value != 0 ? kMostCluster : kMostCluster / 2;
      return cudaSuccess;
    }
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
        static_cast<unsigned>(value) > kDynamicShared) {
      return cudaErrorInvalidValue;
    }
    kernel->most_shared = static_cast<size_t>(value);
    return cudaSuccess;
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int threads,
                                                          size_t shared) {
  *blocks = blocks_per_multiprocessor(static_cast<size_t>(threads), shared);
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* function,
                                           const cudaLaunchConfig_t* config) {
  return call([=](Device&) {
    KernelCall launch;
    const cudaError_t error =
        set_attributes(*config, *static_cast<const CUkern_st*>(function), launch);
    if (error != cudaSuccess) return error;
    const size_t threads = size_t{config->blockDim.x} * config->blockDim.y * config->blockDim.z;
    *clusters = clusters_at_once(launch.cluster, threads, config->dynamicSmemBytes);
    return cudaSuccess;
  });
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                void** arguments) {
  return call([=](Device& here) {
    return launch(here, *config, *static_cast<const CUkern_st*>(function), arguments);
  });
}
