// 1. Rewrite `var` as the mean of squared deviations, so that only plain reductions are left.
// 2. Without reductions: one thread per element runs the whole body.
// 3. With reductions: one block per row. A reduction ends a phase; phase p holds what needs the
//    results of p reductions in a row. Each phase is the row's scalars, one loop over the thread's
//    elements, and the joining of its reductions, which share one barrier. Vector values that a
//    later phase reads are kept in arrays of one entry per element of the thread.
#include "codegen/cuda/emit_kernel.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "codegen/cuda/kernel_abi.h"
#include "codegen/cuda/kernel_text.h"

namespace rnnc {
namespace {

using Kind = Instruction::Kind;

constexpr int kMostUnrolledItems = 16;
constexpr int kMostLoadsAtOnce = 64;  // each holds a register

std::string_view reduction_type(Op op) {
  switch (op) {
    case Op::Sum:
    case Op::Mean:
      return "rnnc_sum";
    case Op::ReduceMin:
      return "rnnc_least";
    case Op::ReduceMax:
      return "rnnc_greatest";
    default:
      RNNC_CHECK(false, "`{}` is no plain reduction", info(op).name);
  }
}

/// Step 1.
Kernel without_variance(const Kernel& kernel) {
  Kernel result = kernel;
  result.body.clear();
  std::vector<uint32_t> renamed;  // old index → new index
  const auto add = [&result](Instruction instruction) {
    result.body.push_back(std::move(instruction));
    return static_cast<uint32_t>(result.body.size() - 1);
  };
  for (const Instruction& old : kernel.body) {
    Instruction instruction = old;
    for (uint32_t& operand : instruction.operands) operand = renamed[operand];
    if (instruction.kind == Kind::Reduce && instruction.op == Op::Var) {
      const uint32_t value = instruction.operands[0];
      const bool vector = result.body[value].vector;
      const auto scalar = [&](Op op, uint32_t left, uint32_t right) {
        return add({.kind = Kind::Scalar, .op = op, .vector = vector, .operands = {left, right}});
      };
      const uint32_t mean = add({.kind = Kind::Reduce, .op = Op::Mean, .operands = {value}});
      const uint32_t deviation = scalar(Op::Sub, value, mean);
      const uint32_t square = scalar(Op::Mul, deviation, deviation);
      instruction.op = Op::Mean;
      instruction.operands = {square};
    }
    renamed.push_back(add(std::move(instruction)));
  }
  return result;
}

class KernelEmitter {
 public:
  KernelEmitter(const Kernel& kernel, size_t index)
      : kernel_(without_variance(kernel)), shape_(cuda_kernel_shape(kernel)), index_(index) {}

  std::string emit() {
    signature();
    if (shape_.row_block) {
      row_block_body();
    } else {
      element_body();
    }
    line("}}");
    return std::move(text_);
  }

 private:
  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    text_ += '\n';
  }

  void signature() {
    line("extern \"C\" __global__ void __launch_bounds__({})", shape_.threads);
    text_ += fmt::format("{}(const rnnc_rows rows", cuda_kernel_name(index_));
    for (size_t i = 0; i < kernel_.arguments.size(); ++i) {
      text_ += fmt::format(", const rnnc_access p{}", i);
    }
    line(") {{");
  }

  void row_pointers() {
    for (size_t i = 0; i < kernel_.arguments.size(); ++i) {
      const Kernel::Argument& argument = kernel_.arguments[i];
      const std::string type =
          fmt::format("{}{}", argument.written ? "" : "const ", cuda_element_type(argument.dtype));
      line("  {}* const a{} = rnnc_row<{}>(rows.frame, p{}, row);", type, i, type, i);
    }
  }

  /// Waits for earlier launches, with addresses at hand.
  void begin() {
    line("  const bool due = rnnc_is_due(rows);");
    line("  rnnc_begin();");
    line("  if (!due) return;");
  }

  /// An operand's spelling inside `phase`.
  std::string value(uint32_t id, int phase) const {
    const Instruction& instruction = kernel_.body[id];
    if (instruction.kind == Kind::Constant) return cuda_float_literal(instruction.value);
    if (instruction.vector && !phases_.empty() && phases_[id] < phase) {
      return fmt::format("s{}[j]", id);
    }
    return fmt::format("v{}", id);
  }

  std::string scalar_expression(const Instruction& instruction, int phase) const {
    return cuda_scalar_text(instruction.op, [&](size_t operand) {
      return value(instruction.operands.at(operand), phase);
    });
  }

  /// A load, scalar op or store; the other kinds have no statement of their own.
  void statement(uint32_t id, int phase, std::string_view indent) {
    const Instruction& instruction = kernel_.body[id];
    const bool vector_argument =
        (instruction.kind == Kind::Load || instruction.kind == Kind::Store) &&
        kernel_.arguments[instruction.argument].vector;
    const std::string_view element = vector_argument ? " + e" : "";
    switch (instruction.kind) {
      case Kind::Load:
        line("{}const float v{} = rnnc_load(a{}{});", indent, id, instruction.argument, element);
        break;
      case Kind::Scalar:
        line("{}const float v{} = {};", indent, id, scalar_expression(instruction, phase));
        break;
      case Kind::Store:
        // One thread stores a per-row value.
        line("{}{}rnnc_store(a{}{}, {});", indent,
             vector_argument ? "" : (shape_.row_block ? "if (threadIdx.x == 0) " : "if (e == 0) "),
             instruction.argument, element, value(instruction.operands[0], phase));
        break;
      case Kind::Constant:
      case Kind::Reduce:
        break;
    }
  }

  /// Step 2.
  void element_body() {
    line("  const unsigned i = blockIdx.x * {}u + threadIdx.x;", shape_.threads);
    line("  const unsigned slice_row = i / {}u;", kernel_.length);
    line("  const unsigned e = i % {}u;", kernel_.length);
    line("  const unsigned row = blockIdx.y * rows.per_slice + slice_row;");
    row_pointers();
    begin();
    line("  if (slice_row >= rows.per_slice || row >= rows.count) return;");
    std::vector<uint32_t> ids(kernel_.body.size());
    std::iota(ids.begin(), ids.end(), 0u);
    loads_first(ids);
    for (const uint32_t id : ids) statement(id, 0, "  ");
  }

  /// The compiler does not move loads over branches, such as those of a division: what is not
  /// loaded at the start waits for memory once more. No launch loads what it stores.
  void loads_first(std::vector<uint32_t>& ids) const {
    const auto is_load = [this](uint32_t id) { return kernel_.body[id].kind == Kind::Load; };
    if (std::ranges::count_if(ids, is_load) > kMostLoadsAtOnce) return;
    std::ranges::stable_partition(ids, is_load);
  }

  /// Step 3.
  void row_block_body() {
    find_phases();
    line("  const unsigned row = blockIdx.x;");
    row_pointers();
    begin();
    for (uint32_t id = 0; id < kernel_.body.size(); ++id) {
      if (saved_[id]) line("  float s{}[{}];", id, shape_.items);
    }
    const int last = *std::ranges::max_element(phases_);
    for (int phase = 0; phase <= last; ++phase) {
      for (uint32_t id = 0; id < kernel_.body.size(); ++id) {
        if (phases_[id] == phase && !in_loop(id)) statement(id, phase, "  ");
      }
      element_loop(phase);
      join_reductions(phase);
    }
  }

  void find_phases() {
    for (uint32_t id = 0; id < kernel_.body.size(); ++id) {
      int phase = 0;
      for (const uint32_t operand : kernel_.body[id].operands) {
        const bool reduced = kernel_.body[operand].kind == Kind::Reduce;
        phase = std::max(phase, phases_[operand] + (reduced ? 1 : 0));
      }
      phases_.push_back(phase);
      saved_.push_back(false);
      for (const uint32_t operand : kernel_.body[id].operands) {
        const Instruction& read = kernel_.body[operand];
        if (read.vector && read.kind != Kind::Constant && phases_[operand] < phase) {
          saved_[operand] = true;
        }
      }
    }
  }

  /// Whether the instruction runs once per element, not once per row.
  bool in_loop(uint32_t id) const {
    const Instruction& instruction = kernel_.body[id];
    if (instruction.kind == Kind::Reduce) return true;
    if (instruction.kind == Kind::Store) return kernel_.arguments[instruction.argument].vector;
    return instruction.vector;
  }

  void element_loop(int phase) {
    std::vector<uint32_t> ids;
    for (uint32_t id = 0; id < kernel_.body.size(); ++id) {
      if (phases_[id] != phase || !in_loop(id)) continue;
      ids.push_back(id);
      if (kernel_.body[id].kind == Kind::Reduce) {
        line("  float r{} = {}::identity();", id, reduction_type(kernel_.body[id].op));
      }
    }
    if (ids.empty()) return;
    loads_first(ids);
    line("#pragma unroll {}", shape_.items <= kMostUnrolledItems ? shape_.items : 1);
    line("  for (int j = 0; j < {}; ++j) {{", shape_.items);
    line("    const unsigned e = threadIdx.x + j * {}u;", shape_.threads);
    if (kernel_.length % shape_.threads != 0) line("    if (e >= {}u) break;", kernel_.length);
    for (const uint32_t id : ids) {
      const Instruction& instruction = kernel_.body[id];
      if (instruction.kind == Kind::Reduce) {
        line("    r{} = {}::join(r{}, {});", id, reduction_type(instruction.op), id,
             value(instruction.operands[0], phase));
        continue;
      }
      statement(id, phase, "    ");
      if (saved_[id]) line("    s{}[j] = v{};", id, id);
    }
    line("  }}");
  }

  void join_reductions(int phase) {
    const int warps = shape_.threads / 32;
    std::vector<uint32_t> ids;
    for (uint32_t id = 0; id < kernel_.body.size(); ++id) {
      if (phases_[id] == phase && kernel_.body[id].kind == Kind::Reduce) ids.push_back(id);
    }
    if (ids.empty()) return;
    for (const uint32_t id : ids) {
      line("  __shared__ float w{}[{}];", id, warps);
      line("  rnnc_reduce_warps<{}>(r{}, w{});", reduction_type(kernel_.body[id].op), id, id);
    }
    line("  __syncthreads();");
    for (const uint32_t id : ids) {
      const Op op = kernel_.body[id].op;
      const std::string joined =
          fmt::format("rnnc_join_warps<{}, {}>(w{})", reduction_type(op), warps, id);
      if (op == Op::Mean) {
        line("  const float v{} = {} / {};", id, joined,
             cuda_float_literal(static_cast<double>(kernel_.length)));
      } else {
        line("  const float v{} = {};", id, joined);
      }
    }
  }

  const Kernel kernel_;
  const CudaKernelShape shape_;
  const size_t index_;
  std::vector<int> phases_;  // by instruction: when it runs; a reduction's value comes one later
  std::vector<bool> saved_;  // by instruction: a later phase reads it
  std::string text_;
};

}  // namespace

std::string emit_cuda_kernel(const Kernel& kernel, size_t index) {
  return KernelEmitter(kernel, index).emit();
}

}  // namespace rnnc
