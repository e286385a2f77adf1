// CUDA's runtime: what runtime/cuda and tests/gpu call, on the one emulated device.
#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <mutex>
#include <utility>

#include "tests/emulator/emulator.h"
#include "tests/emulator/memory.h"
#include "tests/emulator/queue.h"
#include "tests/emulator/unit_image.h"

using rnnc::emulator::DeviceMemory;
using rnnc::emulator::kDynamicShared;
using rnnc::emulator::Kernel;
using rnnc::emulator::KernelCall;
using rnnc::emulator::Queue;
using rnnc::emulator::settings;
using rnnc::emulator::Unit;

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

constexpr unsigned kMostThreads = 1024;
constexpr unsigned kMostCluster = 16;
constexpr unsigned kThreadsPerMultiprocessor = 2048;
constexpr size_t kReservedShared = 1024;  // of every block

struct Device {
  std::recursive_mutex mutex;
  DeviceMemory memory;
  Queue queue;
  std::vector<std::string> faults;
};
Device& device() {
  static auto* const the_device = new Device;  // programs may end after main
  return *the_device;
}

cudaError_t& last_error() {
  thread_local cudaError_t error = cudaSuccess;
  return error;
}

/// Every call of the runtime goes through here.
template <typename Body>
cudaError_t call(const Body& body) {
  const std::scoped_lock lock(device().mutex);
  const cudaError_t error = body(device());
  if (error != cudaSuccess) last_error() = error;
  return error;
}

/// What a capture forbids.
template <typename Body>
cudaError_t unsafe_call(const Body& body) {
  return call([&](Device& here) {
    return here.queue.may_be_unsafe() ? body(here) : cudaErrorStreamCaptureUnsupported;
  });
}

cudaError_t check_piece(const Device& here, const void* memory, size_t bytes) {
  if (here.memory.contains(memory) && here.memory.room_at(memory) < bytes) {
    rnnc::emulator::add_fault("a copy or fill goes past the end of a piece of device memory");
    return cudaErrorInvalidValue;
  }
  return cudaSuccess;
}

cudaError_t copy(Device& here, void* to, const void* from, size_t bytes, CUstream_st& stream) {
  if (cudaError_t error = check_piece(here, to, bytes); error != cudaSuccess) return error;
  if (cudaError_t error = check_piece(here, from, bytes); error != cudaSuccess) return error;
  if (here.memory.contains(from)) {
    return here.queue.submit(stream, [=] { std::memcpy(to, from, bytes); });
  }
  // The host's memory is read at once.
  std::vector<std::byte> staged(bytes);
  std::memcpy(staged.data(), from, bytes);
  return here.queue.submit(
      stream, [to, staged = std::move(staged)] { std::memcpy(to, staged.data(), staged.size()); });
}

cudaError_t fill(Device& here, void* memory, int value, size_t bytes, CUstream_st& stream) {
  if (cudaError_t error = check_piece(here, memory, bytes); error != cudaSuccess) return error;
  if (!here.memory.contains(memory)) return cudaErrorInvalidValue;
  return here.queue.submit(stream, [=] { std::memset(memory, value, bytes); });
}

/// Rows of device memory, `pitch` bytes apart.
struct DeviceRows {
  std::byte* first;
  size_t pitch;
  size_t width;
  size_t count;
};

cudaError_t check_rows(Device& here, const DeviceRows& rows) {
  if (rows.count == 0 || rows.width > rows.pitch) return cudaErrorInvalidValue;
  if (!here.memory.contains(rows.first)) return cudaErrorInvalidValue;
  return check_piece(here, rows.first, (rows.count - 1) * rows.pitch + rows.width);
}

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
  const bool written = write(file, object.data(), object.size()) == std::ssize(object);
  close(file);
  void* const handle = written ? dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (handle == nullptr) rnnc::emulator::add_fault(fmt::format("a unit: {}", dlerror()));
  unlink(name.c_str());
  return handle;
}

}  // namespace

namespace rnnc::emulator {

Settings& settings() {
  static Settings the_settings;
  return the_settings;
}

void set_seed(uint64_t seed) {
  const std::scoped_lock lock(device().mutex);
  device().queue.seed(seed);
}

void add_fault(const std::string& what) {
  device().faults.push_back(what);
  device().queue.break_down();
}

std::vector<std::string> take_faults() {
  const std::scoped_lock lock(device().mutex);
  device().memory.check_guards();
  device().queue.recover();
  last_error() = cudaSuccess;
  return std::exchange(device().faults, {});
}

cudaError_t submit(cudaStream_t stream, Work work) {
  return call(
      [&](Device& here) { return here.queue.submit(here.queue.stream(stream), std::move(work)); });
}

}  // namespace rnnc::emulator

// ---- The device ----

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* index) {
  *index = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int index) {
  return call([=](Device&) { return index == 0 ? cudaSuccess : cudaErrorInvalidDevice; });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int index) {
  if (index != 0) return cudaErrorInvalidDevice;
  *properties = {};
  std::strcpy(properties->name, "Emulated GPU");
  properties->major = 9;
  properties->totalGlobalMem = DeviceMemory::kTotalBytes;
  properties->multiProcessorCount = settings().multiprocessors;
  properties->memoryBusWidth = 6144;
  properties->l2CacheSize = 50 << 20;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = kMostThreads;
  properties->maxThreadsPerMultiProcessor = kThreadsPerMultiprocessor;
  properties->sharedMemPerBlock = 48 << 10;
  properties->sharedMemPerBlockOptin = kDynamicShared;
  properties->sharedMemPerMultiprocessor = kDynamicShared + kReservedShared;
  properties->regsPerBlock = 65536;
  properties->regsPerMultiprocessor = 65536;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int index) {
  if (index != 0) return cudaErrorInvalidDevice;
  switch (attribute) {
    case cudaDevAttrClockRate:
      *value = 1980000;
      return cudaSuccess;
    case cudaDevAttrMemoryClockRate:
      *value = 3201000;
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = settings().multiprocessors;
      return cudaSuccess;
    case cudaDevAttrCooperativeLaunch:
      *value = 1;
      return cudaSuccess;
    case cudaDevAttrMpsEnabled:
      *value = settings().under_mps ? 1 : 0;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = kDynamicShared;
      return cudaSuccess;
    default:
      return cudaErrorNotSupported;
  }
}

cudaError_t cudaDeviceSynchronize() {
  return unsafe_call([](Device& here) { return here.queue.complete_all(); });
}

cudaError_t cudaGetLastError() {
  return std::exchange(last_error(), cudaSuccess);
}
const char* cudaGetErrorString(cudaError_t error) {
  thread_local std::string text;
  const std::scoped_lock lock(device().mutex);
  const std::vector<std::string>& faults = device().faults;
  text = error == cudaErrorLaunchFailure && !faults.empty() ? faults.front()
         : error == cudaErrorMemoryAllocation               ? "out of memory"
                                                            : "error of the emulated GPU";
  return text.c_str();
}
const char* cudaGetErrorName(cudaError_t error) {
  thread_local std::string text;
  text = fmt::format("cudaError {}", static_cast<int>(error));
  return text.c_str();
}

// ---- Memory ----

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  return unsafe_call([=](Device& here) {
    *memory = bytes == 0 ? nullptr : here.memory.allocate(bytes);
    return *memory == nullptr && bytes > 0 ? cudaErrorMemoryAllocation : cudaSuccess;
  });
}

cudaError_t cudaFree(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  return unsafe_call([=](Device& here) {
    const cudaError_t error = here.queue.complete_all();
    return here.memory.free(memory) ? error : cudaErrorInvalidValue;
  });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return call([=](Device& here) {
    *free = here.memory.free_bytes();
    *total = DeviceMemory::kTotalBytes;
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return unsafe_call([=](Device& here) {
    const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (kind != cudaMemcpyDefault && bytes > 0 &&
        (here.memory.contains(to) != to_device || here.memory.contains(from) != from_device)) {
      return cudaErrorInvalidValue;
    }
    CUstream_st& stream = here.queue.stream(nullptr);
    const cudaError_t error = copy(here, to, from, bytes, stream);
    return error == cudaSuccess ? here.queue.complete(stream) : error;
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  return call([=](Device& here) { return copy(here, to, from, bytes, here.queue.stream(stream)); });
}

cudaError_t cudaMemset(void* memory, int value, size_t bytes) {
  return unsafe_call(
      [=](Device& here) { return fill(here, memory, value, bytes, here.queue.stream(nullptr)); });
}

cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  return call(
      [=](Device& here) { return fill(here, memory, value, bytes, here.queue.stream(stream)); });
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t count, cudaMemcpyKind, cudaStream_t stream) {
  return call([=](Device& here) {
    const DeviceRows target{static_cast<std::byte*>(to), to_pitch, width, count};
    const DeviceRows source{static_cast<std::byte*>(const_cast<void*>(from)), from_pitch, width,
                            count};
    for (const DeviceRows& rows : {target, source}) {
      if (cudaError_t error = check_rows(here, rows); error != cudaSuccess) return error;
    }
    return here.queue.submit(here.queue.stream(stream), [=] {
      for (size_t i = 0; i < count; ++i) {
        std::memcpy(target.first + i * to_pitch, source.first + i * from_pitch, width);
      }
    });
  });
}

cudaError_t cudaMemset2DAsync(void* memory, size_t pitch, int value, size_t width, size_t count,
                              cudaStream_t stream) {
  return call([=](Device& here) {
    const DeviceRows rows{static_cast<std::byte*>(memory), pitch, width, count};
    if (cudaError_t error = check_rows(here, rows); error != cudaSuccess) return error;
    return here.queue.submit(here.queue.stream(stream), [=] {
      for (size_t i = 0; i < count; ++i) std::memset(rows.first + i * pitch, value, width);
    });
  });
}

// ---- Streams and events ----

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return call([=](Device& here) {
    *stream = here.queue.create_stream((flags & cudaStreamNonBlocking) == 0);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return call([=](Device& here) {
    here.queue.destroy_stream(stream);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return call([=](Device& here) { return here.queue.complete(here.queue.stream(stream)); });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return call([=](Device& here) { return here.queue.wait(here.queue.stream(stream), *event); });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument) {
  return rnnc::emulator::submit(stream, [=] { function(argument); });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return cudaEventCreate(event);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return call([=](Device& here) { return here.queue.record(*event, here.queue.stream(stream)); });
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return call([=](Device& here) { return here.queue.complete(*event); });
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t stop) {
  return call([=](Device&) {
    if (start->time == nullptr || stop->time == nullptr) return cudaErrorInvalidResourceHandle;
    *milliseconds = std::chrono::duration<float, std::milli>(*stop->time - *start->time).count();
    return cudaSuccess;
  });
}

// ---- Graphs ----

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, rnnc::emulator::capture_mode());
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return call(
      [=](Device& here) { return here.queue.begin_capture(here.queue.stream(stream), mode); });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return call(
      [=](Device& here) { return here.queue.end_capture(here.queue.stream(stream), graph); });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return call([=](Device& here) {
    const CUgraph_st* const capture = here.queue.stream(stream).capture;
    *status = capture == nullptr ? cudaStreamCaptureStatusNone
              : capture->invalid ? cudaStreamCaptureStatusInvalidated
                                 : cudaStreamCaptureStatusActive;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
  *executable = new CUgraphExec_st{graph->nodes};
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) {
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  return call([=](Device& here) {
    return here.queue.launch_graph(*executable, here.queue.stream(stream));
  });
}

// ---- Kernels ----

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
