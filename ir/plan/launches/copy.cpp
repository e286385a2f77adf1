// Copies of what does not change.
#include "ir/plan/launches/access_text.h"
#include "ir/plan/launches/launches.h"

namespace rnnc {

std::string text_of(const Plan& plan, const CopyLaunch& launch) {
  const int64_t count = launch.rows * launch.columns;
  std::string text = fmt::format("{} = {}", access_text(plan, launch.target, count),
                                 access_text(plan, launch.source, count));
  if (launch.transposed) text += "^T";
  if (launch.transposed || launch.rows != 1) {
    text += fmt::format(", {} x {}", launch.rows, launch.columns);
  }
  return text;
}

void parse(PlanScanner& in, CopyLaunch& launch) {
  const ParsedAccess target = parse_access(in);
  in.expect("=");
  const ParsedAccess source = parse_access(in);
  launch.transposed = in.take("^ T");
  launch.columns = target.count;
  if (launch.transposed) in.expect(",");
  if (launch.transposed || in.take(",")) {
    launch.rows = in.count();
    in.expect("x");
    launch.columns = in.count();
  }
  const int64_t count = in.product({launch.rows, launch.columns}, "elements");
  launch.target = access_of(in, target, count);
  launch.source = access_of(in, source, count);
}

void add_touches(const Plan&, const CopyLaunch& launch, std::vector<Touch>& result) {
  const int64_t count = launch.rows * launch.columns;
  result.push_back({launch.source, count, false});
  result.push_back({launch.target, count, true});
}

Status verify(LaunchVerifier& in, const CopyLaunch& launch) {
  if (in.where() != Where::Once && in.where() != Where::Last) {
    return fail("copies are for Once and Last stages");
  }
  if (launch.rows < 1 || launch.columns < 1) return fail("a copy of nothing");
  const int64_t count = launch.rows * launch.columns;
  return in.check_move({launch.source, count, {}, false}, {launch.target, count, {}, true});
}

LaunchWork work_of(const Plan&, const CopyLaunch&, int64_t) {
  return {};
}

}  // namespace rnnc
