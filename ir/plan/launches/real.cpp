// Integers as numbers.
#include "ir/plan/launches/access_text.h"
#include "ir/plan/launches/define_launch_kind.h"

namespace rnnc {

template <>
inline constexpr std::string_view kOpening<RealLaunch> = "real";

std::string text_of(const Plan& plan, const RealLaunch& launch) {
  return fmt::format("{} = {}", access_text(plan, launch.target, 1),
                     access_text(plan, launch.source, 1));
}

void parse(PlanScanner& in, RealLaunch& launch) {
  launch.target = parse_access(in, 1);
  in.expect("=");
  launch.source = parse_access(in, 1);
}

void add_touches(const Plan&, const RealLaunch& launch, std::vector<Touch>& result) {
  result.push_back({launch.source, 1, false});
  result.push_back({launch.target, 1, true});
}

Status verify(LaunchVerifier& in, const RealLaunch& launch) {
  if (in.where() != Where::Sequence) return fail("numbers of integers are for Sequence stages");
  Status status = in.check_touches({{launch.source, 1, DType::i32, false},
                                    {launch.target, 1, compute_type(in.plan().dtype), true}},
                                   1);
  if (!status) return status;
  const Buffer& to = in.plan().buffers[launch.target.buffer];
  return to.extent == Extent::Chunk ? Status() : fail("the target {} is no chunk", to.name);
}

LaunchWork work_of(const Plan&, const RealLaunch&, int64_t) {
  return {};
}

LaunchWords describe(const LaunchNames& in, const RealLaunch& launch) {
  LaunchWords words;
  words.kind = words.summary = "real";
  words.strategy = "conversion";
  words.what = in.value(launch.source, 1) + " as a number";
  return words;
}

template struct LaunchKind<RealLaunch>;

}  // namespace rnnc
