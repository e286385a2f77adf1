#include "runtime/cuda/cuda_device.h"

#include <algorithm>

#include "codegen/cuda/cuda_code.h"

namespace rnnc::cuda {
namespace {

constexpr int kOldestDriver = 13000;
constexpr double kTransfersPerClock = 2;  // of memory

std::string gibibytes(size_t bytes) {
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30));
}

Result<DeviceDescription> describe(int index) {
  const Result<CudaDevice> device = describe_cuda_device(index);
  if (!device) return tl::unexpected(device.error());
  DeviceDescription description;
  description.name = fmt::format("cuda:{}", index);
  description.detail = fmt::format("{}, sm_{}{}, {}", device->name, device->major, device->minor,
                                   gibibytes(static_cast<size_t>(device->memory_bytes)));
  const Result<std::string> arch = cuda_arch_for(device->major, device->minor);
  description.usable = arch.has_value();
  if (!arch) description.reason = arch.error().message;
  return description;
}

}  // namespace

Error cuda_error(cudaError_t error, const std::string& what) {
  cudaGetLastError();
  return {fmt::format("CUDA failed while {}: {} ({})", what, cudaGetErrorString(error),
                      cudaGetErrorName(error)),
          error == cudaErrorMemoryAllocation ? ErrorKind::OutOfMemory : ErrorKind::Device};
}

Result<int> count_cuda_devices() {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess) driver = 0;
  if (driver == 0)
    return fail("this machine has no NVIDIA driver: a GPU needs driver 580 or newer");
  if (driver < kOldestDriver) {
    return fail(
        "the NVIDIA driver is too old: it supports CUDA {}.{}, and rnnc needs {}.0 "
        "(driver 580 or newer)",
        driver / 1000, driver % 1000 / 10, kOldestDriver / 1000);
  }
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0)) {
    cudaGetLastError();
    return fail(
        "the NVIDIA driver shows no GPU: see `nvidia-smi`, and CUDA_VISIBLE_DEVICES if it is set");
  }
  if (error != cudaSuccess) return tl::unexpected(cuda_error(error, "counting devices"));
  return count;
}

Result<CudaDevice> describe_cuda_device(int index) {
  const Result<int> count = count_cuda_devices();
  if (!count) return tl::unexpected(count.error());
  if (index < 0 || index >= *count) {
    return fail("there is no cuda:{}; this machine has {} CUDA device{}", index, *count,
                *count == 1 ? "" : "s");
  }
  cudaDeviceProp properties = {};
  if (Status status = check_cuda(cudaGetDeviceProperties(&properties, index), "asking a device");
      !status) {
    return tl::unexpected(status.error());
  }
  int clock = 0;         // kHz
  int memory_clock = 0;  // kHz
  int under_mps = 0;
  const auto ask = [index](int& value, cudaDeviceAttr attribute) {
    return check_cuda(cudaDeviceGetAttribute(&value, attribute, index), "asking a device");
  };
  const Status asked = ask(clock, cudaDevAttrClockRate)
                           .and_then([&] { return ask(memory_clock, cudaDevAttrMemoryClockRate); })
                           .and_then([&] { return ask(under_mps, cudaDevAttrMpsEnabled); });
  if (!asked) return tl::unexpected(asked.error());
  return CudaDevice{
      .index = index,
      .name = properties.name,
      .major = properties.major,
      .minor = properties.minor,
      .memory_bytes = static_cast<int64_t>(properties.totalGlobalMem),
      .multiprocessors = properties.multiProcessorCount,
      .clock = clock * 1e3,
      .memory_bandwidth = memory_clock * 1e3 * kTransfersPerClock * properties.memoryBusWidth / 8,
      .cache_bytes = properties.l2CacheSize,
      .shared_bytes = static_cast<int64_t>(properties.sharedMemPerBlockOptin),
      .registers = properties.regsPerMultiprocessor,
      .under_mps = under_mps != 0};
}

Status leave(CudaDevice& device, int multiprocessors) {
  if (multiprocessors >= device.multiprocessors) {
    return fail("spare_multiprocessors must be less than the {} of {}, got {}",
                device.multiprocessors, device.name, multiprocessors);
  }
  device.multiprocessors -= multiprocessors;
  return {};
}

Machine cuda_machine(const CudaDevice& device) {
  // The H200 as its driver describes it.
  constexpr int kUnits = 132;
  constexpr double kClock = 1.98e9;
  constexpr double kMemoryBandwidth = 3.201e9 * kTransfersPerClock * 6144 / 8;
  Machine machine = h200_machine();
  const double speed =
      static_cast<double>(device.multiprocessors) / kUnits * (device.clock / kClock);
  const bool few_lanes = device.major == 8 && device.minor == 0;  // 64 for f32, not 128
  machine.name = device.name;
  machine.units = device.multiprocessors;
  machine.exact_flops *= few_lanes ? speed / 2 : speed;
  machine.tensor_flops *= speed;
  machine.tf32_flops *= speed;
  machine.cache_bandwidth *= speed;
  machine.cache_bytes = device.cache_bytes;
  machine.shared_bytes = device.shared_bytes;
  machine.registers = device.registers;
  // No kernel is there yet that the driver could be asked about.
  const bool has_clusters = device.major == 9 || device.major == 10;
  if (!has_clusters) machine.cluster_units = 0;
  for (int64_t& count : machine.clusters_at_once) {
    count = has_clusters ? count * device.multiprocessors / kUnits : 0;
  }
  if (device.memory_bandwidth > 0) {
    machine.memory_bandwidth *= device.memory_bandwidth / kMemoryBandwidth;
  }
  return machine;
}

DeviceScope::DeviceScope(int index) {
  int current = -1;
  status_ = check_cuda(cudaGetDevice(&current), "asking for the current device");
  if (!status_ || current == index) return;
  status_ = check_cuda(cudaSetDevice(index), "selecting a device");
  if (status_) previous_ = current;
}

DeviceScope::~DeviceScope() {
  if (previous_ >= 0) cudaSetDevice(previous_);
}

Result<DeviceMemory> DeviceMemory::allocate(const CudaDevice& device,
                                            const DeviceAllocator& allocator, size_t bytes) {
  void* data = nullptr;
  bytes = std::max<size_t>(bytes, 1);  // zero bytes would give a null pointer
  if (allocator) {
    data = allocator.allocate(allocator.context, bytes, nullptr);
    if (data == nullptr) {
      return fail_as(ErrorKind::OutOfMemory, "the caller's allocator has no {} on cuda:{} ({})",
                     gibibytes(bytes), device.index, device.name);
    }
    DeviceMemory memory(allocator, data);
    if (reinterpret_cast<uintptr_t>(data) % kWorkspaceAlignment != 0) {
      return fail("the caller's allocator gave memory that is not aligned to {} bytes",
                  kWorkspaceAlignment);
    }
    // What had the memory before may still run there.
    const Status free = check_cuda(cudaStreamSynchronize(nullptr), "allocating memory");
    if (!free) return tl::unexpected(free.error());
    return memory;
  }
  const cudaError_t error = cudaMalloc(&data, bytes);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    size_t free = 0;
    size_t total = 0;
    cudaMemGetInfo(&free, &total);
    return fail_as(ErrorKind::OutOfMemory,
                   "too little memory on cuda:{} ({}): {} are needed, {} of {} are free",
                   device.index, device.name, gibibytes(bytes), gibibytes(free), gibibytes(total));
  }
  if (error != cudaSuccess) return tl::unexpected(cuda_error(error, "allocating memory"));
  return DeviceMemory(allocator, data);
}

void DeviceMemory::free(const DeviceAllocator& allocator, void* memory) {
  if (!allocator) {
    cudaFree(memory);  // which waits
    return;
  }
  cudaDeviceSynchronize();
  allocator.release(allocator.context, memory);
}

}  // namespace rnnc::cuda

namespace rnnc {

std::vector<DeviceDescription> describe_cuda_devices() {
  const auto unusable = [](std::string name, std::string reason) {
    return DeviceDescription{
        .name = std::move(name), .detail = "", .usable = false, .reason = std::move(reason)};
  };
  const Result<int> count = cuda::count_cuda_devices();
  if (!count) return {unusable("cuda", count.error().message)};
  std::vector<DeviceDescription> devices;
  for (int i = 0; i < *count; ++i) {
    Result<DeviceDescription> device = cuda::describe(i);
    devices.push_back(device ? std::move(*device)
                             : unusable(fmt::format("cuda:{}", i), device.error().message));
  }
  return devices;
}

}  // namespace rnnc
