/// What the texts of several kinds of launch have in them: accesses, calls of kernels, counts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/plan/plan_scanner.h"

namespace rnnc {

/// `b3[t-1, 64:128]`: to `count` elements of a row.
std::string access_text(const Plan& plan, const Access& access, int64_t count);

/// An access before it is known how many elements it is to.
struct ParsedAccess {
  Access access;
  int64_t count = 0;
  size_t position = 0;
};

ParsedAccess parse_access(PlanScanner& in);
/// The access, which must be to so many elements.
Access access_of(PlanScanner& in, const ParsedAccess& parsed, int64_t count);
Access parse_access(PlanScanner& in, int64_t count);

/// `k0(b3[t-1, 64:128], b7)`
std::string call_text(const Plan& plan, uint32_t kernel, const std::vector<Access>& accesses);
void parse_call(PlanScanner& in, uint32_t& kernel, std::vector<Access>& accesses);

/// " with a3, a5": after the opening; of none nothing.
std::string arguments_text(std::string_view opening, const std::vector<uint32_t>& arguments);
std::vector<uint32_t> parse_arguments(PlanScanner& in, size_t end);
/// " with a3, a5 a step earlier"; of none nothing.
std::string earlier_text(const std::vector<uint32_t>& earlier);
void parse_earlier(PlanScanner& in, size_t end, std::vector<uint32_t>& earlier);

/// ", 4 rows" of a Once stage; nothing for one.
std::string rows_text(int64_t rows);
void parse_rows(PlanScanner& in, int64_t& rows);
/// ", 2 blocks"; nothing for one.
std::string count_text(int64_t count, std::string_view what);

}  // namespace rnnc
