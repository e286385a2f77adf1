// A thread has an element of a row and runs all steps:
//
// 1. Load the carries: `n`, of arrays of states arrays.
// 2. At each step run the body in order. It loads what it needs where it needs it.
// 3. Store the carries.
#include "codegen/cuda/elementwise/emit_rolled_loop.h"

#include "codegen/cuda/device/kernel_text.h"
#include "codegen/cuda/elementwise/rolled_body.h"
#include "ir/base/text_writer.h"

namespace rnnc {
namespace {

class RolledLoopEmitter : TextWriter {
 public:
  RolledLoopEmitter(const Kernel& kernel, const LoopTraits& traits, const CudaKernelShape& shape,
                    std::string_view name)
      : kernel_(kernel), traits_(traits), shape_(shape), name_(name) {
    loaded_.resize(kernel.arguments.size());
    for (const LoopCarry& carry : traits.carries) {
      loaded_[carry.load] = loaded_[carry.store] = carry.load;
      const int64_t count = argument(carry.load).count;
      if (count > 1) arrays_ += count;
    }
  }

  std::string emit() {
    line("extern \"C\" __global__ void __launch_bounds__({})", shape_.threads);
    line("{}(const rnnc_rows rows, int steps{}) {{", name_,
         cuda_access_parameters(kernel_.arguments.size()));
    line("  const unsigned i = blockIdx.x * {}u + threadIdx.x;", shape_.threads);
    line("  const unsigned slice_row = i / {}u;", shape_.length);
    line("  const unsigned e = i % {}u;", shape_.length);
    line("  const unsigned row = blockIdx.y * rows.per_slice + slice_row;");
    line("  const bool due = rnnc_is_due(rows);");
    line("  rnnc_begin();");
    line("  if (!due || slice_row >= rows.per_slice || row >= rows.count) return;");
    addresses();
    for (const LoopCarry& carry : traits_.carries) move(carry, /*load=*/true);
    line("  for (int t = 0; t < steps; ++t) {{");
    part("{}", cuda_rolled_body(kernel_, arrays_, {load(), store()}));
    line("  }}");
    for (const LoopCarry& carry : traits_.carries) move(carry, /*load=*/false);
    line("}}");
    return take_text();
  }

 private:
  const Kernel::Argument& argument(uint32_t index) const { return kernel_.arguments[index]; }

  /// Of every argument its address `a`, and the distance `d` from step to step.
  void addresses() {
    for (uint32_t i = 0; i < kernel_.arguments.size(); ++i) {
      const std::string type = cuda_array_type(argument(i));
      line("  {}* const a{} = rnnc_row<{}>(rows.frame, p{}, row){};", type, i, type, i,
           argument(i).vector ? " + e" : "");
      if (loaded_[i] || traits_.invariant[i]) continue;
      line("  const rnnc_word d{} = {}rows.count * p{}.stride;", i,
           traits_.descending ? "-1ll * " : "", i);
    }
  }

  /// A carry's values, from memory or back.
  void move(const LoopCarry& carry, bool load) {
    const Kernel::Argument& state = argument(carry.load);
    const bool array = state.count > 1;
    const std::string value = fmt::format("n{}{}", carry.load, array ? "[l]" : "");
    const std::string element =
        array ? fmt::format(" + l * {}", state.vector ? kernel_.length : 1) : "";
    if (load) line("  float n{}{};", carry.load, array ? fmt::format("[{}]", state.count) : "");
    if (array) {
      line("{}", cuda_unroll(kernel_, arrays_));
      part("  for (int l = 0; l < {}; ++l)", state.count);
    }
    if (load) {
      line("  {} = rnnc_load(a{}{});", value, carry.load, element);
    } else {
      line("  {}rnnc_store(a{}{}, {});", state.vector ? "" : "if (e == 0) ", carry.store, element,
           value);
    }
  }

  /// Behind an argument's address.
  std::string step(uint32_t index) const {
    return traits_.invariant[index] ? "" : fmt::format(" + t * d{}", index);
  }

  /// Of a carry's argument.
  std::string state(uint32_t index, const std::string& element) const {
    return fmt::format("n{}{}", *loaded_[index],
                       element.empty() ? "" : fmt::format("[{}]", element));
  }

  std::string offset(uint32_t index, const std::string& element) const {
    return cuda_element_offset(kernel_, argument(index).vector, element);
  }

  std::function<std::string(uint32_t, const std::string&)> load() const {
    return [this](uint32_t id, const std::string& element) {
      const uint32_t i = kernel_.body[id].argument;
      if (loaded_[i]) return state(i, element);
      return fmt::format("rnnc_load(a{}{}{})", i, step(i), offset(i, element));
    };
  }

  std::function<std::string(uint32_t, const std::string&, const std::string&)> store() const {
    return [this](uint32_t id, const std::string& element, const std::string& value) {
      const uint32_t i = kernel_.body[id].argument;
      if (loaded_[i]) {
        return fmt::format("{} = {};", state(i, element), value);
      }
      return fmt::format("{}rnnc_store(a{}{}{}, {});", argument(i).vector ? "" : "if (e == 0) ", i,
                         step(i), offset(i, element), value);
    };
  }

  const Kernel& kernel_;
  const LoopTraits& traits_;
  const CudaKernelShape& shape_;
  std::string_view name_;
  std::vector<std::optional<uint32_t>> loaded_;  // by argument: of a carry, what is loaded
  int64_t arrays_ = 0;                           // elements of carried arrays
};

}  // namespace

std::string emit_rolled_loop_kernel(const Kernel& kernel, const LoopTraits& traits,
                                    const CudaKernelShape& shape, std::string_view name) {
  return RolledLoopEmitter(kernel, traits, shape, name).emit();
}

}  // namespace rnnc
