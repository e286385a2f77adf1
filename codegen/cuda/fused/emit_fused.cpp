// The kernel, in order:
// 1. Find the block's instance, elements and rows, and where its arrays lie.
// 2. Begin to copy weights, and load what the elementwise work reads and no launch of a Step stage
//    writes; wait for earlier launches, begin to copy left operands.
// 3. Load what else the elementwise work reads, so that it arrives while products are made.
// 4. Make the products; then the elementwise work for each of the thread's elements.
#include "codegen/cuda/fused/emit_fused.h"

#include <algorithm>

#include "codegen/cuda/device/kernel_text.h"
#include "ir/base/text_writer.h"

namespace rnnc {
namespace {

using Kind = Instruction::Kind;

/// Values loaded ahead hold registers while products are made.
constexpr int64_t kMostValuesAhead = 48;

class FusedEmitter : TextWriter {
 public:
  FusedEmitter(const FusedKernel& fused, const FusedWork& work, const FusedTile& tile,
               const CudaFusedShape& shape, std::string_view name)
      : kernel_(fused.kernel),
        products_(fused.products),
        fixed_(fused.fixed),
        optional_(fused.optional),
        work_(work),
        tile_(tile),
        shape_(shape),
        name_(name) {
    uint32_t results = 0;
    uint32_t arrays = 0;
    for (const Kernel::Argument& argument : kernel_.arguments) {
      places_.push_back(argument.product ? results++ : arrays++);
    }
    arrays_ = arrays;
    items_ = (tile.units * tile.rows + tile.threads() - 1) / tile.threads();
    int64_t loads = 0;
    for (const Instruction& instruction : kernel_.body) loads += is_array_load(instruction) ? 1 : 0;
    ahead_ = loads * items_ <= kMostValuesAhead;
  }

  std::string emit() {
    signature();
    position();
    operands();
    copies();
    begin();
    if (ahead_) loads_ahead(false);
    line("  tile.run(weights, lefts, products);");
    elementwise();
    line("}}");
    return take_text();
  }

 private:
  bool is_array_load(const Instruction& instruction) const {
    return instruction.kind == Kind::Load && !kernel_.arguments[instruction.argument].product;
  }

  void signature() {
    const std::string_view name = name_;
    line("struct {}_instance {{", name);
    line("  rnnc_rows rows;");
    line("  rnnc_access access[{}];", arrays_ + 2 * products_.size());
    line("}};");
    line("static_assert(sizeof({}_instance) == {}, \"as the host has it\");", name,
         shape_.instance_bytes);
    line("struct {}_instances {{", name);
    line("  {}_instance instance[{}];", name, shape_.most_instances);
    line("}};");
    line("extern \"C\" __global__ void __launch_bounds__({}, {})", tile_.threads(),
         tile_.blocks_per_multiprocessor);
    line("{}(const __grid_constant__ {}_instances launch) {{", name, name);
  }

  /// Step 1.
  void position() {
    line("  const {}_instance& here = launch.instance[blockIdx.z];", name_);
    line("  const rnnc_word* const frame = here.rows.frame;");
    line("  rnnc_let_next_begin();");
    line("  if (!rnnc_is_due(here.rows)) {{");
    line("    rnnc_wait_for_previous();");
    line("    return;");
    line("  }}");
    const int64_t across = shape_.tiles / work_.segments;
    if (work_.segments == 1) {
      line("  const unsigned unit = blockIdx.x * {}u;", tile_.units);
      line("  const unsigned unit_end = {}u;", work_.segment_length);
    } else {
      line("  const unsigned segment = blockIdx.x / {}u * {}u;", across, work_.segment_length);
      line("  const unsigned unit = segment + blockIdx.x % {}u * {}u;", across, tile_.units);
      line("  const unsigned unit_end = segment + {}u;", work_.segment_length);
    }
    line("  const unsigned row = blockIdx.y * {}u;", tile_.rows);
    line("  const unsigned row_end = here.rows.count;");
  }

  void operands() {
    const std::string_view type = cuda_element_type(work_.dtype);
    const auto element = static_cast<int64_t>(size_of(work_.dtype));
    for (size_t i = 0; i < products_.size(); ++i) {
      const FusedProduct& product = products_[i];
      const size_t access = arrays_ + 2 * i;
      const int64_t block_length = kernel_.length / product.blocks;
      line("  const rnnc_access& left{} = here.access[{}];", i, access);
      line(
          "  const char* const x{} = reinterpret_cast<const char*>("
          "rnnc_row<const {}>(frame, left{}, 0){});",
          i, type, i,
          product.blocks == 1 ? "" : fmt::format(" + unit / {}u * {}u", block_length, product.k));
      line("  const rnnc_word x{}_row = left{}.stride * {};", i, i, element);
      line(
          "  const char* const w{} = reinterpret_cast<const char*>("
          "rnnc_row<const {}>(frame, here.access[{}], 0));",
          i, type, access + 1);
    }
  }

  std::string_view engine() const {
    switch (work_.dtype) {
      case DType::bf16:
        return "bf16";
      case DType::f16:
        return "f16";
      default:
        return work_.tf32 ? "tf32" : "f32";
    }
  }

  /// Whether every slab is whole and lies as bulk copies need it, and these are worth it: each
  /// takes about 20 ns of a multiprocessor's one engine, however short it is (measured on an H200,
  /// a stack of LSTM layers in slabs of 128 bytes: 31 us a step in bulk, 17 without; B 16, H 1024
  /// in slabs of 512 bytes: 4.3 and 4.9).
  bool copies_in_bulk() const {
    if (tile_.slab_bytes < 512 || tile_.left_slabs < tile_.slabs) return false;
    for (size_t i = 0; i < products_.size(); ++i) {
      const bool aligned = products_[i].left_copy == 16 && products_[i].weight_copy == 16;
      const int64_t bytes = work_.k_bytes(work_.products[i]);
      if (!aligned || bytes < 2048 || bytes % tile_.slab_bytes != 0) return false;
    }
    return true;
  }

  void copies() {
    line("  rnnc_fused_tile<rnnc_engine::{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}> tile;",
         engine(), tile_.units, tile_.rows, tile_.gates, tile_.warp_gates, tile_.warp_rows,
         tile_.warp_parts, tile_.lane_parts, tile_.slab_bytes, tile_.slabs, tile_.weight_slabs,
         tile_.left_slabs, copies_in_bulk());
    by_product("weights", [&](size_t i, int64_t first_slab) {
      const FusedProduct& product = products_[i];
      return fmt::format(
          "tile.copy_weights<{}, {}, {}>(slab, w{}, (slab - {}) * {}, {}, {}u, unit, unit_end);",
          product.first, product.members, product.weight_copy, i, first_slab, tile_.slab_bytes,
          work_.k_bytes(work_.products[i]), kernel_.length);
    });
    by_product("lefts", [&](size_t i, int64_t first_slab) {
      return fmt::format(
          "tile.copy_lefts<{}>(slab, x{}, (slab - {}) * {}, {}, x{}_row, row, row_end);",
          products_[i].left_copy, i, first_slab, tile_.slab_bytes, work_.k_bytes(work_.products[i]),
          i);
    });
    by_product("products", [&](size_t i, int64_t) {
      return fmt::format("tile.multiply<{}, {}>(slab);", products_[i].first, products_[i].members);
    });
  }

  /// A function of the slab that does for each product's slabs what `statement` says.
  template <typename Statement>
  void by_product(std::string_view name, const Statement& statement) {
    line("  const auto {} = [&](int slab) {{", name);
    int64_t first_slab = 0;
    for (size_t i = 0; i < products_.size(); ++i) {
      const int64_t bytes = work_.k_bytes(work_.products[i]);
      const int64_t end = first_slab + (bytes + tile_.slab_bytes - 1) / tile_.slab_bytes;
      const std::string text = statement(i, first_slab);
      if (products_.size() == 1) {
        line("    {}", text);
      } else {
        line("    if (slab >= {} && slab < {}) {}", first_slab, end, text);
      }
      first_slab = end;
    }
    line("  }};");
  }

  /// Step 2.
  void begin() {
    line("  tile.begin_weights(weights);");
    if (ahead_) loads_ahead(true);
    line("  rnnc_wait_for_previous();");
    line("  tile.begin_lefts(lefts);");
  }

  /// A loop over the thread's elements.
  void open_items() {
    const int64_t elements = tile_.units * tile_.rows;
    line("#pragma unroll");
    line("  for (int j = 0; j < {}; ++j) {{", items_);
    line("    const unsigned i = threadIdx.x + j * {}u;", tile_.threads());
    line("    const unsigned e = unit + i % {}u;", tile_.units);
    line("    const unsigned r = row + i / {}u;", tile_.units);
    if (elements % tile_.threads() != 0) line("    if (i >= {}u) break;", elements);
    line("    if (e >= unit_end || r >= row_end) continue;");
  }

  /// Where row 0 of arrays lies, for a loop over the thread's elements. Found anew for each: it
  /// would hold registers while products are made.
  void bases(const std::set<uint32_t>& arguments) {
    for (const uint32_t index : arguments) {
      const std::string type = cuda_array_type(kernel_.arguments[index]);
      line("  {}* const b{} = rnnc_row<{}>(frame, here.access[{}], 0);", type, index, type,
           places_[index]);
    }
  }
  std::string place(uint32_t index) const {
    return fmt::format("rnnc_row(b{}, here.access[{}], r){}", index, places_[index],
                       kernel_.arguments[index].vector ? " + e" : "");
  }

  /// Of what is fixed, or of what is not. As it lies in memory: a conversion would wait for it.
  void loads_ahead(bool fixed) {
    std::vector<uint32_t> loads;
    for (uint32_t id = 0; id < kernel_.body.size(); ++id) {
      const Instruction& instruction = kernel_.body[id];
      if (is_array_load(instruction) && fixed_.contains(instruction.argument) == fixed) {
        loads.push_back(id);
      }
    }
    if (loads.empty()) return;
    std::set<uint32_t> arguments;
    for (const uint32_t id : loads) {
      arguments.insert(kernel_.body[id].argument);
      const uint32_t argument = kernel_.body[id].argument;
      line("  typedef rnnc_packet<{}, 1, true> t{};",
           cuda_element_type(kernel_.arguments[argument].dtype), id);
      line("  t{} l{}[{}] = {{}};", id, id, items_);
    }
    line("  {{");
    bases(arguments);
    open_items();
    for (const uint32_t id : loads) {
      line("    l{}[j] = t{}::load({});", id, id, place(kernel_.body[id].argument));
    }
    line("  }}}}");
  }

  /// Step 4.
  void elementwise() {
    std::set<uint32_t> arguments;
    for (const Instruction& instruction : kernel_.body) {
      const bool is_load = is_array_load(instruction) && !ahead_;
      if (is_load || instruction.kind == Kind::Store) arguments.insert(instruction.argument);
    }
    bases(arguments);
    open_items();
    for (uint32_t id = 0; id < kernel_.body.size(); ++id) statement(id);
    line("  }}");
  }

  void statement(uint32_t id) {
    const Instruction& instruction = kernel_.body[id];
    switch (instruction.kind) {
      case Kind::Load:
        if (!is_array_load(instruction)) {
          line("    const float v{} = tile.result({}, i % {}u, i / {}u);", id,
               places_[instruction.argument], tile_.units, tile_.units);
        } else if (ahead_) {
          line("    const float v{} = l{}[j].get(0);", id, id);
        } else {
          line("    const float v{} = rnnc_load({});", id, place(instruction.argument));
        }
        break;
      case Kind::Scalar:
        line("    const float v{} = {};", id, cuda_scalar_text(kernel_, id));
        break;
      case Kind::Store:
        if (optional_.contains(instruction.argument)) {
          line("    if (rnnc_is_array(here.access[{}]))", places_[instruction.argument]);
        }
        line("    {}rnnc_store({}, {});",
             kernel_.arguments[instruction.argument].vector ? "" : "if (e == 0) ",
             place(instruction.argument), cuda_value(kernel_, instruction.operands[0]));
        break;
      case Kind::Constant:
        break;
      case Kind::Reduce:
      case Kind::Carried:
      case Kind::Last:
        RNNC_CHECK(false, "a fused launch has no reductions and no loops");
    }
  }

  const Kernel& kernel_;
  const std::vector<FusedProduct>& products_;
  const std::set<uint32_t>& fixed_;
  const std::set<uint32_t>& optional_;
  const FusedWork& work_;
  const FusedTile& tile_;
  const CudaFusedShape& shape_;
  std::string_view name_;
  /// By argument: index among the results of products, or among the other arrays.
  std::vector<uint32_t> places_;
  size_t arrays_ = 0;
  int64_t items_ = 0;  // elements per thread
  bool ahead_ = false;
};

}  // namespace

std::string emit_fused_kernel(const FusedKernel& fused, const FusedWork& work,
                              const FusedTile& tile, const CudaFusedShape& shape,
                              std::string_view name) {
  return FusedEmitter(fused, work, tile, shape, name).emit();
}

}  // namespace rnnc
