#include "runtime/arrays/signature.h"

#include "runtime/base/describe.h"

namespace rnnc {

int64_t ArrayInfo::elements() const {
  return count_elements(shape).value_or(0);
}

}  // namespace rnnc
