// Copies of what does not change.
#include "ir/plan/launches/access_text.h"
#include "ir/plan/launches/define_launch_kind.h"

namespace rnnc {

template <>
inline constexpr std::string_view kOpening<CopyLaunch> = "copy";

namespace {

/// Of each access, in each of `rows_of` rows.
int64_t count_of(const CopyLaunch& launch) {
  return launch.by_rows() ? launch.columns : launch.rows * launch.columns;
}

int64_t rows_of(const CopyLaunch& launch) {
  return launch.by_rows() ? launch.rows : 1;
}

}  // namespace

std::string text_of(const Plan& plan, const CopyLaunch& launch) {
  const int64_t count = count_of(launch);
  std::string text = fmt::format("{} = {}", access_text(plan, launch.target, count),
                                 access_text(plan, launch.source, count));
  if (launch.by_rows()) return text + rows_text(launch.rows);
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
  launch.source = source.access;
  launch.transposed = in.take("^ T");
  launch.columns = target.count;
  if (launch.by_rows() && !launch.transposed) {
    parse_rows(in, launch.rows);
  } else {
    if (launch.transposed) in.expect(",");
    if (launch.transposed || in.take(",")) {
      launch.rows = in.count();
      in.expect("x");
      launch.columns = in.count();
    }
    in.product({launch.rows, launch.columns}, "elements");
  }
  launch.target = access_of(in, target, count_of(launch));
  launch.source = access_of(in, source, count_of(launch));
}

void add_touches(const Plan&, const CopyLaunch& launch, std::vector<Touch>& result) {
  result.push_back({launch.source, count_of(launch), false});
  result.push_back({launch.target, count_of(launch), true});
}

Status verify(LaunchVerifier& in, const CopyLaunch& launch) {
  if (in.where() != Where::Once && in.where() != Where::Last) {
    return fail("copies are for Once and Last stages");
  }
  if (launch.rows < 1 || launch.columns < 1) return fail("a copy of nothing");
  const bool strided = launch.source.stride != 0;
  if (strided != (launch.target.stride != 0) || (strided && launch.transposed)) {
    return fail("a copy of rows that are apart on one side");
  }
  const int64_t count = count_of(launch);
  return in.check_move({launch.source, count, {}, false}, {launch.target, count, {}, true},
                       rows_of(launch));
}

LaunchWork work_of(const Plan&, const CopyLaunch&, int64_t) {
  return {};
}

LaunchWords describe(const LaunchNames& in, const CopyLaunch& launch) {
  LaunchWords words;
  words.kind = words.summary = "copy";
  words.copies = words.arranges = true;
  words.strategy = launch.transposed ? "transposing copy" : "copy";
  words.weights = in.weights_in(launch.source, launch.rows * launch.columns);
  words.what = "a copy of " + join_names(words.weights);
  words.writes = {in.array(launch.target.buffer)};
  return words;
}

std::vector<WeightPart> weight_parts(const LaunchNames& in, const CopyLaunch& launch) {
  const int64_t begin = launch.target.column;
  std::string name = join_names(in.weights_in(launch.source, launch.rows * launch.columns));
  if (launch.transposed) name += "^T";
  const int64_t row = launch.by_rows() ? launch.target.stride : launch.columns;
  return {{.buffer = launch.target.buffer,
           .begin = begin,
           .end = begin + launch.rows * row,
           .names = {std::move(name)}}};
}

template struct LaunchKind<CopyLaunch>;

}  // namespace rnnc
