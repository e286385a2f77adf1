// Without reductions: one thread per element runs the whole body, loads first.
#include "codegen/cuda/emit_kernel.h"

#include <algorithm>
#include <numeric>

#include "codegen/cuda/emit_row.h"
#include "codegen/cuda/kernel_abi.h"
#include "codegen/cuda/kernel_text.h"
#include "ir/text_writer.h"

namespace rnnc {
namespace {

using Kind = Instruction::Kind;

constexpr int kMostLoadsAtOnce = 64;  // each holds a register

class ElementEmitter : TextWriter {
 public:
  ElementEmitter(const Kernel& kernel, size_t index)
      : kernel_(kernel), shape_(cuda_kernel_shape(kernel)), index_(index) {}

  std::string emit_kernel() {
    line("extern \"C\" __global__ void __launch_bounds__({})", shape_.threads);
    line("{}(const rnnc_rows rows{}) {{", cuda_kernel_name(index_),
         cuda_access_parameters(kernel_.arguments.size()));
    return body();
  }

  std::string emit_function() {
    line("static __device__ __forceinline__ void {}(const rnnc_rows& rows{}) {{",
         cuda_function_name(index_), cuda_access_parameters(kernel_.arguments.size(), "&"));
    return body();
  }

 private:
  std::string body() {
    line("  const unsigned i = blockIdx.x * {}u + threadIdx.x;", shape_.threads);
    line("  const unsigned slice_row = i / {}u;", kernel_.length);
    line("  const unsigned e = i % {}u;", kernel_.length);
    line("  const unsigned row = blockIdx.y * rows.per_slice + slice_row;");
    row_pointers();
    line("  const bool due = rnnc_is_due(rows);");
    line("  rnnc_begin();");
    line("  if (!due || slice_row >= rows.per_slice || row >= rows.count) return;");
    std::vector<uint32_t> ids(kernel_.body.size());
    std::iota(ids.begin(), ids.end(), 0u);
    loads_first(ids);
    for (const uint32_t id : ids) statement(id);
    line("}}");
    return take_text();
  }

  void row_pointers() {
    for (size_t i = 0; i < kernel_.arguments.size(); ++i) {
      const std::string type = cuda_array_type(kernel_.arguments[i]);
      line("  {}* const a{} = rnnc_row<{}>(rows.frame, p{}, row);", type, i, type, i);
    }
  }

  void statement(uint32_t id) {
    const Instruction& instruction = kernel_.body[id];
    const auto is_vector = [&] { return kernel_.arguments[instruction.argument].vector; };
    switch (instruction.kind) {
      case Kind::Load:
        line("  const float v{} = rnnc_load(a{}{});", id, instruction.argument,
             is_vector() ? " + e" : "");
        break;
      case Kind::Scalar:
        line("  const float v{} = {};", id, cuda_scalar_text(kernel_, id));
        break;
      case Kind::Store:
        // One thread stores a per-row value.
        line("  {}rnnc_store(a{}{}, {});", is_vector() ? "" : "if (e == 0) ", instruction.argument,
             is_vector() ? " + e" : "", cuda_value(kernel_, instruction.operands[0]));
        break;
      case Kind::Constant:
        break;
      case Kind::Reduce:
        RNNC_CHECK(false, "reductions need a block per row");
    }
  }

  /// The compiler does not move loads over branches, such as those of a division: what is not
  /// loaded at the start waits for memory once more. Where a launch writes in place, it stores each
  /// element after the load of it.
  void loads_first(std::vector<uint32_t>& ids) const {
    const auto is_load = [this](uint32_t id) { return kernel_.body[id].kind == Kind::Load; };
    if (std::ranges::count_if(ids, is_load) > kMostLoadsAtOnce) return;
    std::ranges::stable_partition(ids, is_load);
  }

  const Kernel& kernel_;
  const CudaKernelShape shape_;
  const size_t index_;
};

}  // namespace

std::string emit_cuda_kernel(const Kernel& kernel, size_t index, const KernelTraits& traits) {
  if (cuda_kernel_shape(kernel).row_block) return emit_row_kernel(kernel, index, traits);
  return ElementEmitter(kernel, index).emit_kernel();
}

std::string emit_cuda_function(const Kernel& kernel, size_t index) {
  return ElementEmitter(kernel, index).emit_function();
}

std::string cuda_function_name(size_t index) {
  return fmt::format("s{}", index);
}

}  // namespace rnnc
