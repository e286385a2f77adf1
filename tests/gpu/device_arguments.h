/// A program's arguments in device memory, given and read back as float64.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "ir/graph/interpreter.h"
#include "runtime/program/program.h"
#include "tests/support/cells/sequence_cases.h"

namespace rnnc::test {

/// Device memory whose first element can lie anywhere: `shift` bytes after an aligned address.
class DeviceArray {
 public:
  explicit DeviceArray(size_t bytes, size_t shift = 0);
  DeviceArray(DeviceArray&& other) noexcept;
  DeviceArray& operator=(DeviceArray&&) = delete;
  ~DeviceArray();

  void* data() const { return base_ + shift_; }
  size_t bytes() const { return bytes_; }
  void upload(const std::vector<double>& values, DType dtype);
  /// From `bytes()` bytes on the host.
  void upload(const void* from);
  std::vector<double> download(DType dtype) const;
  std::vector<std::byte> download_bytes() const;

 private:
  std::byte* base_ = nullptr;
  size_t bytes_ = 0;
  size_t shift_ = 0;
};

/// `args` rounded to the types that a program of this dtype stores them in.
InterpreterArgs rounded(InterpreterArgs args, DType dtype);

/// Arrays of one call, with the lengths and resets of `sequences`. Outputs and final states start
/// as NaN. `misaligned`: arrays lie one element after an aligned address.
class DeviceArguments {
 public:
  DeviceArguments(const Program& program, const InterpreterArgs& args, bool misaligned = false,
                  const Sequences& sequences = {});

  /// Arguments for a call on the stream.
  ForwardArgs on(Stream stream) const;
  /// Writes other values into the same memory.
  void upload(const InterpreterArgs& args, const Sequences& sequences = {});
  InterpreterResult results() const;
  /// Outputs and final states, bit by bit.
  std::vector<std::vector<std::byte>> result_bits() const;

 private:
  const Signature& signature_;
  int64_t steps_, batch_;
  std::vector<DeviceArray> inputs_, params_, initial_, outputs_, final_;
  std::vector<const void*> input_pointers_, param_pointers_, initial_pointers_;
  std::vector<void*> output_pointers_, final_pointers_;
  std::optional<DeviceArray> lengths_, resets_;
  DeviceArray workspace_;
};

}  // namespace rnnc::test
