// Rows of tables, and what adds up to them.
#include "ir/plan/launches/access_text.h"
#include "ir/plan/launches/define_launch_kind.h"

namespace rnnc {

template <>
inline constexpr std::string_view kOpening<RowsLaunch> = "rows";
template <>
inline constexpr std::string_view kOpening<RowTotalLaunch> = "add rows";

namespace {

/// "b4[0:36] of 12": as many rows.
std::string table_text(const Plan& plan, const Access& table, int64_t count, int64_t width) {
  return fmt::format("{} of {}", access_text(plan, table, count * width), count);
}

void parse_table(PlanScanner& in, Access& table, int64_t& count, int64_t& width) {
  const ParsedAccess parsed = parse_access(in);
  in.expect("of");
  count = in.count();
  if (count < 1 || parsed.count % count != 0) {
    in.complain_at(parsed.position, fmt::format("a table that is not of {} equal rows", count));
    return;
  }
  table = parsed.access;
  width = parsed.count / count;
}

Access parse_index(PlanScanner& in) {
  in.expect("at");
  return parse_access(in, 1);
}

/// Of both kinds: where they stand, and that the table is one.
Status verify_table(const LaunchVerifier& in, int64_t count, int64_t width) {
  if (in.where() != Where::Sequence) return fail("rows of tables are for Sequence stages");
  return count < 1 || width < 1 ? Status(fail("a table of nothing")) : Status();
}

Status verify_invariant(const LaunchVerifier& in, const Access& table) {
  const Buffer& buffer = in.plan().buffers[table.buffer];
  if (buffer.extent == Extent::Invariant) return {};
  return fail("the table {} varies over time", buffer.name);
}

}  // namespace

std::string text_of(const Plan& plan, const RowsLaunch& launch) {
  return fmt::format("{} = {} at {}", access_text(plan, launch.target, launch.width),
                     table_text(plan, launch.table, launch.count, launch.width),
                     access_text(plan, launch.index, 1));
}

void parse(PlanScanner& in, RowsLaunch& launch) {
  const ParsedAccess target = parse_access(in);
  in.expect("=");
  parse_table(in, launch.table, launch.count, launch.width);
  launch.target = access_of(in, target, launch.width);
  launch.index = parse_index(in);
}

void add_touches(const Plan&, const RowsLaunch& launch, std::vector<Touch>& result) {
  result.push_back({launch.table, launch.count * launch.width, false});
  result.push_back({launch.index, 1, false});
  result.push_back({launch.target, launch.width, true});
}

Status verify(LaunchVerifier& in, const RowsLaunch& launch) {
  if (Status table = verify_table(in, launch.count, launch.width); !table) return table;
  if (Status index = in.check_touches({{launch.index, 1, DType::i32, false}}, 1); !index) {
    return index;
  }
  const TypedTouch table{launch.table, launch.count * launch.width, {}, false};
  if (Status status = in.check_move(table, {launch.target, launch.width, {}, true}); !status) {
    return status;
  }
  if (Status status = verify_invariant(in, launch.table); !status) return status;
  const Buffer& to = in.plan().buffers[launch.target.buffer];
  return to.extent != Extent::Invariant ? Status() : fail("the target {} has no steps", to.name);
}

LaunchWork work_of(const Plan&, const RowsLaunch&, int64_t) {
  return {};
}

LaunchWords describe(const LaunchNames& in, const RowsLaunch& launch) {
  LaunchWords words;
  words.kind = words.summary = "rows";
  words.strategy = "copy, each row from where its integer says";
  words.weights = in.weights_in(launch.table, launch.count * launch.width);
  words.what =
      fmt::format("rows of {} named by {}", join_names(words.weights), in.value(launch.index, 1));
  return words;
}

std::string text_of(const Plan& plan, const RowTotalLaunch& launch) {
  return fmt::format("{} += {} at {}", table_text(plan, launch.out, launch.count, launch.width),
                     access_text(plan, launch.value, launch.width),
                     access_text(plan, launch.index, 1));
}

void parse(PlanScanner& in, RowTotalLaunch& launch) {
  parse_table(in, launch.out, launch.count, launch.width);
  in.expect("+=");
  launch.value = parse_access(in, launch.width);
  launch.index = parse_index(in);
}

void add_touches(const Plan&, const RowTotalLaunch& launch, std::vector<Touch>& result) {
  const int64_t elements = launch.count * launch.width;
  result.push_back({launch.index, 1, false});
  result.push_back({launch.value, launch.width, false});
  result.push_back({launch.out, elements, false});
  result.push_back({launch.out, elements, true});
}

Status verify(LaunchVerifier& in, const RowTotalLaunch& launch) {
  if (Status table = verify_table(in, launch.count, launch.width); !table) return table;
  const DType storage = in.plan().dtype;
  const DType compute = compute_type(storage);
  const int64_t elements = launch.count * launch.width;
  const Status status = in.check_touches({{launch.index, 1, DType::i32, false},
                                          {launch.value, launch.width, storage, false},
                                          {launch.out, elements, compute, false},
                                          {launch.out, elements, compute, true}},
                                         1);
  return status ? verify_invariant(in, launch.out) : status;
}

LaunchWork work_of(const Plan&, const RowTotalLaunch& launch, int64_t rows) {
  return {.elementwise = static_cast<double>(rows) * static_cast<double>(launch.width)};
}

LaunchWords describe(const LaunchNames& in, const RowTotalLaunch& launch) {
  LaunchWords words;
  words.kind = words.summary = "add rows";
  words.strategy = "sum in the order of the steps, for each row of the table";
  words.what = fmt::format("{} added to rows named by {}", in.value(launch.value, launch.width),
                           in.value(launch.index, 1));
  return words;
}

std::vector<BufferId> sums_of(const RowTotalLaunch& launch) {
  return {launch.out.buffer};
}

template struct LaunchKind<RowsLaunch>;
template struct LaunchKind<RowTotalLaunch>;

}  // namespace rnnc
