// Sums over steps and batch.
#include <algorithm>

#include "ir/plan/launches/access_text.h"
#include "ir/plan/launches/define_launch_kind.h"

namespace rnnc {

template <>
inline constexpr std::string_view kOpening<TotalLaunch> = "total";

namespace {

bool has_right(const TotalLaunch& launch) {
  return launch.right.buffer != kNoBuffer;
}

int64_t left_count(const TotalLaunch& launch) {
  return launch.blocks * launch.m;
}

int64_t right_count(const TotalLaunch& launch) {
  return launch.blocks * launch.n;
}

int64_t out_count(const TotalLaunch& launch) {
  return launch.blocks * launch.m * launch.n;
}

struct Operand {
  Access access;
  int64_t count = 0;
  bool turned = false;
};

/// Each of them, or each part.
std::vector<Operand> operands_of(const TotalLaunch& launch) {
  std::vector<Operand> operands;
  const auto add = [&](Operand operand) {
    for (int64_t part = 0; part < row_parts(launch); ++part) {
      operands.push_back(operand);
      operand.access.column += part_stride(launch, operand.access);
    }
  };
  add({launch.left, left_count(launch)});
  if (has_right(launch)) add({launch.right, right_count(launch), launch.turned});
  return operands;
}

Status verify_parts(const Plan& plan, const TotalLaunch& launch) {
  const auto are_parts = [](const Access& access, int64_t count) {
    return access.stride % kSplitParts == 0 && access.column >= 0 &&
           access.column + count <= access.stride / kSplitParts;
  };
  if (plan.dtype != DType::f32) return fail("a total of {} in parts", to_string(plan.dtype));
  if (!has_right(launch) || launch.blocks != 1) return fail("parts of what is no product");
  if (!are_parts(launch.left, left_count(launch)) ||
      !are_parts(launch.right, right_count(launch))) {
    return fail("operands whose rows are not of {} parts", kSplitParts);
  }
  return {};
}

Status verify_earlier(const LaunchVerifier& in, const TotalLaunch& launch) {
  if (in.where() != Where::Sequence) return fail("earlier steps are for Sequence stages");
  if (!has_right(launch) || launch.in_parts || launch.turned) {
    return fail("earlier steps of what is no product of plain rows");
  }
  if (launch.right.buffer >= in.plan().buffers.size()) {
    return fail("there is no buffer {}", launch.right.buffer);
  }
  const Buffer& from = in.plan().buffers[launch.right.buffer];
  if (from.extent == Extent::Steps && from.placement == Placement::Caller) return {};
  return fail("{} is no sequence of the caller's", from.name);
}

/// Of plans that round to TF32, and of operands in parts.
bool is_tf32(const Plan& plan, const TotalLaunch& launch) {
  return has_right(launch) && (plan.tf32 || launch.in_parts);
}

}  // namespace

std::string text_of(const Plan& plan, const TotalLaunch& launch) {
  return fmt::format(
      "{} {} {}{}{}{}{}{}", access_text(plan, launch.out, out_count(launch)),
      launch.accumulate ? "+=" : "=", access_text(plan, launch.left, left_count(launch)),
      has_right(launch) ? " x " + access_text(plan, launch.right, right_count(launch)) : "",
      count_text(launch.blocks, "blocks"), launch.in_parts ? ", in parts" : "",
      launch.turned ? ", turned" : "", launch.earlier ? ", a step earlier" : "");
}

void parse(PlanScanner& in, TotalLaunch& launch) {
  const ParsedAccess out = parse_access(in);
  launch.accumulate = in.take("+=");
  if (!launch.accumulate) in.expect("=");
  const ParsedAccess left = parse_access(in);
  launch.left = left.access;
  const size_t position = in.position();
  int64_t right_columns = 1;
  if (in.take("x")) {
    const ParsedAccess right = parse_access(in);
    launch.right = right.access;
    right_columns = right.count;
  }
  while (in.take(",")) {
    if (in.take("in parts")) {
      launch.in_parts = true;
      continue;
    }
    if (in.take("turned")) {
      launch.turned = true;
      break;
    }
    if (in.take("a step earlier")) {
      launch.earlier = true;
      break;
    }
    launch.blocks = in.count();
    in.expect("blocks");
  }
  const int64_t blocks = std::max<int64_t>(launch.blocks, 1);
  if (left.count % blocks != 0 || (has_right(launch) && right_columns % blocks != 0)) {
    in.complain_at(position, fmt::format("operands that are not of {} equal blocks", blocks));
    return;
  }
  launch.m = left.count / blocks;
  launch.n = has_right(launch) ? right_columns / blocks : 1;
  launch.out = access_of(in, out, in.product({blocks, launch.m, launch.n}, "elements of a total"));
}

void add_touches(const Plan&, const TotalLaunch& launch, std::vector<Touch>& result) {
  for (const Operand& operand : operands_of(launch)) {
    result.push_back({operand.access, operand.count, false});
  }
  if (launch.accumulate) result.push_back({launch.out, out_count(launch), false});
  result.push_back({launch.out, out_count(launch), true});
}

Status verify(LaunchVerifier& in, const TotalLaunch& launch) {
  if (launch.m < 1 || launch.n < 1 || launch.blocks < 1) return fail("a total of nothing");
  if (!has_right(launch) && (launch.n != 1 || launch.blocks != 1)) {
    return fail("a sum of rows in blocks");
  }
  if (in.where() != Where::Sequence && in.where() != Where::Last) {
    return fail("totals are for Sequence and Last stages");
  }
  if (launch.accumulate != (in.where() == Where::Sequence)) {
    return fail("totals of Sequence stages add up, and no others");
  }
  const Plan& plan = in.plan();
  const DType compute = compute_type(plan.dtype);
  const bool widened = !has_right(launch) && launch.left.buffer < plan.buffers.size() &&
                       plan.buffers[launch.left.buffer].dtype == compute;
  if (launch.in_parts) {
    if (Status status = verify_parts(plan, launch); !status) return status;
  }
  if (launch.turned && (!is_tf32(plan, launch) || in.where() != Where::Sequence ||
                        launch.blocks != 1 || !is_whole_chunk(plan, launch.right))) {
    return fail("what is turned is no whole chunk of an operand in TF32");
  }
  if (launch.earlier) {
    if (Status status = verify_earlier(in, launch); !status) return status;
  }
  std::vector<TypedTouch> touches;
  for (const Operand& operand : operands_of(launch)) {
    touches.push_back(
        {operand.access, operand.count, widened ? compute : plan.dtype, false, operand.turned});
  }
  if (launch.accumulate) touches.push_back({launch.out, out_count(launch), compute, false});
  touches.push_back({launch.out, out_count(launch), compute, true});
  if (Status status = in.check_touches(touches, 1); !status) return status;
  const auto extent = [&](const Access& access) { return plan.buffers[access.buffer].extent; };
  if (extent(launch.out) != Extent::Invariant) return fail("a total of many rows");
  for (const Access* operand : {&launch.left, &launch.right}) {
    if (operand->buffer == kNoBuffer) continue;
    if (extent(*operand) == Extent::Invariant) return fail("a total of what does not vary");
  }
  return {};
}

LaunchWork work_of(const Plan& plan, const TotalLaunch& launch, int64_t rows) {
  const auto terms =
      static_cast<double>(rows * row_parts(launch)) * static_cast<double>(out_count(launch));
  if (!has_right(launch)) return {.elementwise = terms};
  constexpr double kAcrossMemory = 0.65;  // see passes/plan/split_gemms.h
  return {.products = 2 * terms,
          .width = launch.n,
          .tf32 = launch.in_parts,
          .share = is_tf32(plan, launch) && !launch.turned ? kAcrossMemory : 1};
}

LaunchWords describe(const LaunchNames& in, const TotalLaunch& launch) {
  LaunchWords words;
  words.kind = words.summary = "total";
  const std::string left = in.value(launch.left, left_count(launch));
  const std::string rows = in.rows(once_rows(in.plan(), launch));
  if (!has_right(launch)) {
    words.strategy = fmt::format("sum over {}", rows);
    words.what = "sum of " + left;
    return words;
  }
  words.strategy = fmt::format("GEMM over {}, {} x {}{}{}", rows, launch.m, launch.n,
                               launch.blocks > 1 ? fmt::format(", {} blocks", launch.blocks) : "",
                               launch.in_parts ? ", f32 in parts on tensor cores" : "");
  words.what =
      fmt::format("sum of {} times {}{}", left, in.value(launch.right, right_count(launch)),
                  launch.earlier ? " a step earlier" : "");
  return words;
}

/// Those of the batch.
int64_t once_rows(const Plan& plan, const TotalLaunch&) {
  return plan.batch;
}

std::vector<BufferId> sums_of(const TotalLaunch& launch) {
  if (!launch.accumulate) return {};
  return {launch.out.buffer};
}

bool fills_sum(const Plan& plan, const TotalLaunch& launch) {
  return out_count(launch) == plan.buffers[launch.out.buffer].width;
}

template struct LaunchKind<TotalLaunch>;

}  // namespace rnnc
