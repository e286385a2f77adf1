/// Arrays of one element type one behind the other in device memory.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/arrays/array.h"
#include "runtime/arrays/signature.h"
#include "runtime/program/device_array.h"

namespace training {

/// Each begins with a row of its own, and zeros fill its last one: to what treats all elements
/// alike they are one matrix [rows, kWidth].
class ArrayRows {
 public:
  static constexpr int64_t kWidth = 1024;

  ArrayRows(rnnc::Backend& backend, std::vector<rnnc::ArrayInfo> infos);

  /// Memory for them, all zero.
  rnnc::Status allocate();
  /// One array for each, in order.
  rnnc::Status upload(const std::vector<rnnc::NamedArray>& arrays);
  /// As float64 for f64 and float32 otherwise.
  rnnc::Result<std::vector<rnnc::NamedArray>> download() const;

  int64_t rows() const { return rows_; }
  const std::vector<rnnc::ArrayInfo>& infos() const { return infos_; }
  void* get() const { return memory_.get(); }
  /// Where each array begins.
  std::vector<void*> pointers() const;

 private:
  rnnc::DType dtype() const { return infos_.empty() ? rnnc::DType::f32 : infos_[0].dtype; }
  size_t place(size_t array) const;  // bytes before it

  std::vector<rnnc::ArrayInfo> infos_;
  std::vector<int64_t> first_rows_;
  int64_t rows_ = 0;
  rnnc::DeviceArray memory_;
};

}  // namespace training
