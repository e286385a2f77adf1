/// AdamW: Adam with decoupled weight decay (Loshchilov & Hutter 2019, arXiv:1711.05101).
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/arrays/array.h"

namespace train_charlm {

struct AdamWOptions {
  double learning_rate = 4e-3;
  double weight_decay = 0.01;
  double beta1 = 0.9, beta2 = 0.99;
  double epsilon = 1e-8;
  double clip = 1;  // the greatest Euclidean norm of all gradients together; 0: any
};

/// Arrays are f32 and on the host; those of a list line up with the params.
class AdamW {
 public:
  AdamW(AdamWOptions options, const std::vector<rnnc::NamedArray>& params);

  /// Moves the params by one step. Scales the gradients where their norm is above `clip`.
  void update(std::vector<rnnc::NamedArray>& params, std::vector<rnnc::NamedArray>& gradients);

  // What a checkpoint keeps.
  int64_t step = 0;                        // updates so far
  std::vector<rnnc::NamedArray> mean;      // first moments, under the params' names
  std::vector<rnnc::NamedArray> variance;  // second moments, not centred

 private:
  AdamWOptions options_;
};

}  // namespace train_charlm
