#include "codegen/cuda/elementwise/reductions.h"

#include "ir/base/status.h"

namespace rnnc {

std::string_view cuda_reduction_type(Op op) {
  switch (op) {
    case Op::Sum:
    case Op::Mean:
      return "rnnc_sum";
    case Op::ReduceMin:
      return "rnnc_least";
    case Op::ReduceMax:
      return "rnnc_greatest";
    default:
      RNNC_CHECK(false, "`{}` is no plain reduction", info(op).name);
  }
}

}  // namespace rnnc
