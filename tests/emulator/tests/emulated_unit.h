/// CUDA text on the emulated GPU, and arrays for it. What fails is a failure of the test.
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <vector>

namespace rnnc::test {

/// How a kernel is launched.
struct LaunchOptions {
  dim3 grid = 1;
  dim3 block = 32;
  size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
  bool cooperative = false;
  bool overlaps = false;
  unsigned cluster = 0;  // blocks; 0: the launch says nothing of clusters
};

/// A translation unit: the prelude of generated ones, then `kernels`.
class EmulatedUnit {
 public:
  explicit EmulatedUnit(const std::string& kernels);
  ~EmulatedUnit();
  EmulatedUnit(const EmulatedUnit&) = delete;
  EmulatedUnit& operator=(const EmulatedUnit&) = delete;

  template <typename... Parameters>
  cudaError_t launch(const char* kernel, const LaunchOptions& options, Parameters... values) const {
    void* parameters[] = {&values..., nullptr};
    return launch(kernel, options, parameters);
  }

 private:
  cudaError_t launch(const char* kernel, const LaunchOptions& options, void** parameters) const;
  cudaLibrary_t library_ = nullptr;
};

/// Device memory of numbers.
template <typename T>
class DeviceNumbers {
 public:
  explicit DeviceNumbers(const std::vector<T>& values) : size_(values.size()) {
    cudaMalloc(reinterpret_cast<void**>(&data_), size_ * sizeof(T));
    set(values);
  }
  ~DeviceNumbers() { cudaFree(data_); }
  DeviceNumbers(const DeviceNumbers&) = delete;
  DeviceNumbers& operator=(const DeviceNumbers&) = delete;

  T* data() const { return data_; }
  void set(const std::vector<T>& values) const {
    cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice);
  }
  std::vector<T> get() const {
    std::vector<T> values(size_);
    cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost);
    return values;
  }

 private:
  T* data_ = nullptr;
  size_t size_;
};

}  // namespace rnnc::test
