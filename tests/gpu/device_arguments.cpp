#include "tests/gpu/device_arguments.h"

#include "ir/base/dtype.h"

namespace rnnc::test {
namespace {

void expect_success(cudaError_t error) {
  RNNC_CHECK(error == cudaSuccess, "{}", cudaGetErrorString(error));
}

void round_to(std::vector<double>& values, DType dtype) {
  std::vector<std::byte> stored(values.size() * size_of(dtype));
  convert(values.data(), DType::f64, stored.data(), dtype, values.size());
  convert(stored.data(), dtype, values.data(), DType::f64, values.size());
}

}  // namespace

DeviceArray::DeviceArray(size_t bytes, size_t shift) : bytes_(bytes), shift_(shift) {
  void* memory = nullptr;
  expect_success(cudaMalloc(&memory, bytes + shift + 1));
  base_ = static_cast<std::byte*>(memory);
  expect_success(cudaMemset(base_, 0xff, bytes + shift));  // NaN in every type
  expect_success(cudaStreamSynchronize(nullptr));          // streams of calls do not wait for it
}

DeviceArray::DeviceArray(DeviceArray&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)), bytes_(other.bytes_), shift_(other.shift_) {}

DeviceArray::~DeviceArray() {
  if (base_ != nullptr) cudaFree(base_);
}

void DeviceArray::upload(const std::vector<double>& values, DType dtype) {
  RNNC_CHECK(values.size() * size_of(dtype) == bytes_);
  std::vector<std::byte> stored(bytes_);
  convert(values.data(), DType::f64, stored.data(), dtype, values.size());
  upload(stored.data());
}

void DeviceArray::upload(const void* from) {
  expect_success(cudaMemcpy(data(), from, bytes_, cudaMemcpyHostToDevice));
  expect_success(cudaDeviceSynchronize());
}

std::vector<std::byte> DeviceArray::download_bytes() const {
  std::vector<std::byte> stored(bytes_);
  expect_success(cudaMemcpy(stored.data(), data(), bytes_, cudaMemcpyDeviceToHost));
  return stored;
}

std::vector<double> DeviceArray::download(DType dtype) const {
  const std::vector<std::byte> stored = download_bytes();
  std::vector<double> values(bytes_ / size_of(dtype));
  convert(stored.data(), dtype, values.data(), DType::f64, values.size());
  return values;
}

InterpreterArgs rounded(InterpreterArgs args, DType dtype) {
  for (auto& values : args.inputs) round_to(values, dtype);
  for (auto& values : args.params) round_to(values, dtype);
  for (auto& values : args.initial_states) round_to(values, compute_type(dtype));
  return args;
}

DeviceArguments::DeviceArguments(const Program& program, const InterpreterArgs& args,
                                 bool misaligned, const Sequences& sequences)
    : signature_(program.signature()),
      steps_(args.steps),
      batch_(args.batch),
      workspace_(program.workspace_size(args.batch, args.steps, sequences.features()).value()) {
  const auto bytes = [](const ArrayInfo& array, int64_t rows) {
    return static_cast<size_t>(array.elements() * rows) * size_of(array.dtype);
  };
  const auto shift = [misaligned](const ArrayInfo& array) {
    return misaligned ? size_of(array.dtype) : 0;
  };
  for (const ArrayInfo& array : signature_.inputs) {
    inputs_.emplace_back(bytes(array, steps_ * batch_), shift(array));
    input_pointers_.push_back(inputs_.back().data());
  }
  for (const ArrayInfo& array : signature_.params) {
    params_.emplace_back(bytes(array, 1), shift(array));
    param_pointers_.push_back(params_.back().data());
  }
  for (const ArrayInfo& array : signature_.outputs) {
    outputs_.emplace_back(bytes(array, steps_ * batch_), shift(array));
    output_pointers_.push_back(outputs_.back().data());
  }
  for (size_t i = 0; i < signature_.states.size(); ++i) {
    const ArrayInfo& array = signature_.states[i];
    initial_.emplace_back(bytes(array, batch_), shift(array));
    const bool given = !args.initial_states.empty() && !args.initial_states[i].empty();
    initial_pointers_.push_back(given ? initial_.back().data() : nullptr);
    final_.emplace_back(bytes(array, batch_), shift(array));
    final_pointers_.push_back(final_.back().data());
  }
  if (sequences.features().lengths) {
    lengths_.emplace(batch_ * sizeof(int32_t), misaligned ? sizeof(int32_t) : 0);
  }
  if (sequences.features().resets) resets_.emplace(steps_ * batch_, misaligned ? 1 : 0);
  upload(args, sequences);
}

void DeviceArguments::upload(const InterpreterArgs& args, const Sequences& sequences) {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    inputs_[i].upload(args.inputs[i], signature_.inputs[i].dtype);
  }
  for (size_t i = 0; i < params_.size(); ++i) {
    params_[i].upload(args.params[i], signature_.params[i].dtype);
  }
  for (size_t i = 0; i < initial_.size(); ++i) {
    if (initial_pointers_[i] == nullptr) continue;
    initial_[i].upload(args.initial_states[i], signature_.states[i].dtype);
  }
  const std::vector<int32_t> lengths(sequences.lengths.begin(), sequences.lengths.end());
  if (lengths_) lengths_->upload(lengths.data());
  if (resets_) resets_->upload(sequences.resets.data());
}

ForwardArgs DeviceArguments::on(Stream stream) const {
  ForwardArgs args;
  args.steps = steps_;
  args.batch = batch_;
  args.inputs = input_pointers_;
  args.params = param_pointers_;
  args.outputs = output_pointers_;
  args.initial_states = initial_pointers_;
  args.final_states = final_pointers_;
  if (lengths_) args.lengths = static_cast<const int32_t*>(lengths_->data());
  if (resets_) args.reset = static_cast<const uint8_t*>(resets_->data());
  args.workspace = workspace_.data();
  args.workspace_bytes = workspace_.bytes();
  args.stream = stream;
  return args;
}

InterpreterResult DeviceArguments::results() const {
  InterpreterResult result;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    result.outputs.push_back(outputs_[i].download(signature_.outputs[i].dtype));
  }
  for (size_t i = 0; i < final_.size(); ++i) {
    result.final_states.push_back(final_[i].download(signature_.states[i].dtype));
  }
  return result;
}

std::vector<std::vector<std::byte>> DeviceArguments::result_bits() const {
  std::vector<std::vector<std::byte>> bits;
  for (const DeviceArray& array : outputs_) bits.push_back(array.download_bytes());
  for (const DeviceArray& array : final_) bits.push_back(array.download_bytes());
  return bits;
}

}  // namespace rnnc::test
