#include "runtime/cuda/library_products.h"

#include <algorithm>

#include "ir/base/arithmetic.h"
#include "ir/plan/waves.h"

namespace rnnc::cuda {
namespace {

/// Of kinds that no product does:
template <typename L>
std::optional<LibraryProduct> product_of(const Plan&, const L&) {
  return std::nullopt;
}

std::optional<LibraryProduct> product_of(const Plan& plan, const GemmLaunch& launch) {
  const int64_t parts = launch.blocks * launch.repeats;
  return LibraryProduct{.left = launch.left,
                        .weight = launch.weight,
                        .out = launch.out,
                        .left_apart = launch.blocks == 1 ? 0 : launch.k,
                        .weight_apart = parts == 1 ? 0 : launch.n * launch.k,
                        .out_apart = parts == 1 ? 0 : launch.n,
                        .blocks = launch.blocks,
                        .repeats = launch.repeats,
                        .most_steps = plan.chunk,
                        .once_rows = launch.once_rows,
                        .shape = {.n = launch.n,
                                  .k = launch.k,
                                  .transposed = launch.transposed,
                                  .blocks = launch.blocks,
                                  .left_stride = launch.left.stride,
                                  .weight_stride = weight_stride(launch),
                                  .out_stride = launch.out.stride,
                                  .dtype = plan.dtype,
                                  .out_dtype = plan.buffers[launch.out.buffer].dtype,
                                  .tf32 = plan.tf32 || launch.tf32,
                                  .accumulate = launch.accumulate}};
}

/// Steps that a total adds up at once: of parts so many as have few enough rows, in pieces that are
/// about equal. Where columns of rows are turned, as many as leave the next ones aligned, if a
/// piece may have so many.
int64_t steps_at_once(const Plan& plan, const TotalLaunch& launch) {
  const int64_t most =
      launch.in_parts ? std::max<int64_t>(1, kMostSplitRows / plan.batch) : plan.chunk;
  const int64_t piece = ceil_div(plan.chunk, ceil_div(plan.chunk, most));
  if (!launch.turned) return piece;
  const int64_t unit = turned_steps(plan);
  const int64_t more = round_up(piece, unit);
  if (more <= std::min(most, plan.chunk)) return more;
  return piece < unit ? piece : more - unit;
}

std::optional<LibraryProduct> product_of(const Plan& plan, const TotalLaunch& launch) {
  if (launch.right.buffer == kNoBuffer) return std::nullopt;
  const bool alone = launch.blocks == 1;
  return LibraryProduct{
      .left = launch.left,
      .weight = launch.right,
      .out = launch.out,
      .left_apart = alone ? 0 : launch.m,
      .weight_apart = alone ? 0 : launch.n,
      .out_apart = alone ? 0 : launch.m * launch.n,
      .blocks = launch.blocks,
      .row_parts = row_parts(launch),
      .turned = launch.turned,
      .earlier = launch.earlier,
      .most_steps = steps_at_once(plan, launch),
      .once_rows = plan.batch,
      .shape = {.m = launch.m,
                .n = launch.n,
                .blocks = launch.blocks,
                .left_stride = part_stride(launch, launch.left),
                .weight_stride = part_stride(launch, launch.right),
                .turned_stride = launch.turned ? turned_rows(plan) * row_parts(launch) : 0,
                .dtype = plan.dtype,
                .tf32 = plan.tf32 || launch.in_parts,
                .accumulate = launch.accumulate}};
}

}  // namespace

std::optional<LibraryProduct> library_product(const Plan& plan, const Launch& launch) {
  return std::visit([&](const auto& one) { return product_of(plan, one); }, launch);
}

}  // namespace rnnc::cuda
