/// Which of a plan's launches cuBLASLt does, and as what: products of matrices, and totals of outer
/// products, which are products over rows.
#pragma once

#include <optional>

#include "ir/plan/plan.h"
#include "runtime/cuda/product.h"

namespace rnnc::cuda {

/// What a product multiplies where, `repeats` times.
struct LibraryProduct {
  Access left;
  Access weight;
  Access out;
  // Elements from one block or repeat to the next, or 0 if there is one.
  int64_t left_apart = 0;
  int64_t weight_apart = 0;
  int64_t out_apart = 0;
  int64_t blocks = 1;
  int64_t repeats = 1;
  int64_t row_parts = 1;
  bool turned = false;     // the weight of a total
  bool earlier = false;    // likewise
  int64_t most_steps = 0;  // of a Sequence stage, at once
  int64_t once_rows = 0;   // those of a Once or Last stage
  ProductShape shape;
};

/// None if no product does the launch. (A product may have a kernel of its own all the same.)
std::optional<LibraryProduct> library_product(const Plan& plan, const Launch& launch);

}  // namespace rnnc::cuda
