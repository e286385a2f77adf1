#include "runtime/cpu/prepared_launch.h"

#include <algorithm>
#include <array>

#include "codegen/cpu/kernel_cost.h"
#include "runtime/cpu/gemm.h"

namespace rnnc {
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
  ProductWork(const Plan& plan, const CpuGemm& gemm, const GemmLaunch& launch)
      : gemm_(gemm), dtype_(plan.dtype), launch_(launch) {
    accesses = {launch.left, launch.out};
    weights = {launch.weight};
    panels_ = ceil_div(launch.n, gemm.panel_columns);
    panel_bytes_ = panel_bytes(gemm, dtype_, launch.k);
    tiles = launch.repeats * launch.blocks * panels_;
    operations_per_row =
        static_cast<double>(launch.repeats * launch.blocks * launch.n) * double(launch.k);
    packed_bytes = tiles * panel_bytes_;
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
                        .panel = packed + tile * panel_bytes_,
                        .out = out + (row * launch_.out.stride + out_column) * element,
                        .out_stride = launch_.out.stride,
                        .rows = std::min(kRowsPerBlock, part.row_end - row),
                        .k = launch_.k,
                        .columns = at.columns,
                        .accumulate = launch_.accumulate});
      }
    }
  }

  void pack(void* const* addresses, int64_t tile) const override {
    const auto element = static_cast<int64_t>(size_of(dtype_));
    const Tile at = find(tile);
    const auto* weight =
        static_cast<const std::byte*>(addresses[0]) + at.block * launch_.n * launch_.k * element;
    const int64_t stride = weight_stride(launch_);
    std::byte* panel = packed + tile * panel_bytes_;
    if (launch_.transposed) {
      pack_columns(gemm_, dtype_, launch_.k, weight + at.column * element, stride, at.columns,
                   panel);
      return;
    }
    std::array<const std::byte*, kMostPanelColumns> rows = {};
    for (int64_t j = 0; j < at.columns; ++j) {
      rows[j] = weight + (at.column + j) * stride * element;
    }
    pack_rows(gemm_, dtype_, launch_.k, {rows.data(), static_cast<size_t>(at.columns)}, panel);
  }

 private:
  struct Tile {
    int64_t block, column, columns;  // of all repeats' blocks
  };
  Tile find(int64_t tile) const {
    const int64_t column = tile % panels_ * gemm_.panel_columns;
    return {tile / panels_, column, std::min(gemm_.panel_columns, launch_.n - column)};
  }

  const CpuGemm& gemm_;
  DType dtype_;
  GemmLaunch launch_;
  int64_t panels_ = 0;  // of a block
  int64_t panel_bytes_ = 0;
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
                                                const GemmLaunch& launch) {
  RNNC_CHECK(plan.buffers[launch.weight.buffer].extent == Extent::Invariant,
             "a product's weight varies over time");
  return std::make_unique<ProductWork>(plan, module.gemm(), launch);
}

}  // namespace rnnc
