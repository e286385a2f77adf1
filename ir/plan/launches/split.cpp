// Operands of products in parts.
#include "ir/plan/launches/access_text.h"
#include "ir/plan/launches/define_launch_kind.h"

namespace rnnc {

template <>
inline constexpr std::string_view kOpening<SplitLaunch> = "split";

namespace {

constexpr Word<bool> kSplitWords[] = {{true, "a weight"}, {false, "a left operand"}};

}  // namespace

std::string text_of(const Plan& plan, const SplitLaunch& launch) {
  return fmt::format(
      "{} = {}, {}, {}{} of {}{}", access_text(plan, launch.target, launch.parts * launch.part),
      access_text(plan, launch.source, launch.length), word_of(kSplitWords, launch.weight),
      launch.turned ? "turned, " : "", launch.parts == 1 ? "one part" : "parts", launch.part,
      rows_text(launch.once_rows));
}

void parse(PlanScanner& in, SplitLaunch& launch) {
  const ParsedAccess target = parse_access(in);
  in.expect("=");
  const ParsedAccess source = parse_access(in);
  launch.source = source.access;
  launch.length = source.count;
  in.expect(",");
  launch.weight = in.word_of(kSplitWords, "`a weight` or `a left operand`");
  in.expect(",");
  if (in.take("turned")) {
    launch.turned = true;
    in.expect(",");
  }
  if (in.take("one part of")) {
    launch.parts = 1;
  } else {
    in.expect("parts of");
  }
  launch.part = in.count();
  parse_rows(in, launch.once_rows);
  launch.target = access_of(in, target, launch.parts * launch.part);
}

void add_touches(const Plan&, const SplitLaunch& launch, std::vector<Touch>& result) {
  result.push_back({launch.source, launch.length, false});
  result.push_back({launch.target, launch.parts * launch.part, true});
}

Status verify(LaunchVerifier& in, const SplitLaunch& launch) {
  if (in.where() != Where::Once && in.where() != Where::Sequence) {
    return fail("operands are split in Once and Sequence stages");
  }
  if (launch.length < 1 || launch.part < launch.length || launch.part % 4 != 0) {
    return fail("parts of {} for rows of {}", launch.part, launch.length);
  }
  const bool turns = launch.weight && in.where() == Where::Sequence;
  if (launch.turned && (!turns || !is_whole_chunk(in.plan(), launch.target))) {
    return fail("what is turned is no whole chunk of a total's weight");
  }
  if (launch.parts != kSplitParts && (launch.parts != 1 || !turns)) {
    return fail("{} parts", launch.parts);
  }
  const TypedTouch source{launch.source, launch.length, DType::f32, false};
  const TypedTouch target{launch.target, launch.parts * launch.part, DType::f32, true,
                          launch.turned};
  return in.check_touches({source, target}, launch.once_rows);
}

LaunchWork work_of(const Plan&, const SplitLaunch&, int64_t) {
  return {};
}

LaunchWords describe(const LaunchNames& in, const SplitLaunch& launch) {
  LaunchWords words;
  words.kind = words.summary = "split";
  words.arranges = true;
  words.strategy =
      fmt::format("kernel that {} f32 for tensor cores{}", launch.parts == 1 ? "rounds" : "parts",
                  launch.turned ? " and turns rows to columns" : "");
  words.writes = {in.plan().buffers[launch.target.buffer].name};
  if (launch.weight) {
    words.weights = in.weights_in(launch.source, launch.once_rows * launch.source.stride);
    words.what = "parts of " + join_names(words.weights);
  } else {
    words.what = "parts of " + in.value(launch.source, launch.length);
  }
  return words;
}

/// A weight is named as it was, whatever its parts are.
std::vector<WeightPart> weight_parts(const LaunchNames& in, const SplitLaunch& launch) {
  return {{.buffer = launch.target.buffer,
           .begin = 0,
           .end = in.plan().buffers[launch.target.buffer].width,
           .names = in.weights_in(launch.source, launch.once_rows * launch.source.stride)}};
}

template struct LaunchKind<SplitLaunch>;

}  // namespace rnnc
