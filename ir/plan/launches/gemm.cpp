// Products.
#include <algorithm>

#include "ir/base/launch_limits.h"
#include "ir/plan/launches/access_text.h"
#include "ir/plan/launches/define_launch_kind.h"

namespace rnnc {

template <>
inline constexpr std::string_view kOpening<GemmLaunch> = "gemm";

namespace {

/// Of rows that are apart, what is between them need not be there.
Status check_weight(LaunchVerifier& in, const GemmLaunch& launch) {
  const WeightRows rows = weight_rows(launch);
  if (launch.weight.stride == 0) return in.check_weight(launch.weight, rows.span());
  if (launch.blocks * launch.repeats > 1) return fail("rows of several weights are apart");
  if (rows.stride < rows.length) return fail("rows of the weight overlap");
  Access row = launch.weight;
  row.stride = 0;
  for (int64_t i = 0; i < rows.count; ++i) {
    if (Status status = in.check_weight(row, rows.length); !status) return status;
    row.column += rows.stride;
  }
  return {};
}

}  // namespace

std::string text_of(const Plan& plan, const GemmLaunch& launch) {
  const int64_t columns = launch.n * launch.blocks * launch.repeats;
  return fmt::format(
      "{} {} {} @ {}{}, n {}, k {}{}{}{}{}{}", access_text(plan, launch.out, columns),
      launch.accumulate ? "+=" : "=", access_text(plan, launch.left, launch.k * launch.blocks),
      access_text(plan, launch.weight, weight_rows(launch).span()), launch.transposed ? "" : "^T",
      launch.n, launch.k, count_text(launch.blocks, "blocks"),
      count_text(launch.repeats, "repeats"), launch.tf32 ? ", in TF32" : "",
      launch.own ? ", own kernel" : "", rows_text(launch.once_rows));
}

void parse(PlanScanner& in, GemmLaunch& launch) {
  const ParsedAccess out = parse_access(in);
  launch.accumulate = in.take("+=");
  if (!launch.accumulate) in.expect("=");
  const ParsedAccess left = parse_access(in);
  in.expect("@");
  const ParsedAccess weight = parse_access(in);
  launch.transposed = !in.take("^ T");
  in.expect(", n");
  launch.n = in.count();
  in.expect(", k");
  launch.k = in.count();
  while (in.take(",")) {
    if (in.take("in TF32")) {
      launch.tf32 = true;
      continue;
    }
    if (in.take("own kernel")) {
      launch.own = true;
      continue;
    }
    const int64_t count = in.count();
    if (in.take("blocks")) {
      launch.blocks = count;
    } else if (in.take("repeats")) {
      launch.repeats = count;
    } else {
      in.expect("rows");
      launch.once_rows = count;
    }
  }
  const int64_t columns =
      in.product({launch.n, launch.blocks, launch.repeats}, "columns of a product");
  const int64_t rows = std::max({columns, launch.k, launch.n});
  const int64_t apart = std::max({launch.k, launch.n, weight.access.stride});
  in.product({rows, apart}, "elements of a weight");
  launch.out = access_of(in, out, columns);
  launch.left = access_of(in, left, in.product({launch.k, launch.blocks}, "columns of a product"));
  launch.weight = weight.access;
  if (!in.failed()) access_of(in, weight, weight_rows(launch).span());
}

void add_touches(const Plan&, const GemmLaunch& launch, std::vector<Touch>& result) {
  const int64_t columns = launch.n * launch.blocks * launch.repeats;
  result.push_back({launch.left, launch.k * launch.blocks, false});
  Access weight = launch.weight;
  weight.stride = 0;
  result.push_back({weight, weight_rows(launch).span(), false, launch.k});
  if (launch.accumulate) result.push_back({launch.out, columns, false});
  result.push_back({launch.out, columns, true});
}

Status verify(LaunchVerifier& in, const GemmLaunch& launch) {
  if (launch.n < 1 || launch.k < 1 || launch.blocks < 1 || launch.repeats < 1) {
    return fail("a product of nothing");
  }
  if (in.where() == Where::State) return fail("a product of states alone");
  if (launch.tf32 && in.plan().dtype != DType::f32) {
    return fail("a product of {} in TF32", to_string(in.plan().dtype));
  }
  if (launch.own && (in.where() != Where::Step || launch.transposed || launch.tf32 ||
                     launch.weight.stride != 0 || launch.repeats > kMostResults)) {
    return fail("no kernel of rnnc's own does such a product");
  }
  const int64_t columns = launch.n * launch.blocks * launch.repeats;
  const bool may_be_narrow = in.where() == Where::Sequence && !launch.accumulate;
  const BufferId out = launch.out.buffer;
  const bool is_narrow = may_be_narrow && out < in.plan().buffers.size() &&
                         in.plan().buffers[out].dtype == in.plan().dtype;
  const DType type = is_narrow ? in.plan().dtype : compute_type(in.plan().dtype);
  const TypedTouch left{launch.left, launch.k * launch.blocks, in.plan().dtype, false};
  if (Status status = check_weight(in, launch); !status) return status;
  std::vector<TypedTouch> touches = {left, {launch.out, columns, type, true}};
  if (launch.accumulate) {
    touches.push_back(touches.back());
    touches.back().write = false;
  }
  return in.check_touches(touches, launch.once_rows);
}

LaunchWork work_of(const Plan&, const GemmLaunch& launch, int64_t rows) {
  const int64_t width = launch.n * launch.blocks * launch.repeats;
  return {.products = 2 * static_cast<double>(rows) * static_cast<double>(width * launch.k),
          .width = width,
          .tf32 = launch.tf32};
}

LaunchWords describe(const LaunchNames& in, const GemmLaunch& launch) {
  LaunchWords words;
  words.kind = "product";
  words.looks = LaunchWords::Looks::Product;
  words.weights = in.weights_in(launch.weight, weight_rows(launch).span());
  words.strategy =
      fmt::format("{}, {} x {} x {}{}{}{}",
                  in.stage().domain == Domain::Step ? "GEMM in each step"
                  : launch.tf32                     ? "library GEMM of parts in TF32"
                  : in.on_cpu()                     ? "packed GEMM"
                                                    : "library GEMM",
                  in.rows(launch.once_rows), launch.n, launch.k,
                  launch.blocks > 1 ? fmt::format(", {} blocks", launch.blocks) : "",
                  launch.repeats > 1 ? fmt::format(", {} of them", launch.repeats) : "",
                  launch.accumulate ? ", added to what is there" : "");
  words.summary = plural(std::ssize(words.weights), "product");
  words.what = fmt::format("{} @ {}", join_names(words.weights),
                           in.value(launch.left, launch.k * launch.blocks));
  if (words.weights.size() > 1) {
    words.notes.push_back({"merged", fmt::format("{} in one, of {} stacked", words.summary,
                                                 join_names(words.weights))});
  }
  if (launch.accumulate) words.notes.push_back({"merged", "adds to a sum in its place"});
  if (launch.tf32) {
    words.notes.push_back(
        {"split", "of f32 in three parts on tensor cores, within 2^-21 of each product"});
  }
  return words;
}

template struct LaunchKind<GemmLaunch>;

}  // namespace rnnc
