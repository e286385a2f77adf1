/// Compiles hand-made kernels and runs them on vectors of doubles.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>
#include <vector>

#include "codegen/cpu/cpu_code.h"
#include "ir/base/dtype.h"

namespace rnnc::test {

/// Builds a kernel instruction by instruction; each call returns the instruction's index.
class KernelMaker {
 public:
  KernelMaker(int64_t length, DType dtype) : dtype_(dtype) { kernel.length = length; }

  uint32_t load(bool vector) {
    kernel.arguments.push_back({dtype_, vector, false});
    return add({.kind = Instruction::Kind::Load,
                .vector = vector,
                .argument = last_argument(),
                .operands = {}});
  }
  uint32_t constant(double value) {
    return add({.kind = Instruction::Kind::Constant, .value = value, .operands = {}});
  }
  uint32_t scalar(Op op, std::vector<uint32_t> operands) {
    bool vector = false;
    for (const uint32_t operand : operands) vector = vector || kernel.body[operand].vector;
    return add({.kind = Instruction::Kind::Scalar,
                .op = op,
                .vector = vector,
                .operands = std::move(operands)});
  }
  uint32_t reduce(Op op, uint32_t operand) {
    return add({.kind = Instruction::Kind::Reduce, .op = op, .operands = {operand}});
  }
  void store(uint32_t value, bool vector) {
    kernel.arguments.push_back({dtype_, vector, true});
    add({.kind = Instruction::Kind::Store,
         .vector = vector,
         .argument = last_argument(),
         .operands = {value}});
  }

  Kernel kernel;

 private:
  uint32_t last_argument() const { return static_cast<uint32_t>(kernel.arguments.size() - 1); }
  uint32_t add(Instruction instruction) {
    kernel.body.push_back(std::move(instruction));
    return static_cast<uint32_t>(kernel.body.size() - 1);
  }
  DType dtype_;
};

/// What a test of generated code runs with.
struct CodeParam {
  DType dtype = DType::f32;
  CpuTarget target = {};
};
/// Every dtype with every level and every width of vectors that this machine can run.
std::vector<CodeParam> code_params();
/// "f32_avx2", "f32_host_512_256".
std::string name_of(const testing::TestParamInfo<CodeParam>& test);

/// Kernels of one dtype, compiled together.
class CompiledKernels {
 public:
  CompiledKernels(std::vector<Kernel> kernels, CodeParam param);

  /// Runs kernel `index` over `rows` rows. Argument i of `loaded` goes to the kernel's i-th loaded
  /// argument: rows x length values, or one per row. Gives the stored arguments in order. Rows are
  /// padded with NaN, which must be there still afterwards.
  std::vector<std::vector<double>> run(size_t index, int64_t rows,
                                       const std::vector<std::vector<double>>& loaded) const;
  const Kernel& kernel(size_t index) const { return plan_.kernels[index]; }

 private:
  Plan plan_;
  std::unique_ptr<CpuModule> module_;
};

}  // namespace rnnc::test
