#include "tests/cpu/kernel_runner.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/cpu/kept_object.h"

namespace rnnc::test {
namespace {

constexpr int64_t kPadding = 3;  // elements after each row
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// `values` in rows of `width`, padded and converted.
std::vector<std::byte> padded_rows(const std::vector<double>& values, int64_t rows, int64_t width,
                                   DType dtype) {
  std::vector<double> padded(rows * (width + kPadding), kNan);
  for (int64_t row = 0; row < rows && !values.empty(); ++row) {
    std::copy_n(values.begin() + row * width, width, padded.begin() + row * (width + kPadding));
  }
  std::vector<std::byte> bytes(padded.size() * size_of(dtype));
  convert(padded.data(), DType::f64, bytes.data(), dtype, padded.size());
  return bytes;
}

}  // namespace

std::vector<CodeParam> code_params() {
  std::vector<CodeParam> params;
  for (const DType dtype : {DType::f32, DType::f64}) {
    std::vector<CpuTarget> targets = {{}};
#if defined(__x86_64__)
    targets.push_back({.level = CpuLevel::Avx2});
    targets.push_back({.level = CpuLevel::Baseline});
    for (const VectorBits bits : {VectorBits{512, 256}, {512, 128}, {256, 256}, {128, 128}}) {
      targets.push_back({.vectors = bits});
    }
    targets.push_back({CpuLevel::Avx2, {256, 128}});
#endif
    for (const CpuTarget& target : targets) {
      if (check_runs(target)) params.push_back({dtype, target});
    }
  }
  return params;
}

std::string name_of(const testing::TestParamInfo<CodeParam>& test) {
  const CpuTarget& target = test.param.target;
  const auto [products, elementwise] = target.vectors;
  const std::string bits = products == 0 ? "" : fmt::format("_{}_{}", products, elementwise);
  return fmt::format("{}_{}{}", to_string(test.param.dtype), to_string(target.level), bits);
}

CompiledKernels::CompiledKernels(std::vector<Kernel> kernels, CodeParam param) {
  plan_.dtype = param.dtype;
  plan_.kernels = std::move(kernels);
  const std::string object = kept_object(plan_, param.target);
  auto module = CpuModule::load(plan_, object, "", param.target);
  RNNC_CHECK(module.has_value(), "{}", module.error().message);
  module_ = std::move(*module);
}

std::vector<std::vector<double>> CompiledKernels::run(
    size_t index, int64_t rows, const std::vector<std::vector<double>>& loaded) const {
  const Kernel& kernel = plan_.kernels[index];
  std::vector<std::vector<std::byte>> memory;
  std::vector<int64_t> strides;
  size_t next = 0;
  for (const Kernel::Argument& argument : kernel.arguments) {
    const int64_t width = kernel.elements(argument);
    static const std::vector<double> kNothing;
    memory.push_back(
        padded_rows(argument.written ? kNothing : loaded[next++], rows, width, plan_.dtype));
    strides.push_back(width + kPadding);
  }
  std::vector<void*> arguments;
  arguments.reserve(memory.size());
  for (auto& bytes : memory) arguments.push_back(bytes.data());
  std::vector<std::byte> scratch(module_->scratch_bytes() + 64);
  void* aligned = scratch.data();
  size_t space = scratch.size();
  std::align(64, module_->scratch_bytes(), aligned, space);
  // In parts, as several threads would.
  const auto run_part = [&](int64_t row_begin, int64_t row_end, int64_t begin, int64_t end) {
    module_->kernels()[index](arguments.data(), strides.data(), row_begin, row_end, begin, end,
                              aligned);
  };
  const int64_t middle = rows / 2;
  run_part(0, middle, 0, kernel.length);
  if (std::ranges::any_of(kernel.body, [](const Instruction& instruction) {
        return instruction.kind == Instruction::Kind::Reduce;
      })) {
    run_part(middle, rows, 0, kernel.length);
  } else {
    const int64_t column = kernel.length / 3;
    run_part(middle, rows, column, kernel.length);
    run_part(middle, rows, 0, column);
  }

  std::vector<std::vector<double>> stored;
  for (size_t i = 0; i < kernel.arguments.size(); ++i) {
    const int64_t width = strides[i] - kPadding;
    std::vector<double> padded(rows * strides[i]);
    convert(memory[i].data(), plan_.dtype, padded.data(), DType::f64, padded.size());
    std::vector<double> values;
    for (int64_t row = 0; row < rows; ++row) {
      const auto start = padded.begin() + row * strides[i];
      values.insert(values.end(), start, start + width);
      EXPECT_TRUE(
          std::all_of(start + width, start + strides[i], [](double x) { return std::isnan(x); }))
          << "wrote past row " << row << " of argument " << i << " of kernel " << index;
    }
    if (kernel.arguments[i].written) stored.push_back(std::move(values));
  }
  return stored;
}

}  // namespace rnnc::test
