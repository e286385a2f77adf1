#include "runtime/cpu/core_rates.h"

#include <unistd.h>

namespace rnnc::cpu {
namespace {

#ifdef __x86_64__
bool is_intel() {
  return __builtin_cpu_is("intel") != 0;
}
/// Two operations of whole vectors a cycle: Zen 1 takes two cycles for a vector of 256 bits, Zen 4
/// for one of 512.
bool is_amd_of_whole_vectors() {
  return __builtin_cpu_is("znver2") != 0 || __builtin_cpu_is("znver3") != 0;
}
#else
bool is_intel() {
  return false;
}
bool is_amd_of_whole_vectors() {
  return false;
}
#endif

CoreRates find_rates() {
  const long cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
  const double near = 0.75 * (cache > 0 ? static_cast<double>(cache) : 1024.0 * 1024);
  // Measured on a server of Intel's with AVX-512 and AMX (2 MB of second level cache a core): its
  // last cache is far from every core, and what another core has written comes slowly.
  if (is_intel()) return {4.4, {near, 80}, {near, 80}, 19, 1.8};
  // On an EPYC of AMD's (Zen 4): cores share a last cache in groups.
  return {is_amd_of_whole_vectors() ? 6.0 : 3.0, {near, 80}, {8e6, 30}, 12, 0};
}

}  // namespace

const CoreRates& core_rates() {
  static const CoreRates rates = find_rates();
  return rates;
}

}  // namespace rnnc::cpu
