// What lengths and resets say.
#include "ir/plan/launches/access_text.h"
#include "ir/plan/launches/define_launch_kind.h"

namespace rnnc {

template <>
inline constexpr std::string_view kOpening<MaskLaunch> = "mask";

namespace {

constexpr Word<MaskLaunch::Kind> kMaskWords[] = {
    {MaskLaunch::Kind::Valid, "valid"},
    {MaskLaunch::Kind::Reset, "reset"},
    {MaskLaunch::Kind::ResetReverse, "reset reversed"}};

}  // namespace

std::string text_of(const Plan& plan, const MaskLaunch& launch) {
  return fmt::format("{} = {}", access_text(plan, launch.target, 1),
                     word_of(kMaskWords, launch.kind)) +
         (launch.back > 0 ? fmt::format(" @ {}", launch.back) : "");
}

void parse(PlanScanner& in, MaskLaunch& launch) {
  launch.target = parse_access(in, 1);
  in.expect("=");
  launch.kind = in.word_of(kMaskWords, "what the mask is of");
  if (in.take("@")) launch.back = in.count();
}

void add_touches(const Plan&, const MaskLaunch& launch, std::vector<Touch>& result) {
  result.push_back({launch.target, 1, true});
}

Status verify(LaunchVerifier& in, const MaskLaunch& launch) {
  if (in.where() != Where::Sequence) return fail("masks are for Sequence stages");
  if (launch.back < 0 || (launch.back > 0 && launch.kind == MaskLaunch::Kind::Valid)) {
    return fail("a mask of {} steps back", launch.back);
  }
  const TypedTouch target{launch.target, 1, compute_type(in.plan().dtype), true};
  if (Status status = in.check_touches({target}, 1); !status) return status;
  const Buffer& buffer = in.plan().buffers[launch.target.buffer];
  if (buffer.extent == Extent::Chunk && buffer.width == 1) return {};
  return fail("{} is no chunk of scalars", buffer.name);
}

LaunchWork work_of(const Plan&, const MaskLaunch&, int64_t) {
  return {};
}

LaunchWords describe(const LaunchNames&, const MaskLaunch& launch) {
  LaunchWords words;
  words.kind = words.summary = "mask";
  words.strategy = "mask";
  words.what = "1 for steps that a sequence has, else 0";
  if (launch.kind == MaskLaunch::Kind::Valid) return words;
  words.what = launch.back == 0
                   ? "1 where a sequence begins anew, else 0"
                   : fmt::format("1 where a sequence has begun anew within {} steps, else 0",
                                 launch.back + 1);
  return words;
}

template struct LaunchKind<MaskLaunch>;

}  // namespace rnnc
