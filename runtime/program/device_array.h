/// Memory of a program's device, for the convenience calls.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "runtime/arrays/array.h"
#include "runtime/backend/backend.h"
#include "runtime/base/describe.h"

namespace rnnc {

/// Device memory that grows to what is asked for.
class DeviceArray {
 public:
  explicit DeviceArray(Backend& backend) : backend_(&backend) {}
  ~DeviceArray() {
    if (memory_ != nullptr) backend_->release(memory_);
  }
  DeviceArray(DeviceArray&& other) noexcept
      : backend_(other.backend_),
        memory_(std::exchange(other.memory_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceArray& operator=(DeviceArray&&) = delete;

  Status reserve(size_t bytes) {
    if (bytes <= bytes_) return {};
    if (memory_ != nullptr) backend_->release(std::exchange(memory_, nullptr));
    bytes_ = 0;
    const Result<void*> memory = backend_->allocate(bytes);
    if (!memory) return tl::unexpected(memory.error());
    memory_ = *memory;
    bytes_ = bytes;
    return {};
  }

  Status upload(const Array& array, DType dtype) {
    const Array converted = array.dtype == dtype ? Array{} : array.as(dtype);
    return upload(array.dtype == dtype ? array.data : converted.data);
  }

  template <typename T>
  Status upload(const std::vector<T>& values) {
    const size_t bytes = values.size() * sizeof(T);
    if (Status status = reserve(bytes); !status) return status;
    return backend_->upload(memory_, values.data(), bytes);
  }

  /// As float64 for f64 and float32 otherwise.
  Result<Array> download(DType dtype, std::vector<int64_t> shape) const {
    Array array = Array::zeros(dtype, std::move(shape));
    if (Status whole = array.check(); !whole) {
      return fail("not enough memory for an array of shape {}", shape_text(array.shape));
    }
    if (Status status = backend_->download(array.data.data(), memory_, array.data.size());
        !status) {
      return tl::unexpected(status.error());
    }
    return array.as(compute_type(dtype));
  }

  void* get() const { return memory_; }

 private:
  Backend* backend_;
  void* memory_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace rnnc
