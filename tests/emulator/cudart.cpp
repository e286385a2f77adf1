// CUDA's runtime: what runtime/cuda and tests/gpu call, on the one emulated device.
#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "tests/emulator/runtime.h"

using rnnc::emulator::call;
using rnnc::emulator::Device;
using rnnc::emulator::device;
using rnnc::emulator::DeviceMemory;
using rnnc::emulator::kDynamicShared;
using rnnc::emulator::kMostThreads;
using rnnc::emulator::kReservedShared;
using rnnc::emulator::kThreadsPerMultiprocessor;
using rnnc::emulator::last_error;
using rnnc::emulator::settings;
using rnnc::emulator::unsafe_call;

namespace {

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

}  // namespace

namespace rnnc::emulator {

Device& device() {
  static auto* const the_device = new Device;  // programs may end after main
  return *the_device;
}

cudaError_t& last_error() {
  thread_local cudaError_t error = cudaSuccess;
  return error;
}

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
