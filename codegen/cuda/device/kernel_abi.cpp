#include "codegen/cuda/device/kernel_abi.h"

#include <algorithm>

#include "ir/base/arithmetic.h"
#include "ir/plan/kernel_facts.h"

namespace rnnc {
namespace {

constexpr int kElementwiseThreads = 128;
constexpr int64_t kMostElementsPerSlice = int64_t{1} << 30;  // indices are 32-bit within a slice
constexpr int64_t kMostSlices = 65535;

int64_t rows_per_slice(int64_t length) {
  return std::max<int64_t>(1, kMostElementsPerSlice / length);
}

}  // namespace

std::string cuda_end_chunk_name(const Plan& plan) {
  return plan.descending ? "rnnc_end_descending_chunk" : "rnnc_end_chunk";
}

std::string cuda_sequence_kernel(const Plan& plan, const Launch& launch) {
  const auto dtype = [&](const Access& access) { return plan.buffers[access.buffer].dtype; };
  // Kernels that only move elements are for those of 2 and of 4 bytes.
  const auto of_size = [&](std::string_view name, const Access& access) {
    return fmt::format("rnnc_{}_{}", name, size_of(dtype(access)));
  };
  if (const auto* reverse = std::get_if<ReverseLaunch>(&launch)) {
    return of_size("reverse", reverse->source);
  }
  if (const auto* copy = std::get_if<CopyLaunch>(&launch)) {
    return copy->transposed ? of_size("transpose", copy->source) : kCudaCopyName;
  }
  if (std::holds_alternative<EarlierLaunch>(launch)) return kCudaCopyName;
  if (const auto* rows = std::get_if<RowsLaunch>(&launch)) return of_size("rows", rows->table);
  if (const auto* total = std::get_if<RowTotalLaunch>(&launch)) {
    return fmt::format("rnnc_add_rows_{}", to_string(dtype(total->value)));
  }
  if (std::holds_alternative<RealLaunch>(launch)) return "rnnc_real";
  if (const auto* mask = std::get_if<MaskLaunch>(&launch)) {
    return mask->back > 0 ? kCudaResetsBackName : "rnnc_mask";
  }
  const auto* split = std::get_if<SplitLaunch>(&launch);
  if (split == nullptr) return "";
  return split->turned ? kCudaSplitTurnedName : kCudaSplitName;
}

int64_t cuda_row_slices(int64_t rows, int64_t columns) {
  constexpr int64_t kBlocks = 512;        // they fill every GPU
  constexpr int64_t kLeastOfThread = 16;  // rows: fewer are not worth another launch
  const int64_t most = std::max<int64_t>(1, kBlocks / ceil_div(columns, kCudaTotalColumns));
  return std::clamp<int64_t>(rows / (kLeastOfThread * kCudaTotalThreads), 1, most);
}

std::string cuda_kernel_name(size_t index) {
  return fmt::format("k{}", index);
}

CudaKernelShape cuda_kernel_shape(const Kernel& kernel, int items) {
  if (!has_reductions(kernel)) {
    return {.length = kernel.length, .threads = kElementwiseThreads, .items = items};
  }
  if (!kernel.loops.empty()) {
    return {.length = kernel.length,
            .threads = static_cast<int>(round_up(kernel.length, 32)),
            .row_block = true};
  }
  // Up to four elements per thread: joining few warps costs less than joining many.
  const int64_t wanted =
      std::max<int64_t>(std::min<int64_t>(kernel.length, 256), kernel.length / 4);
  const int64_t threads = std::min<int64_t>(ceil_div(wanted, 32) * 32, 1024);
  return {.length = kernel.length,
          .threads = static_cast<int>(threads),
          .items = static_cast<int>(ceil_div(kernel.length, threads)),
          .row_block = true};
}

int64_t cuda_most_rows(int64_t length) {
  return std::min<int64_t>(INT32_MAX, rows_per_slice(length) * kMostSlices);
}

int64_t cuda_scan_tiles(const CudaScanShape& shape, int64_t steps, int64_t rows) {
  return ceil_div(steps, shape.tile_steps) * ceil_div(rows * shape.length, kCudaScanLanes);
}

CudaGrid cuda_grid(const CudaKernelShape& shape, int64_t rows) {
  RNNC_CHECK(rows >= 1 && rows <= cuda_most_rows(shape.length), "{} rows of {}", rows,
             shape.length);
  CudaGrid grid;
  grid.rows.count = static_cast<uint32_t>(rows);
  if (shape.row_block) {
    grid.x = static_cast<uint32_t>(rows);
    grid.y = 1;
    grid.rows.per_slice = grid.rows.count;
    return grid;
  }
  const int64_t per_slice = std::min(rows, rows_per_slice(shape.length));
  grid.x = static_cast<uint32_t>(
      ceil_div(per_slice * shape.length, int64_t{shape.threads} * shape.items));
  grid.y = static_cast<uint32_t>(ceil_div(rows, per_slice));
  grid.rows.per_slice = static_cast<uint32_t>(per_slice);
  return grid;
}

}  // namespace rnnc
