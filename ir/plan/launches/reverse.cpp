// Sequences backwards.
#include "ir/plan/launches/access_text.h"
#include "ir/plan/launches/define_launch_kind.h"

namespace rnnc {

template <>
inline constexpr std::string_view kOpening<ReverseLaunch> = "reverse";

std::string text_of(const Plan& plan, const ReverseLaunch& launch) {
  return fmt::format("{} = {}", access_text(plan, launch.target, launch.width),
                     access_text(plan, launch.source, launch.width));
}

void parse(PlanScanner& in, ReverseLaunch& launch) {
  const ParsedAccess target = parse_access(in);
  in.expect("=");
  launch = {
      .source = parse_access(in, target.count), .target = target.access, .width = target.count};
}

void add_touches(const Plan&, const ReverseLaunch& launch, std::vector<Touch>& result) {
  result.push_back({launch.source, launch.width, false});
  result.push_back({launch.target, launch.width, true});
}

Status verify(LaunchVerifier& in, const ReverseLaunch& launch) {
  if (in.where() != Where::Sequence) return fail("reversals are for Sequence stages");
  if (launch.width < 1) return fail("a reversal of nothing");
  const TypedTouch source{launch.source, launch.width, {}, false};
  if (Status status = in.check_move(source, {launch.target, launch.width, {}, true}); !status) {
    return status;
  }
  const Buffer& from = in.plan().buffers[launch.source.buffer];
  const Buffer& to = in.plan().buffers[launch.target.buffer];
  if (from.extent != Extent::Steps) return fail("{} has not all steps to reverse", from.name);
  if (to.extent != Extent::Chunk) return fail("the target {} is no chunk", to.name);
  if (from.placement == Placement::Caller) return {};
  if (!in.is_complete(source)) {
    return fail("{} is reversed in the sweep that writes it", from.name);
  }
  return {};
}

LaunchWork work_of(const Plan&, const ReverseLaunch&, int64_t) {
  return {};
}

LaunchWords describe(const LaunchNames& in, const ReverseLaunch& launch) {
  LaunchWords words;
  words.kind = words.summary = "reverse";
  words.strategy = "copy, each sequence from its last step to its first";
  words.what = in.value(launch.source, launch.width) + " backwards";
  return words;
}

template struct LaunchKind<ReverseLaunch>;

}  // namespace rnnc
