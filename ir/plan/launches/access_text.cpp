#include "ir/plan/launches/access_text.h"

namespace rnnc {
namespace {

/// Of rows in memory; in Invariant buffers there is one.
int64_t usual_stride(const Buffer& buffer) {
  return buffer.extent == Extent::Invariant ? 0 : buffer.width;
}

/// Without the pad.
int64_t row_length(const Buffer& buffer) {
  return buffer.width - buffer.pad;
}

int64_t elements_of(const Kernel& kernel, size_t argument) {
  return kernel.elements(kernel.arguments[argument]);
}

}  // namespace

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

std::string arguments_text(std::string_view opening, const std::vector<uint32_t>& arguments) {
  std::string text;
  for (const uint32_t i : arguments) {
    text += fmt::format("{}a{}", text.empty() ? opening : ", ", i);
  }
  return text;
}

std::vector<uint32_t> parse_arguments(PlanScanner& in, size_t end) {
  std::vector<uint32_t> arguments;
  do {
    arguments.push_back(in.id('a', end));
  } while (!in.failed() && in.take(","));
  return arguments;
}

std::string earlier_text(const std::vector<uint32_t>& earlier) {
  return earlier.empty() ? "" : arguments_text(" with ", earlier) + " a step earlier";
}

void parse_earlier(PlanScanner& in, size_t end, std::vector<uint32_t>& earlier) {
  if (!in.take("with")) return;
  earlier = parse_arguments(in, end);
  in.expect("a step earlier");
}

}  // namespace rnnc
