/// What is asked of launches, whatever their kind, but for running them. One file for each kind beside
/// this one answers (launch_kind.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/plan/launches/launch_verifier.h"
#include "ir/plan/launches/launch_words.h"
#include "ir/plan/plan_scanner.h"
#include "ir/plan/plan_touches.h"

namespace rnnc {

/// Of a launch over so many rows.
struct LaunchWork {
  double products = 0;     // operations of products: two for each weight and row
  double elementwise = 0;  // other operations
  int64_t width = 0;       // of the products' results; 0: no product
  bool tf32 = false;       // products round their operands to TF32, whatever the plan's do
  double share = 1;        // of the rate of products
};

/// Without the indent of its first line, which is of 4 spaces.
std::string launch_text(const Plan& plan, const Launch& launch);
/// The launch that comes next, if one does.
std::optional<Launch> parse_launch(PlanScanner& in);
Status verify(LaunchVerifier& in, const Launch& launch);
LaunchWork work_of(const Plan& plan, const Launch& launch, int64_t rows);
LaunchWords describe(const LaunchNames& in, const Launch& launch);
std::vector<WeightPart> weight_parts(const LaunchNames& in, const Launch& launch);
/// Where it stands if it is alone in a Sequence stage.
Where place_of(const Launch& launch);
/// Whether it goes through the steps of a chunk itself, in order, and not over all their rows.
bool goes_through_steps(const Launch& launch);
/// Rows that it runs over in a Once or a Last stage.
int64_t once_rows(const Plan& plan, const Launch& launch);

}  // namespace rnnc
