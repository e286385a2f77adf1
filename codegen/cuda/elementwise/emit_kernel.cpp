// Without reductions: one thread per element runs the whole body, loads first; or one thread for a
// packet of neighbours, which it loads at once. Where the caller's arrays are not aligned to their
// packets, it loads them element by element. Of many rows without packets a thread has some elements
// whose neighbours other threads of its warp have; it loads all before it stores any.
#include "codegen/cuda/elementwise/emit_kernel.h"

#include <algorithm>
#include <numeric>

#include "codegen/cuda/device/kernel_abi.h"
#include "codegen/cuda/device/kernel_text.h"
#include "codegen/cuda/elementwise/emit_rolled_row.h"
#include "codegen/cuda/elementwise/emit_row.h"
#include "codegen/cuda/elementwise/kernel_traits.h"
#include "codegen/cuda/elementwise/rolled_body.h"
#include "ir/base/text_writer.h"

namespace rnnc {
namespace {

using Kind = Instruction::Kind;

constexpr int kMostLoadsAtOnce = 64;  // each holds a register

class ElementEmitter : TextWriter {
 public:
  ElementEmitter(const Kernel& kernel, size_t index)
      : kernel_(kernel),
        shape_(cuda_kernel_shape(kernel)),
        index_(index),
        name_(cuda_kernel_name(index)) {}

  std::string emit_kernel() {
    const size_t count = kernel_.arguments.size();
    many_ = kernel_.loops.empty() && cuda_has_many_arrays(kernel_);
    if (many_) part("{}", cuda_arrays_struct(name_, count));
    line("extern \"C\" __global__ void __launch_bounds__({})", shape_.threads);
    line("{}(const rnnc_rows rows{}) {{", name_,
         many_ ? cuda_arrays_parameter(name_) : cuda_access_parameters(count));
    if (many_) part("{}", cuda_find_bases(count));
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
    if (!many_) row_pointers();
    line("  const bool due = rnnc_is_due(rows);");
    line("  rnnc_begin();");
    line("  if (!due || slice_row >= rows.per_slice || row >= rows.count) return;");
    if (!kernel_.loops.empty()) return rolled_body();
    std::vector<uint32_t> ids(kernel_.body.size());
    std::iota(ids.begin(), ids.end(), 0u);
    loads_first(ids);
    for (const uint32_t id : ids) statement(id);
    line("}}");
    return take_text();
  }

  std::string rolled_body() {
    const auto at = [this](uint32_t id, const std::string& element) {
      const Instruction& instruction = kernel_.body[id];
      const bool vector = kernel_.arguments[instruction.argument].vector;
      return fmt::format("a{}{}{}", instruction.argument, vector ? " + e" : "",
                         cuda_element_offset(kernel_, vector, element));
    };
    const auto load = [&](uint32_t id, const std::string& element) {
      return fmt::format("rnnc_load({})", at(id, element));
    };
    const auto store = [&](uint32_t id, const std::string& element, const std::string& value) {
      const bool vector = kernel_.arguments[kernel_.body[id].argument].vector;
      return fmt::format("{}rnnc_store({}, {});", vector ? "" : "if (e == 0) ", at(id, element),
                         value);
    };
    part("{}", cuda_rolled_body(kernel_, 0, {load, store}));
    line("}}");
    return take_text();
  }

  void row_pointers() {
    for (size_t i = 0; i < kernel_.arguments.size(); ++i) {
      const std::string type = cuda_array_type(kernel_.arguments[i]);
      line("  {}* const a{} = rnnc_row<{}>(rows.frame, p{}, row);", type, i, type, i);
    }
  }

  /// Where the thread's element of an array lies.
  std::string place(uint32_t argument) const {
    const std::string element = kernel_.arguments[argument].vector ? " + e" : "";
    if (!many_) return fmt::format("a{}{}", argument, element);
    return fmt::format("rnnc_row_of_many<{}>(bases[{}], row){}",
                       cuda_array_type(kernel_.arguments[argument]), argument, element);
  }

  void statement(uint32_t id) {
    const Instruction& instruction = kernel_.body[id];
    const auto is_vector = [&] { return kernel_.arguments[instruction.argument].vector; };
    switch (instruction.kind) {
      case Kind::Load:
        line("  const float v{} = rnnc_load({});", id, place(instruction.argument));
        break;
      case Kind::Scalar:
        line("  const float v{} = {};", id, cuda_scalar_text(kernel_, id));
        break;
      case Kind::Store:
        // One thread stores a per-row value.
        line("  {}rnnc_store({}, {});", is_vector() ? "" : "if (e == 0) ",
             place(instruction.argument), cuda_value(kernel_, instruction.operands[0]));
        break;
      case Kind::Constant:
        break;
      case Kind::Reduce:
      case Kind::Carried:
      case Kind::Last:
        RNNC_CHECK(false, "reductions need a block per row, loops are written apart");
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
  const std::string name_;
  bool many_ = false;  // arrays, whose rows have no variables
};

class PacketEmitter : TextWriter {
 public:
  PacketEmitter(const Kernel& kernel, size_t index, const KernelTraits& traits)
      : kernel_(kernel), shape_(cuda_kernel_shape(kernel, traits.items)), index_(index) {
    for (uint32_t i = 0; i < kernel.arguments.size(); ++i) {
      if (kernel.arguments[i].vector && traits.unaligned[i]) checked_.push_back(i);
    }
  }

  std::string emit_kernel() {
    packet(cuda_kernel_name(index_));
    line("extern \"C\" __global__ void __launch_bounds__({})", shape_.threads);
    line("{}(const rnnc_rows rows{}) {{", cuda_kernel_name(index_),
         cuda_access_parameters(kernel_.arguments.size()));
    return body(cuda_kernel_name(index_));
  }

  std::string emit_function() {
    packet(cuda_function_name(index_));
    line("static __device__ __forceinline__ void {}(const rnnc_rows& rows{}) {{",
         cuda_function_name(index_), cuda_access_parameters(kernel_.arguments.size(), "&"));
    return body(cuda_function_name(index_));
  }

 private:
  std::string body(const std::string& name) {
    line("  const unsigned i = (blockIdx.x * {}u + threadIdx.x) * {}u;", shape_.threads,
         shape_.items);
    line("  const unsigned slice_row = i / {}u;", kernel_.length);
    line("  const unsigned e = i % {}u;", kernel_.length);
    line("  const unsigned row = blockIdx.y * rows.per_slice + slice_row;");
    std::string arrays = "e";
    for (size_t i = 0; i < kernel_.arguments.size(); ++i) {
      const std::string type = cuda_array_type(kernel_.arguments[i]);
      line("  {}* const a{} = rnnc_row<{}>(rows.frame, p{}, row);", type, i, type, i);
      arrays += fmt::format(", a{}", i);
    }
    line("  const bool due = rnnc_is_due(rows);");
    line("  rnnc_begin();");
    line("  if (!due || slice_row >= rows.per_slice || row >= rows.count) return;");
    if (checked_.empty()) {
      line("  {}_packet({});", name, arrays);
    } else {
      line("  if (({}) == 0) {{", cuda_misalignment(kernel_, checked_, shape_.items));
      line("    {}_packet<true>({});", name, arrays);
      line("  }} else {{");
      line("    {}_packet<false>({});", name, arrays);
      line("  }}");
    }
    line("}}");
    return take_text();
  }

  /// From element `e` of a row on. Packet types `t`, loaded packets `x`, stored ones `o`.
  void packet(const std::string& name) {
    if (!checked_.empty()) line("template <bool Aligned>");
    part("static __device__ __forceinline__ void {}_packet(unsigned e", name);
    for (size_t i = 0; i < kernel_.arguments.size(); ++i) {
      part(", {}* const a{}", cuda_array_type(kernel_.arguments[i]), i);
    }
    line(") {{");
    for (uint32_t i = 0; i < kernel_.arguments.size(); ++i) {
      const Kernel::Argument& argument = kernel_.arguments[i];
      if (!argument.vector) continue;
      const bool is_checked = std::ranges::find(checked_, i) != checked_.end();
      line("  typedef rnnc_packet<{}, {}, {}> t{};", cuda_element_type(argument.dtype),
           shape_.items, is_checked ? "Aligned" : "true", i);
      line("  {}t{} {}{} = {};", argument.written ? "" : "const ", i, argument.written ? "o" : "x",
           i, argument.written ? "{}" : fmt::format("t{}::load(a{} + e)", i, i));
    }
    statements(/*of_elements=*/false);
    line("#pragma unroll");
    line("  for (int x = 0; x < {}; ++x) {{", shape_.items);
    statements(/*of_elements=*/true);
    line("  }}");
    for (uint32_t i = 0; i < kernel_.arguments.size(); ++i) {
      const Kernel::Argument& argument = kernel_.arguments[i];
      if (argument.vector && argument.written) line("  o{}.store(a{} + e);", i, i);
    }
    line("}}");
  }

  /// Those of the row come first: none depends on an element.
  void statements(bool of_elements) {
    for (uint32_t id = 0; id < kernel_.body.size(); ++id) {
      const Instruction& instruction = kernel_.body[id];
      const bool stores = instruction.kind == Kind::Store;
      const bool vector =
          stores ? kernel_.arguments[instruction.argument].vector : instruction.vector;
      if (vector != of_elements || instruction.kind == Kind::Constant) continue;
      if (stores) {
        line("{}, {});",
             vector ? fmt::format("    o{}.set(x", instruction.argument)
                    : fmt::format("  if (e == 0) rnnc_store(a{}", instruction.argument),
             cuda_value(kernel_, instruction.operands[0]));
      } else {
        line("{}const float v{} = {};", vector ? "    " : "  ", id, value(id));
      }
    }
  }

  std::string value(uint32_t id) const {
    const Instruction& instruction = kernel_.body[id];
    if (instruction.kind == Kind::Scalar) return cuda_scalar_text(kernel_, id);
    return instruction.vector ? fmt::format("x{}.get(x)", instruction.argument)
                              : fmt::format("rnnc_load(a{})", instruction.argument);
  }

  const Kernel& kernel_;
  const CudaKernelShape shape_;
  const size_t index_;
  std::vector<uint32_t> checked_;  // arguments that may lie anywhere
};

class SpreadEmitter : TextWriter {
 public:
  SpreadEmitter(const Kernel& kernel, size_t index, int spread)
      : kernel_(kernel),
        shape_(cuda_kernel_shape(kernel, spread)),
        name_(cuda_kernel_name(index)) {}

  std::string emit_kernel() {
    line("extern \"C\" __global__ void __launch_bounds__({})", shape_.threads);
    line("{}(const rnnc_rows rows{}) {{", name_, cuda_access_parameters(kernel_.arguments.size()));
    for (size_t i = 0; i < kernel_.arguments.size(); ++i) {
      const std::string type = cuda_array_type(kernel_.arguments[i]);
      line("  {}* const a{} = reinterpret_cast<{}*>(rnnc_address(rows.frame, p{}));", type, i, type,
           i);
    }
    line("  const unsigned first = blockIdx.x * {}u + threadIdx.x;", shape_.threads * shape_.items);
    line("  const bool due = rnnc_is_due(rows);");
    line("  rnnc_begin();");
    line("  if (!due) return;");
    for_each_of(Kind::Load, [&](uint32_t id) { line("  float l{}[{}];", id, shape_.items); });
    open_elements();
    for_each_of(Kind::Load, [&](uint32_t id) {
      line("    l{}[x] = rnnc_load({});", id, place(kernel_.body[id].argument));
    });
    line("  }}");
    open_elements();
    for (uint32_t id = 0; id < kernel_.body.size(); ++id) statement(id);
    line("  }}");
    line("}}");
    return take_text();
  }

 private:
  void for_each_of(Kind kind, const auto& visit) {
    for (uint32_t id = 0; id < kernel_.body.size(); ++id) {
      if (kernel_.body[id].kind == kind) visit(id);
    }
  }

  void open_elements() {
    line("#pragma unroll");
    line("  for (unsigned x = 0; x < {}; ++x) {{", shape_.items);
    line("    const unsigned i = first + x * {}u;", shape_.threads);
    line("    const unsigned slice_row = i / {}u;", kernel_.length);
    line("    const unsigned e = i % {}u;", kernel_.length);
    line("    const unsigned row = blockIdx.y * rows.per_slice + slice_row;");
    line("    if (slice_row >= rows.per_slice || row >= rows.count) break;");
  }

  std::string place(uint32_t argument) const {
    return fmt::format("rnnc_row(a{0}, p{0}, row){1}", argument,
                       kernel_.arguments[argument].vector ? " + e" : "");
  }

  void statement(uint32_t id) {
    const Instruction& instruction = kernel_.body[id];
    if (instruction.kind == Kind::Load) {
      line("    const float v{0} = l{0}[x];", id);
    } else if (instruction.kind == Kind::Scalar) {
      line("    const float v{} = {};", id, cuda_scalar_text(kernel_, id));
    } else if (instruction.kind == Kind::Store) {
      const bool vector = kernel_.arguments[instruction.argument].vector;
      line("    {}rnnc_store({}, {});", vector ? "" : "if (e == 0) ", place(instruction.argument),
           cuda_value(kernel_, instruction.operands[0]));
    }
  }

  const Kernel& kernel_;
  const CudaKernelShape shape_;
  const std::string name_;
};

}  // namespace

std::string emit_cuda_kernel(const Kernel& kernel, size_t index, const KernelTraits& traits) {
  if (cuda_kernel_shape(kernel).row_block) {
    return kernel.loops.empty() ? emit_row_kernel(kernel, index, traits)
                                : emit_rolled_row_kernel(kernel, index);
  }
  if (traits.items > 1) return PacketEmitter(kernel, index, traits).emit_kernel();
  if (traits.spread > 1) return SpreadEmitter(kernel, index, traits.spread).emit_kernel();
  return ElementEmitter(kernel, index).emit_kernel();
}

std::string emit_cuda_function(const Kernel& kernel, size_t index, const KernelTraits& traits) {
  if (traits.items > 1) return PacketEmitter(kernel, index, traits).emit_function();
  return ElementEmitter(kernel, index).emit_function();
}

std::string cuda_function_name(size_t index) {
  return fmt::format("s{}", index);
}

}  // namespace rnnc
