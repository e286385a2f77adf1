/// AdamW: Adam with decoupled weight decay (Loshchilov & Hutter 2019, arXiv:1711.05101).
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/arrays/array.h"

namespace training {

struct AdamWOptions {
  double learning_rate = 1e-2;
  double weight_decay = 0.01;
  double beta1 = 0.9, beta2 = 0.99;
  double epsilon = 1e-8;
  double clip = 1;  // the greatest Euclidean norm of all gradients together; 0: any
};

/// Arrays are on the host, in f32 or f64, all of them alike; those of a list line up with the params.
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
  template <typename T>
  void update_all(std::vector<rnnc::NamedArray>& params, std::vector<rnnc::NamedArray>& gradients);

  AdamWOptions options_;
};

}  // namespace training
