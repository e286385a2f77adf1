/// What a kind of launch is, but for running it: one file each beside this one, which says how the
/// kind is written and read as text, what it reads and writes, when it is well-formed, what
/// arithmetic it is, and what people are told of it. `launches.cpp` goes from a `Launch` to its kind,
/// for all of these.
///
/// A new kind is a struct in the variant `Launch` (ir/plan/plan.h), a file, and its functions
/// below.
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
};

// ---- Whatever the kind ----

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

// ---- Each kind ----
//
// `describe` leaves out what it reads and writes where touches name that. `text_of` and `parse` are
// of what stands behind the words that open the launch:
//
//     k0(b3, b7[t-1], b8[0:1]), 4 rows
//     gemm b20 += b0 @ b21^T, n 16, k 3, 4 blocks, 2 repeats, in TF32, 4 rows
//     copy b21[0:12] = b1^T, 3 x 4
//     reverse b10 = b9
//     earlier b10 = b9
//     mask b11 = reset reversed
//     rows b12 = b4[0:36] of 12 at b1
//     add rows b13[0:36] of 12 += b9 at b1
//     real b14 = b1
//     split b30 = b0, a left operand, parts of 36, 4 rows
//     total b30[0:48] += b19 x b0, 4 blocks
//     total b31 += b19
//     fused k0(product, product, b20, b19[t-1], b19, b18)
//       a0..1 += b18[t-1] @ b22^T, k 4, 2 blocks
//     loop k1(b24, b25, b34, b24) carrying a0 = a3
//     scan k1(b24, b25, b34, b24) carrying a0 = a3 in tiles of 8 x 16 steps, exchange in b7
//       sum of a0, bounded: %4; %7
//       max of a1, a2: %8 %9 %9 %8; %10 %11
//     resident on 2 sides of 1 x 16 blocks of 8 warps, 8 rows at once, weights in 64 registers,
//       exchange in b7, begins in 2.5e-06 s and steps in 8e-07 s
//      side 0:
//       units of 16: fused …
//      side 1:
//       units of 32: fused …
//
// `@ b21^T` is a weight [n, k], `@ b21` one that is `transposed`.

/// None of elementwise launches, which begin with their kernel.
template <typename L>
inline constexpr std::string_view kOpening = "";

// What only some kinds have to say; of others:

template <typename L>
inline constexpr Where kPlace = Where::Sequence;

template <typename L>
int64_t once_rows(const Plan&, const L& launch) {
  if constexpr (requires { launch.once_rows; }) return launch.once_rows;
  return 1;
}

/// What it adds up over all steps, and whether that is all of the buffer.
template <typename L>
BufferId sum_of(const L&) {
  return kNoBuffer;
}
template <typename L>
bool fills_sum(const Plan&, const L&) {
  return false;
}

/// What a Once stage makes of weights.
template <typename L>
std::vector<WeightPart> weight_parts(const LaunchNames&, const L&) {
  return {};
}

// elementwise.cpp
std::string text_of(const Plan& plan, const ElementwiseLaunch& launch);
void parse(PlanScanner& in, ElementwiseLaunch& launch);
void add_touches(const Plan& plan, const ElementwiseLaunch& launch, std::vector<Touch>& touches);
Status verify(LaunchVerifier& in, const ElementwiseLaunch& launch);
LaunchWork work_of(const Plan& plan, const ElementwiseLaunch& launch, int64_t rows);
LaunchWords describe(const LaunchNames& in, const ElementwiseLaunch& launch);
std::vector<WeightPart> weight_parts(const LaunchNames& in, const ElementwiseLaunch& launch);

// gemm.cpp
template <>
inline constexpr std::string_view kOpening<GemmLaunch> = "gemm";
std::string text_of(const Plan& plan, const GemmLaunch& launch);
void parse(PlanScanner& in, GemmLaunch& launch);
void add_touches(const Plan& plan, const GemmLaunch& launch, std::vector<Touch>& touches);
Status verify(LaunchVerifier& in, const GemmLaunch& launch);
LaunchWork work_of(const Plan& plan, const GemmLaunch& launch, int64_t rows);
LaunchWords describe(const LaunchNames& in, const GemmLaunch& launch);

// fused.cpp
template <>
inline constexpr std::string_view kOpening<FusedLaunch> = "fused";
std::string text_of(const Plan& plan, const FusedLaunch& launch, int indent = 4);
void parse(PlanScanner& in, FusedLaunch& launch);
void add_touches(const Plan& plan, const FusedLaunch& launch, std::vector<Touch>& touches);
Status verify(LaunchVerifier& in, const FusedLaunch& launch);
LaunchWork work_of(const Plan& plan, const FusedLaunch& launch, int64_t rows);
LaunchWords describe(const LaunchNames& in, const FusedLaunch& launch);

// loop.cpp
template <>
inline constexpr std::string_view kOpening<LoopLaunch> = "loop";
template <>
inline constexpr Where kPlace<LoopLaunch> = Where::Loop;
std::string text_of(const Plan& plan, const LoopLaunch& launch);
void parse(PlanScanner& in, LoopLaunch& launch);
void add_touches(const Plan& plan, const LoopLaunch& launch, std::vector<Touch>& touches);
Status verify(LaunchVerifier& in, const LoopLaunch& launch);
LaunchWork work_of(const Plan& plan, const LoopLaunch& launch, int64_t rows);
LaunchWords describe(const LaunchNames& in, const LoopLaunch& launch);

// scan.cpp
template <>
inline constexpr std::string_view kOpening<ScanLaunch> = "scan";
template <>
inline constexpr Where kPlace<ScanLaunch> = Where::Loop;
std::string text_of(const Plan& plan, const ScanLaunch& launch);
void parse(PlanScanner& in, ScanLaunch& launch);
void add_touches(const Plan& plan, const ScanLaunch& launch, std::vector<Touch>& touches);
Status verify(LaunchVerifier& in, const ScanLaunch& launch);
LaunchWork work_of(const Plan& plan, const ScanLaunch& launch, int64_t rows);
LaunchWords describe(const LaunchNames& in, const ScanLaunch& launch);

// recurrence.cpp
template <>
inline constexpr std::string_view kOpening<RecurrenceLaunch> = "resident on";
template <>
inline constexpr Where kPlace<RecurrenceLaunch> = Where::Recurrence;
std::string text_of(const Plan& plan, const RecurrenceLaunch& launch);
void parse(PlanScanner& in, RecurrenceLaunch& launch);
void add_touches(const Plan& plan, const RecurrenceLaunch& launch, std::vector<Touch>& touches);
Status verify(LaunchVerifier& in, const RecurrenceLaunch& launch);
LaunchWork work_of(const Plan& plan, const RecurrenceLaunch& launch, int64_t rows);
LaunchWords describe(const LaunchNames& in, const RecurrenceLaunch& launch);

// copy.cpp
template <>
inline constexpr std::string_view kOpening<CopyLaunch> = "copy";
std::string text_of(const Plan& plan, const CopyLaunch& launch);
void parse(PlanScanner& in, CopyLaunch& launch);
void add_touches(const Plan& plan, const CopyLaunch& launch, std::vector<Touch>& touches);
Status verify(LaunchVerifier& in, const CopyLaunch& launch);
LaunchWork work_of(const Plan& plan, const CopyLaunch& launch, int64_t rows);
LaunchWords describe(const LaunchNames& in, const CopyLaunch& launch);
std::vector<WeightPart> weight_parts(const LaunchNames& in, const CopyLaunch& launch);

// reverse.cpp
template <>
inline constexpr std::string_view kOpening<ReverseLaunch> = "reverse";
std::string text_of(const Plan& plan, const ReverseLaunch& launch);
void parse(PlanScanner& in, ReverseLaunch& launch);
void add_touches(const Plan& plan, const ReverseLaunch& launch, std::vector<Touch>& touches);
Status verify(LaunchVerifier& in, const ReverseLaunch& launch);
LaunchWork work_of(const Plan& plan, const ReverseLaunch& launch, int64_t rows);
LaunchWords describe(const LaunchNames& in, const ReverseLaunch& launch);

// earlier.cpp
template <>
inline constexpr std::string_view kOpening<EarlierLaunch> = "earlier";
std::string text_of(const Plan& plan, const EarlierLaunch& launch);
void parse(PlanScanner& in, EarlierLaunch& launch);
void add_touches(const Plan& plan, const EarlierLaunch& launch, std::vector<Touch>& touches);
Status verify(LaunchVerifier& in, const EarlierLaunch& launch);
LaunchWork work_of(const Plan& plan, const EarlierLaunch& launch, int64_t rows);
LaunchWords describe(const LaunchNames& in, const EarlierLaunch& launch);

// mask.cpp
template <>
inline constexpr std::string_view kOpening<MaskLaunch> = "mask";
std::string text_of(const Plan& plan, const MaskLaunch& launch);
void parse(PlanScanner& in, MaskLaunch& launch);
void add_touches(const Plan& plan, const MaskLaunch& launch, std::vector<Touch>& touches);
Status verify(LaunchVerifier& in, const MaskLaunch& launch);
LaunchWork work_of(const Plan& plan, const MaskLaunch& launch, int64_t rows);
LaunchWords describe(const LaunchNames& in, const MaskLaunch& launch);

// rows.cpp
template <>
inline constexpr std::string_view kOpening<RowsLaunch> = "rows";
std::string text_of(const Plan& plan, const RowsLaunch& launch);
void parse(PlanScanner& in, RowsLaunch& launch);
void add_touches(const Plan& plan, const RowsLaunch& launch, std::vector<Touch>& touches);
Status verify(LaunchVerifier& in, const RowsLaunch& launch);
LaunchWork work_of(const Plan& plan, const RowsLaunch& launch, int64_t rows);
LaunchWords describe(const LaunchNames& in, const RowsLaunch& launch);

template <>
inline constexpr std::string_view kOpening<RowTotalLaunch> = "add rows";
std::string text_of(const Plan& plan, const RowTotalLaunch& launch);
void parse(PlanScanner& in, RowTotalLaunch& launch);
void add_touches(const Plan& plan, const RowTotalLaunch& launch, std::vector<Touch>& touches);
Status verify(LaunchVerifier& in, const RowTotalLaunch& launch);
LaunchWork work_of(const Plan& plan, const RowTotalLaunch& launch, int64_t rows);
LaunchWords describe(const LaunchNames& in, const RowTotalLaunch& launch);
BufferId sum_of(const RowTotalLaunch& launch);

// real.cpp
template <>
inline constexpr std::string_view kOpening<RealLaunch> = "real";
std::string text_of(const Plan& plan, const RealLaunch& launch);
void parse(PlanScanner& in, RealLaunch& launch);
void add_touches(const Plan& plan, const RealLaunch& launch, std::vector<Touch>& touches);
Status verify(LaunchVerifier& in, const RealLaunch& launch);
LaunchWork work_of(const Plan& plan, const RealLaunch& launch, int64_t rows);
LaunchWords describe(const LaunchNames& in, const RealLaunch& launch);

// split.cpp
template <>
inline constexpr std::string_view kOpening<SplitLaunch> = "split";
std::string text_of(const Plan& plan, const SplitLaunch& launch);
void parse(PlanScanner& in, SplitLaunch& launch);
void add_touches(const Plan& plan, const SplitLaunch& launch, std::vector<Touch>& touches);
Status verify(LaunchVerifier& in, const SplitLaunch& launch);
LaunchWork work_of(const Plan& plan, const SplitLaunch& launch, int64_t rows);
LaunchWords describe(const LaunchNames& in, const SplitLaunch& launch);
std::vector<WeightPart> weight_parts(const LaunchNames& in, const SplitLaunch& launch);

// total.cpp
template <>
inline constexpr std::string_view kOpening<TotalLaunch> = "total";
std::string text_of(const Plan& plan, const TotalLaunch& launch);
void parse(PlanScanner& in, TotalLaunch& launch);
void add_touches(const Plan& plan, const TotalLaunch& launch, std::vector<Touch>& touches);
Status verify(LaunchVerifier& in, const TotalLaunch& launch);
LaunchWork work_of(const Plan& plan, const TotalLaunch& launch, int64_t rows);
LaunchWords describe(const LaunchNames& in, const TotalLaunch& launch);
int64_t once_rows(const Plan& plan, const TotalLaunch& launch);
BufferId sum_of(const TotalLaunch& launch);
bool fills_sum(const Plan& plan, const TotalLaunch& launch);

}  // namespace rnnc
