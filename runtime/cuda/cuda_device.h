/// One GPU: finding it, saying in plain words why it cannot be used, and memory on it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

#include "ir/base/status.h"
#include "runtime/backend/backend.h"

namespace rnnc::cuda {

struct CudaDevice {
  int index = 0;
  std::string name;  // "NVIDIA H200"
  int major = 0, minor = 0;
  int64_t memory_bytes = 0;
  int multiprocessors = 0;
  double clock = 0;             // of multiprocessors at most, per second
  double memory_bandwidth = 0;  // of the interface, bytes per second; 0: unknown
  int64_t cache_bytes = 0;      // of the L2 cache
  int64_t shared_bytes = 0;     // that one block may have
  int64_t registers = 0;        // of a multiprocessor
  bool under_mps = false;       // shared among programs by CUDA's Multi-Process Service
};

/// Leaves so many of its multiprocessors to others. An error if none are left for rnnc.
Status leave(CudaDevice& device, int multiprocessors);

/// For the cost model: an H200's measured figures, scaled.
Machine cuda_machine(const CudaDevice& device);

/// Error text of a CUDA call that failed while doing `what` ("loading kernels"). Clears the
/// runtime's record of the error.
Error cuda_error(cudaError_t error, const std::string& what);
inline Status check_cuda(cudaError_t error, const char* what) {
  if (error == cudaSuccess) [[likely]]
    return {};
  return tl::unexpected(cuda_error(error, what));
}

/// Number of devices; an error where there is no driver, one that is too old, or no device.
Result<int> count_cuda_devices();
/// What there is at `index`, whether rnnc can use it or not.
Result<CudaDevice> describe_cuda_device(int index);

/// Makes a device the calling thread's current one while it lives.
class DeviceScope {
 public:
  explicit DeviceScope(int index);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;
  const Status& status() const { return status_; }

 private:
  int previous_ = -1;  // to go back to; -1: nothing to do
  Status status_;
};

/// Lets this thread allocate and load while another thread captures a graph in global mode.
class CaptureNeutralScope {
 public:
  CaptureNeutralScope() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~CaptureNeutralScope() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  CaptureNeutralScope(const CaptureNeutralScope&) = delete;
  CaptureNeutralScope& operator=(const CaptureNeutralScope&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

/// Memory on the current device; freed with it, once the device has done all its work. The error
/// says how much is needed and free.
class DeviceMemory {
 public:
  static Result<DeviceMemory> allocate(const CudaDevice& device, const DeviceAllocator& allocator,
                                       size_t bytes);
  /// What `release` handed over.
  static void free(const DeviceAllocator& allocator, void* memory);
  DeviceMemory() = default;
  ~DeviceMemory() { reset(); }
  DeviceMemory(DeviceMemory&& other) noexcept
      : allocator_(other.allocator_), data_(other.release()) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    if (this != &other) {
      reset();
      allocator_ = other.allocator_;
      data_ = other.release();
    }
    return *this;
  }
  char* data() const { return data_; }
  /// Hands the memory over to the caller.
  char* release() { return std::exchange(data_, nullptr); }
  void reset() {
    if (data_ != nullptr) free(allocator_, release());
  }

 private:
  DeviceMemory(const DeviceAllocator& allocator, void* data)
      : allocator_(allocator), data_(static_cast<char*>(data)) {}

  DeviceAllocator allocator_;
  char* data_ = nullptr;
};

}  // namespace rnnc::cuda
