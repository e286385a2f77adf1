#include "runtime/arrays/signature.h"

#include <fmt/format.h>

#include "runtime/base/describe.h"

namespace rnnc {

int64_t ArrayInfo::elements() const {
  return count_elements(shape).value_or(0);
}

std::string why_not_in_pieces(const Signature& signature) {
  return fmt::format(
      "{} cannot be run in pieces: {} runs in reverse, from a sequence's last step on",
      quote(signature.name), signature.in_reverse);
}

}  // namespace rnnc
