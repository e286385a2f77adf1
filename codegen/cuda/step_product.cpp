#include "codegen/cuda/step_product.h"

namespace rnnc {
namespace {

/// Template arguments of rnnc_step_product.
struct Tile {
  int64_t most_rows;  // of the batch
  int rows;           // per thread
  int warp_columns;
  int warp_rows;
  int parts;
};

// Measured best of a few at widths 256 to 2048.
constexpr Tile kTiles[] = {
    {.most_rows = 4, .rows = 1, .warp_columns = 1, .warp_rows = 2, .parts = 4},
    {.most_rows = 8, .rows = 4, .warp_columns = 2, .warp_rows = 1, .parts = 4},
    {.most_rows = 32, .rows = 8, .warp_columns = 2, .warp_rows = 1, .parts = 4},
};
/// Above 16 rows only small weights are faster than cuBLASLt's.
constexpr int64_t kRowsForAnyWeight = 16;
constexpr int64_t kMostWeight = int64_t{4} << 20;
constexpr int64_t kMostBlocks = 65535;  // of a grid's z

}  // namespace

std::optional<StepProduct> step_product(const Plan& plan, const GemmLaunch& launch) {
  if (plan.dtype != DType::f32 || launch.transposed) return std::nullopt;
  if (launch.blocks > kMostBlocks) return std::nullopt;
  if (plan.batch > kRowsForAnyWeight && launch.blocks * launch.n * launch.k > kMostWeight)
    return std::nullopt;
  for (const Tile& tile : kTiles) {
    if (plan.batch > tile.most_rows) continue;
    // Resident buffers are aligned to 256 bytes, so runs of 4 elements need only strides that fit.
    const bool even = launch.k % 4 == 0 && launch.left.stride % 4 == 0 &&
                      launch.left.column % 4 == 0 && launch.weight.column % 4 == 0;
    const int width = even ? 4 : 1;
    StepProduct product;
    product.name = fmt::format("rnnc_step_product_{}_{}", tile.most_rows, width);
    product.threads = static_cast<uint32_t>(32 * tile.warp_columns * tile.warp_rows * tile.parts);
    product.block_columns = int64_t{8} * tile.warp_columns;
    product.block_rows = int64_t{2} * tile.warp_rows * tile.rows;
    product.definition = fmt::format(
        "extern \"C\" __global__ void __launch_bounds__({}) {}(\n"
        "    const float* left, const float* weight, float* out, int rows, int n, int k,\n"
        "    rnnc_word left_stride, rnnc_word out_stride) {{\n"
        "  rnnc_step_product<{}, {}, {}, {}, {}>(left, weight, out, rows, n, k, left_stride,\n"
        "                                     out_stride);\n"
        "}}\n",
        product.threads, product.name, width, tile.rows, tile.warp_columns, tile.warp_rows,
        tile.parts);
    return product;
  }
  return std::nullopt;
}

}  // namespace rnnc
