// Of each kind of launch first how it is written, then how that is read. Readers take everything
// after the word that opens the launch.
#include "ir/plan/launch_text.h"

#include <algorithm>

#include "ir/plan/recurrence_sides.h"
#include "ir/plan/tile_text.h"

namespace rnnc {
namespace {

// ---- Accesses ----

/// Of rows in memory; in Invariant buffers there is one.
int64_t usual_stride(const Buffer& buffer) {
  return buffer.extent == Extent::Invariant ? 0 : buffer.width;
}

/// Without the pad.
int64_t row_length(const Buffer& buffer) {
  return buffer.width - buffer.pad;
}

/// To `count` elements of a row.
std::string access_text(const Plan& plan, const Access& access, int64_t count) {
  const Buffer& buffer = plan.buffers[access.buffer];
  std::string part;
  if (access.delay > 0) part = fmt::format("t-{}", access.delay);
  if (access.column != 0 || count != row_length(buffer)) {
    part += fmt::format("{}{}:{}", part.empty() ? "" : ", ", access.column, access.column + count);
  }
  if (access.stride != usual_stride(buffer)) {
    part += fmt::format("{}stride {}", part.empty() ? "" : ", ", access.stride);
  }
  return part.empty() ? fmt::format("b{}", access.buffer)
                      : fmt::format("b{}[{}]", access.buffer, part);
}

struct ParsedAccess {
  Access access;
  int64_t count = 0;
  size_t position = 0;
};

// access := bN ['[' part (',' part)* ']']      part := 't-' N | N ':' N | 'stride' N
ParsedAccess parse_access(PlanScanner& in) {
  ParsedAccess result{.access = {}, .count = 0, .position = in.position()};
  result.access.buffer = in.buffer();
  if (in.failed()) return result;
  const Buffer& buffer = in.plan().buffers[result.access.buffer];
  result.access.stride = usual_stride(buffer);
  result.count = row_length(buffer);
  if (!in.take("[")) return result;
  do {
    if (in.take("t")) {
      in.expect("-");
      result.access.delay = in.number<uint32_t>();
    } else if (in.take("stride")) {
      result.access.stride = in.count();
    } else {
      result.access.column = in.count();
      in.expect(":");
      result.count = in.count() - result.access.column;
    }
  } while (in.take(","));
  in.expect("]");
  return result;
}

/// The access, which must be to so many elements.
Access access_of(PlanScanner& in, const ParsedAccess& parsed, int64_t count) {
  if (parsed.count != count) {
    in.complain_at(parsed.position, fmt::format("{} elements of b{} instead of {}", parsed.count,
                                                parsed.access.buffer, count));
  }
  return parsed.access;
}

Access parse_access(PlanScanner& in, int64_t count) {
  const ParsedAccess parsed = parse_access(in);
  return access_of(in, parsed, count);
}

// ---- What several have ----

std::string rows_text(int64_t rows) {
  return rows == 1 ? "" : fmt::format(", {} rows", rows);
}

void parse_rows(PlanScanner& in, int64_t& rows) {
  if (!in.take(",")) return;
  rows = in.count();
  in.expect("rows");
}

std::string count_text(int64_t count, std::string_view what) {
  return count == 1 ? "" : fmt::format(", {} {}", count, what);
}

int64_t elements_of(const Kernel& kernel, size_t argument) {
  return kernel.arguments[argument].vector ? kernel.length : 1;
}

/// `k0(b3[t-1, 64:128], b7)`
std::string call_text(const Plan& plan, uint32_t id, const std::vector<Access>& accesses) {
  const Kernel& kernel = plan.kernels[id];
  std::string arguments;
  for (size_t i = 0; i < accesses.size(); ++i) {
    if (i > 0) arguments += ", ";
    arguments += kernel.arguments[i].product
                     ? "product"
                     : access_text(plan, accesses[i], elements_of(kernel, i));
  }
  return fmt::format("k{}({})", id, arguments);
}

/// A launch without `accesses` has not been read.
void parse_call(PlanScanner& in, uint32_t& id, std::vector<Access>& accesses) {
  id = in.id('k', in.plan().kernels.size());
  in.expect("(");
  if (in.failed()) return;
  const Kernel& kernel = in.plan().kernels[id];
  for (size_t i = 0; i < kernel.arguments.size(); ++i) {
    if (i > 0) in.expect(",");
    Access access;
    if (kernel.arguments[i].product) {
      in.expect("product");
    } else {
      access = parse_access(in, elements_of(kernel, i));
    }
    accesses.push_back(access);
    if (in.failed()) return accesses.clear();
  }
  in.expect(")");
}

// ---- Elementwise ----

std::string text_of(const Plan& plan, const ElementwiseLaunch& launch) {
  return call_text(plan, launch.kernel, launch.accesses) + rows_text(launch.once_rows);
}

// ---- Products ----

std::string text_of(const Plan& plan, const GemmLaunch& launch) {
  const int64_t columns = launch.n * launch.blocks * launch.repeats;
  return fmt::format("gemm {} {} {} @ {}{}, n {}, k {}{}{}{}{}",
                     access_text(plan, launch.out, columns), launch.accumulate ? "+=" : "=",
                     access_text(plan, launch.left, launch.k * launch.blocks),
                     access_text(plan, launch.weight, weight_rows(launch).span()),
                     launch.transposed ? "" : "^T", launch.n, launch.k,
                     count_text(launch.blocks, "blocks"), count_text(launch.repeats, "repeats"),
                     launch.tf32 ? ", in TF32" : "", rows_text(launch.once_rows));
}

Launch parse_gemm(PlanScanner& in) {
  GemmLaunch launch;
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
  return launch;
}

// ---- Products with elementwise work ----

/// The products on lines of their own, further in by 2 spaces than the launch.
std::string text_of(const Plan& plan, const FusedLaunch& launch, int indent = 4) {
  std::string text = "fused " + call_text(plan, launch.kernel, launch.accesses);
  const int64_t length = plan.kernels[launch.kernel].length;
  for (const FusedLaunch::Product& product : launch.products) {
    const uint32_t last = product.first_argument + product.members - 1;
    text += fmt::format("\n{:{}}a{}{} += {} @ {}^T, k {}{}", "", indent + 2, product.first_argument,
                        product.members == 1 ? "" : fmt::format("..{}", last),
                        access_text(plan, product.left, product.k * product.blocks),
                        access_text(plan, product.weight, product.members * length * product.k),
                        product.k, count_text(product.blocks, "blocks"));
  }
  return text;
}

// product := aN ['..' N] '+=' access '@' access '^T, k' N [',' N 'blocks']
FusedLaunch::Product parse_product(PlanScanner& in, const FusedLaunch& launch, uint32_t first) {
  FusedLaunch::Product product;
  product.first_argument = first;
  if (in.take("..")) {
    const size_t position = in.position();
    const auto last = in.number<uint32_t>();
    if (last < first || last >= launch.accesses.size()) {
      in.complain_at(position, fmt::format("there is no argument a{} after a{}", last, first));
    }
    product.members = last - first + 1;
  }
  in.expect("+=");
  const ParsedAccess left = parse_access(in);
  in.expect("@");
  const ParsedAccess weight = parse_access(in);
  in.expect("^ T , k");
  product.k = in.count();
  if (in.take(",")) {
    product.blocks = in.count();
    in.expect("blocks");
  }
  const int64_t length = in.plan().kernels[launch.kernel].length;
  product.left = access_of(in, left, in.product({product.k, product.blocks}, "columns"));
  product.weight =
      access_of(in, weight, in.product({product.members, length, product.k}, "elements"));
  return product;
}

FusedLaunch parse_fused(PlanScanner& in) {
  FusedLaunch launch;
  parse_call(in, launch.kernel, launch.accesses);
  uint32_t first = 0;
  while (in.take_id('a', launch.accesses.size(), first)) {
    launch.products.push_back(parse_product(in, launch, first));
  }
  return launch;
}

// ---- Loops ----

std::string text_of(const Plan& plan, const LoopLaunch& launch) {
  std::string carries;
  for (const LoopLaunch::Carry& carry : launch.carries) {
    carries += fmt::format("{}a{} = a{}", carries.empty() ? "" : ", ", carry.load, carry.store);
  }
  return fmt::format("loop {} carrying {}", call_text(plan, launch.kernel, launch.accesses),
                     carries);
}

Launch parse_loop(PlanScanner& in) {
  LoopLaunch launch;
  parse_call(in, launch.kernel, launch.accesses);
  in.expect("carrying");
  const size_t arguments = launch.accesses.size();
  uint32_t load = 0;
  if (!in.take_id('a', arguments, load)) return launch;
  while (true) {
    in.expect("=");
    launch.carries.push_back({load, in.id('a', arguments)});
    if (!in.take(",")) return launch;
    load = in.id('a', arguments);
  }
}

// ---- Resident recurrences ----

std::string text_of(const Plan& plan, const RecurrenceLaunch& launch) {
  const RecurrenceTile& tile = launch.tile;
  std::string details;
  if (launch.exchange != kNoBuffer) details += fmt::format(", exchange in b{}", launch.exchange);
  if (launch.stream != kNoBuffer) details += fmt::format(", stream in b{}", launch.stream);
  if (tile.start_seconds != 0 || tile.step_seconds != 0) {
    details +=
        fmt::format(", begins in {} s and steps in {} s", tile.start_seconds, tile.step_seconds);
  }
  std::string text = "resident on " + shape_text(tile) + properties_text(tile);
  if (!details.empty()) text += ",\n     " + details.substr(1);
  const size_t sides = tile.sides.size();
  size_t side = 0;
  for (size_t i = 0; i <= launch.phases.size(); ++i) {
    for (; side < sides && tile.sides[side] <= i; ++side) {
      if (sides > 1) text += fmt::format("\n     side {}:", side);
    }
    if (i == launch.phases.size()) break;
    text += "\n      ";
    if (i < tile.units.size()) text += fmt::format("units of {}: ", tile.units[i]);
    text += text_of(plan, launch.phases[i], 6);
  }
  return text;
}

// details := (',' (PROPERTY | 'exchange in' bN | 'stream in' bN | 'begins in' X 's and steps in' X
//            's'))*                                              PROPERTY as in
//            ir/plan/tile_text.cpp
void parse_details(PlanScanner& in, RecurrenceLaunch& launch) {
  while (in.take(",")) {
    if (in.take("exchange in")) {
      launch.exchange = in.buffer();
    } else if (in.take("stream in")) {
      launch.stream = in.buffer();
    } else if (in.take("begins in")) {
      launch.tile.start_seconds = in.number<double>();
      in.expect("s and steps in");
      launch.tile.step_seconds = in.number<double>();
      in.expect("s");
    } else if (!parse_property(in, launch.tile)) {
      in.expected("something that a resident recurrence has");
    }
  }
}

Launch parse_recurrence(PlanScanner& in) {
  RecurrenceLaunch launch;
  RecurrenceTile& tile = launch.tile;
  const int64_t sides = parse_shape(in, tile);
  parse_details(in, launch);
  if (sides > 1) tile.sides.clear();
  while (!in.failed()) {
    if (sides > 1 && in.take("side")) {
      if (in.count() != std::ssize(tile.sides)) in.complain("sides do not follow one another");
      in.expect(":");
      tile.sides.push_back(launch.phases.size());
      continue;
    }
    const bool has_units = in.take("units of");
    if (has_units) {
      if (tile.units.size() != launch.phases.size()) in.complain("an earlier phase has no units");
      tile.units.push_back(in.count());
      in.expect(":");
      in.expect("fused");
    } else if (!in.take("fused")) {
      break;
    }
    launch.phases.push_back(parse_fused(in));
  }
  if (std::ssize(tile.sides) != sides) {
    in.complain(fmt::format("{} sides instead of {}", tile.sides.size(), sides));
  }
  return launch;
}

// ---- Copies and what the sequence says ----

std::string text_of(const Plan& plan, const CopyLaunch& launch) {
  const int64_t count = launch.rows * launch.columns;
  std::string text = fmt::format("copy {} = {}", access_text(plan, launch.target, count),
                                 access_text(plan, launch.source, count));
  if (launch.transposed) text += "^T";
  if (launch.transposed || launch.rows != 1) {
    text += fmt::format(", {} x {}", launch.rows, launch.columns);
  }
  return text;
}

Launch parse_copy(PlanScanner& in) {
  CopyLaunch launch;
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
  return launch;
}

std::string text_of(const Plan& plan, const ReverseLaunch& launch) {
  return fmt::format("reverse {} = {}", access_text(plan, launch.target, launch.width),
                     access_text(plan, launch.source, launch.width));
}

Launch parse_reverse(PlanScanner& in) {
  const ParsedAccess target = parse_access(in);
  in.expect("=");
  return ReverseLaunch{
      .source = parse_access(in, target.count), .target = target.access, .width = target.count};
}

std::string text_of(const Plan& plan, const MaskLaunch& launch) {
  return fmt::format("mask {} = {}", access_text(plan, launch.target, 1),
                     word_of(kMaskWords, launch.kind));
}

Launch parse_mask(PlanScanner& in) {
  MaskLaunch launch;
  launch.target = parse_access(in, 1);
  in.expect("=");
  launch.kind = in.word_of(kMaskWords, "what the mask is of");
  return launch;
}

// ---- Operands in parts ----

constexpr Word<bool> kSplitWords[] = {{true, "a weight"}, {false, "a left operand"}};

std::string text_of(const Plan& plan, const SplitLaunch& launch) {
  return fmt::format("split {} = {}, {}, parts of {}{}",
                     access_text(plan, launch.target, kSplitParts * launch.part),
                     access_text(plan, launch.source, launch.length),
                     word_of(kSplitWords, launch.weight), launch.part, rows_text(launch.once_rows));
}

Launch parse_split(PlanScanner& in) {
  SplitLaunch launch;
  const ParsedAccess target = parse_access(in);
  in.expect("=");
  const ParsedAccess source = parse_access(in);
  launch.source = source.access;
  launch.length = source.count;
  in.expect(",");
  launch.weight = in.word_of(kSplitWords, "`a weight` or `a left operand`");
  in.expect(", parts of");
  launch.part = in.count();
  parse_rows(in, launch.once_rows);
  launch.target = access_of(in, target, kSplitParts * launch.part);
  return launch;
}

struct Reader {
  std::string_view word;
  Launch (*read)(PlanScanner&);
};
constexpr Reader kReaders[] = {{"gemm", parse_gemm},
                               {"copy", parse_copy},
                               {"reverse", parse_reverse},
                               {"mask", parse_mask},
                               {"split", parse_split},
                               {"loop", parse_loop},
                               {"fused", [](PlanScanner& in) -> Launch { return parse_fused(in); }},
                               {"resident on", parse_recurrence}};

}  // namespace

std::string launch_text(const Plan& plan, const Launch& launch) {
  return std::visit([&](const auto& one) { return text_of(plan, one); }, launch);
}

std::string launch_text(const Plan& plan, const ElementwiseLaunch& launch) {
  return text_of(plan, launch);
}

std::optional<Launch> parse_launch(PlanScanner& in) {
  for (const Reader& reader : kReaders) {
    if (in.take(reader.word)) return reader.read(in);
  }
  if (in.sees_id('k')) return parse_elementwise(in);
  return std::nullopt;
}

ElementwiseLaunch parse_elementwise(PlanScanner& in) {
  ElementwiseLaunch launch;
  parse_call(in, launch.kernel, launch.accesses);
  parse_rows(in, launch.once_rows);
  return launch;
}

}  // namespace rnnc
