#include "runtime/cpu/prepared_launch.h"

#include <algorithm>
#include <array>

#include "codegen/cpu/kernel_cost.h"
#include "runtime/cpu/gemm.h"

namespace rnnc::cpu {
namespace {

/// By columns where the kernel allows: no reductions, and nothing stored once per row.
bool has_column_tiles(const Kernel& kernel) {
  return std::ranges::all_of(kernel.body, [&](const Instruction& instruction) {
    if (instruction.kind == Instruction::Kind::Reduce) return false;
    return instruction.kind != Instruction::Kind::Store ||
           kernel.arguments[instruction.argument].vector;
  });
}

class ElementwiseWork : public PreparedLaunch {
 public:
  ElementwiseWork(const Kernel& kernel, const CpuModule& module, CpuKernel function,
                  const std::vector<Access>& launch_accesses)
      : function_(function) {
    accesses = launch_accesses;
    for (const Access& access : accesses) strides_.push_back(access.stride);
    columns = kernel.length;
    tile_columns = has_column_tiles(kernel) ? module.gemm().lanes : columns;
    tiles = ceil_div(columns, tile_columns);
    operations_per_row = static_cast<double>(operations_per_vector(kernel) * kernel.length);
    scratch_bytes = static_cast<int64_t>(module.scratch_bytes());
  }

  void run(void* const* addresses, const Part& part, std::byte* scratch) const override {
    function_(addresses, strides_.data(), part.row_begin, part.row_end,
              part.tile_begin * tile_columns, std::min(part.tile_end * tile_columns, columns),
              scratch);
  }

 private:
  CpuKernel function_;
  std::vector<int64_t> strides_;
};

/// A tile is a panel of one block of one repeat.
class ProductWork : public PreparedLaunch {
 public:
  ProductWork(const Plan& plan, const CpuGemm& gemm, const GemmLaunch& launch, int64_t rows)
      : gemm_(gemm),
        dtype_(plan.dtype),
        launch_(launch),
        panels_(best_panels(gemm, dtype_,
                            {.vectors = ceil_div(launch.n, gemm.lanes),
                             .rows = std::min(rows, kRowsPerBlock),
                             .k = launch.k})),
        block_bytes_(cpu::packed_bytes(gemm, dtype_, panels_.vectors(), launch.k)) {
    accesses = {launch.left, launch.out};
    weights = {launch.weight};
    tiles = launch.repeats * launch.blocks * panels_.count();
    operations_per_row =
        static_cast<double>(launch.repeats * launch.blocks * launch.n) * double(launch.k);
    packed_bytes = launch.repeats * launch.blocks * block_bytes_;
    if (launch.blocks == 1) operand_bytes = launch.k * static_cast<int64_t>(size_of(dtype_));
  }

  void run(void* const* addresses, const Part& part, std::byte* /*scratch*/) const override {
    const auto element = static_cast<int64_t>(size_of(dtype_));
    const auto* left = static_cast<const std::byte*>(addresses[0]);
    auto* out = static_cast<std::byte*>(addresses[1]);
    for (int64_t row = part.row_begin; row < part.row_end; row += kRowsPerBlock) {
      for (int64_t tile = part.tile_begin; tile < part.tile_end; ++tile) {
        const Tile at = find(tile);
        const int64_t left_column = at.block % launch_.blocks * launch_.k;
        const int64_t out_column = at.block * launch_.n + at.column;
        multiply_panel(gemm_, dtype_,
                       {.left = left + (row * launch_.left.stride + left_column) * element,
                        .left_stride = launch_.left.stride,
                        .panel = at.panel,
                        .out = out + (row * launch_.out.stride + out_column) * element,
                        .out_stride = launch_.out.stride,
                        .rows = std::min(kRowsPerBlock, part.row_end - row),
                        .k = launch_.k,
                        .vectors = at.vectors,
                        .columns = at.columns,
                        .accumulate = launch_.accumulate,
                        .weights = all_packed()});
      }
    }
  }

  void pack(void* const* addresses, int64_t tile) const override {
    const auto element = static_cast<int64_t>(size_of(dtype_));
    const Tile at = find(tile);
    const auto* weight =
        static_cast<const std::byte*>(addresses[0]) + at.block * launch_.n * launch_.k * element;
    const int64_t stride = weight_stride(launch_);
    const PanelTarget target = {.vectors = at.vectors, .k = launch_.k, .panel = at.panel};
    if (launch_.transposed) {
      pack_columns(gemm_, dtype_, weight + at.column * element, stride, at.columns, target);
      return;
    }
    std::array<const std::byte*, kMostPanelColumns> rows = {};
    for (int64_t j = 0; j < at.columns; ++j) {
      rows[j] = weight + (at.column + j) * stride * element;
    }
    pack_rows(gemm_, dtype_, {rows.data(), static_cast<size_t>(at.columns)}, target);
  }

 private:
  struct Tile {
    int64_t block = 0;  // of all repeats' blocks
    int64_t vectors = 0;
    int64_t column = 0, columns = 0;
    std::byte* panel = nullptr;
  };
  Tile find(int64_t tile) const {
    const int64_t panel = tile % panels_.count();
    const int64_t first = panels_.begin(panel);
    Tile at = {.block = tile / panels_.count(), .vectors = panels_.vectors_of(panel)};
    at.column = first * gemm_.lanes;
    at.columns = std::min(at.vectors * gemm_.lanes, launch_.n - at.column);
    at.panel =
        packed + at.block * block_bytes_ + cpu::packed_bytes(gemm_, dtype_, first, launch_.k);
    return at;
  }

  const CpuGemm& gemm_;
  DType dtype_;
  GemmLaunch launch_;
  Panels panels_;            // of a block
  int64_t block_bytes_ = 0;  // of its panels
};

}  // namespace

void PreparedLaunch::pack(void* const* /*addresses*/, int64_t /*tile*/) const {}

std::unique_ptr<PreparedLaunch> prepare_elementwise(const Plan& plan, const CpuModule& module,
                                                    uint32_t kernel,
                                                    const std::vector<Access>& accesses) {
  if (accesses.empty()) return nullptr;
  return std::make_unique<ElementwiseWork>(plan.kernels[kernel], module, module.kernels()[kernel],
                                           accesses);
}

std::unique_ptr<PreparedLaunch> prepare_product(const Plan& plan, const CpuModule& module,
                                                const GemmLaunch& launch, int64_t rows) {
  RNNC_CHECK(plan.buffers[launch.weight.buffer].extent == Extent::Invariant,
             "a product's weight varies over time");
  return std::make_unique<ProductWork>(plan, module.gemm(), launch, rows);
}

}  // namespace rnnc::cpu
