#include "ir/plan/scan_structure.h"

#include <algorithm>
#include <limits>

namespace rnnc {
namespace {

using Kind = Instruction::Kind;

bool is_scaled(const Kernel& kernel, const ScanRound& round) {
  const size_t m = round.states.size();
  for (size_t i = 0; i < round.coefficients.size(); ++i) {
    const uint32_t id = round.coefficients[i];
    const Instruction& value = kernel.body[id];
    const bool zero = value.kind == Kind::Constant && value.value == zero_of(round.semiring);
    if (i % (m + 1) == 0 ? id != round.coefficients[0] : !zero) return false;
  }
  return true;
}

bool is_negative(const Kernel& kernel, uint32_t id, uint32_t of) {
  const Instruction& value = kernel.body[id];
  if (value.kind == Kind::Constant) {
    const Instruction& other = kernel.body[of];
    return other.kind == Kind::Constant && value.value == -other.value;
  }
  return value.kind == Kind::Scalar && value.op == Op::Neg && value.operands[0] == of;
}

bool is_rotation(const Kernel& kernel, const ScanRound& round) {
  if (round.semiring != Semiring::SumProduct || round.states.size() != 2) return false;
  const std::vector<uint32_t>& a = round.coefficients;
  return a[0] == a[3] && (is_negative(kernel, a[1], a[2]) || is_negative(kernel, a[2], a[1]));
}

}  // namespace

ScanStructure structure_of(const Kernel& kernel, const ScanRound& round) {
  if (is_scaled(kernel, round)) return ScanStructure::Scaled;
  return is_rotation(kernel, round) ? ScanStructure::Rotation : ScanStructure::Full;
}

std::vector<uint32_t> own_coefficients(const Kernel& kernel, const ScanRound& round) {
  switch (structure_of(kernel, round)) {
    case ScanStructure::Scaled:
      return {round.coefficients[0]};
    case ScanStructure::Rotation:
      return {round.coefficients[0], round.coefficients[2]};
    case ScanStructure::Full:
      break;
  }
  return round.coefficients;
}

double zero_of(Semiring semiring) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (semiring == Semiring::SumProduct) return 0;
  return semiring == Semiring::MaxPlus ? -kInfinity : kInfinity;
}

}  // namespace rnnc
