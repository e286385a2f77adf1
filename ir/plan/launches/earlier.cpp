// Sequences a step late.
#include "ir/plan/launches/access_text.h"
#include "ir/plan/launches/define_launch_kind.h"

namespace rnnc {

template <>
inline constexpr std::string_view kOpening<EarlierLaunch> = "earlier";

std::string text_of(const Plan& plan, const EarlierLaunch& launch) {
  return fmt::format("{} = {}", access_text(plan, launch.target, launch.width),
                     access_text(plan, launch.source, launch.width));
}

void parse(PlanScanner& in, EarlierLaunch& launch) {
  const ParsedAccess target = parse_access(in);
  in.expect("=");
  launch = {
      .source = parse_access(in, target.count), .target = target.access, .width = target.count};
}

void add_touches(const Plan&, const EarlierLaunch& launch, std::vector<Touch>& result) {
  result.push_back({launch.source, launch.width, false});
  result.push_back({launch.target, launch.width, true});
}

Status verify(LaunchVerifier& in, const EarlierLaunch& launch) {
  if (in.where() != Where::Sequence) return fail("earlier steps are for Sequence stages");
  if (launch.width < 1) return fail("earlier steps of nothing");
  const TypedTouch source{launch.source, launch.width, {}, false};
  if (Status status = in.check_move(source, {launch.target, launch.width, {}, true}); !status) {
    return status;
  }
  const Buffer& from = in.plan().buffers[launch.source.buffer];
  const Buffer& to = in.plan().buffers[launch.target.buffer];
  if (from.extent != Extent::Steps || from.placement != Placement::Caller) {
    return fail("{} is no sequence of the caller's", from.name);
  }
  if (to.extent != Extent::Chunk) return fail("the target {} is no chunk", to.name);
  return {};
}

LaunchWork work_of(const Plan&, const EarlierLaunch&, int64_t) {
  return {};
}

LaunchWords describe(const LaunchNames& in, const EarlierLaunch& launch) {
  LaunchWords words;
  words.kind = words.summary = "earlier";
  words.strategy = "copy, each step from the one before it";
  words.what = in.value(launch.source, launch.width) + " a step earlier";
  return words;
}

template struct LaunchKind<EarlierLaunch>;

}  // namespace rnnc
