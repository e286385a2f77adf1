/// What the file of a kind of launch says of it: it overloads the functions below for its kind, and
/// ends with
///
///     template struct LaunchKind<GemmLaunch>;
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/plan/launches/launch_kind.h"

namespace rnnc {

// ---- Of every kind ----
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
//     scan k1(b24, b25, b34, b24, b40) carrying a0 = a3 adding up a4 in tiles of 8 x 16 steps
//       x 1 channels in groups of 1, exchange in b7, partials in b8
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

template <typename L>
std::string text_of(const Plan&, const L&) = delete;
template <typename L>
void parse(PlanScanner&, L&) = delete;
/// Reads first.
template <typename L>
void add_touches(const Plan&, const L&, std::vector<Touch>&) = delete;
template <typename L>
Status verify(LaunchVerifier&, const L&) = delete;
template <typename L>
LaunchWork work_of(const Plan&, const L&, int64_t rows) = delete;
template <typename L>
LaunchWords describe(const LaunchNames&, const L&) = delete;

// ---- Of kinds that differ from most in it ----

/// The words that open its text. None of elementwise launches, which begin with their kernel.
template <typename L>
inline constexpr std::string_view kOpening = "";

/// Where it stands if it is alone in a Sequence stage.
template <typename L>
inline constexpr Where kPlace = Where::Sequence;

/// Rows that it runs over in a Once or a Last stage.
template <typename L>
int64_t once_rows(const Plan&, const L& launch) {
  if constexpr (requires { launch.once_rows; }) return launch.once_rows;
  return 1;
}

/// What it adds up over all steps, and whether that is all of the buffer.
template <typename L>
std::vector<BufferId> sums_of(const L&) {
  return {};
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

// ---- LaunchKind of them ----

template <typename L>
std::string LaunchKind<L>::text(const Plan& plan, const L& launch) {
  const std::string text = text_of(plan, launch);
  return kOpening<L>.empty() ? text : fmt::format("{} {}", kOpening<L>, text);
}

template <typename L>
std::optional<Launch> LaunchKind<L>::take(PlanScanner& in) {
  constexpr bool kElementwise = kOpening<L>.empty();
  if (kElementwise ? !in.sees_id('k') : !in.take(kOpening<L>)) return std::nullopt;
  L launch;
  parse(in, launch);
  return Launch(std::move(launch));
}

template <typename L>
std::vector<Touch> LaunchKind<L>::touches(const Plan& plan, const L& launch) {
  size_t most = 4;
  if constexpr (requires { launch.accesses; }) most += launch.accesses.size();
  if constexpr (requires { launch.products; }) most += 2 * launch.products.size();
  std::vector<Touch> result;
  result.reserve(most);
  add_touches(plan, launch, result);
  return result;
}

template <typename L>
Status LaunchKind<L>::check(LaunchVerifier& in, const L& launch) {
  return verify(in, launch);
}

template <typename L>
LaunchWork LaunchKind<L>::work(const Plan& plan, const L& launch, int64_t rows) {
  return work_of(plan, launch, rows);
}

template <typename L>
LaunchWords LaunchKind<L>::words(const LaunchNames& in, const L& launch) {
  return describe(in, launch);
}

template <typename L>
std::vector<WeightPart> LaunchKind<L>::parts(const LaunchNames& in, const L& launch) {
  return weight_parts(in, launch);
}

template <typename L>
Where LaunchKind<L>::place() {
  return kPlace<L>;
}

template <typename L>
int64_t LaunchKind<L>::rows(const Plan& plan, const L& launch) {
  return once_rows(plan, launch);
}

template <typename L>
std::vector<BufferId> LaunchKind<L>::sums(const L& launch) {
  return sums_of(launch);
}

template <typename L>
bool LaunchKind<L>::makes_sum(const Plan& plan, const L& launch) {
  return fills_sum(plan, launch);
}

}  // namespace rnnc
