/// AdamW: Adam with decoupled weight decay (Loshchilov & Hutter 2019, arXiv:1711.05101).
#pragma once

#include <cstdint>

#include "examples/training/array_rows.h"
#include "runtime/program/program.h"

namespace training {

struct AdamWOptions {
  double learning_rate = 1e-2;
  double weight_decay = 0.01;
  double beta1 = 0.9, beta2 = 0.99;
  double epsilon = 1e-8;
  double clip = 1;  // the greatest Euclidean norm of all gradients together; 0: any
};

/// An update is a step of a cell like others: its states are the moments, each row of elements is a
/// sequence. It runs on the device of the program that is trained, from where its params lie to
/// where they lie next.
class AdamW {
 public:
  /// Of `params`, in f32 or f64, of a program with these options.
  static rnnc::Result<AdamW> make(const AdamWOptions& options, const rnnc::CompileOptions& program,
                                  const std::vector<rnnc::ArrayInfo>& params);

  /// One step, from `params` to `updated`. `gradients` are `scale` times too large, and count for
  /// less where their norm is above `clip`.
  rnnc::Status update(const ArrayRows& params, const ArrayRows& gradients, double scale,
                      ArrayRows& updated);

  // What a checkpoint keeps: updates so far, first moments and second ones (not centred), under the
  // params' names.
  int64_t& steps() { return steps_; }
  ArrayRows& mean() { return mean_; }
  ArrayRows& variance() { return variance_; }

 private:
  AdamW(const AdamWOptions& options, rnnc::Program step, rnnc::Program squares,
        const std::vector<rnnc::ArrayInfo>& params);
  rnnc::Status prepare();
  rnnc::Result<double> norm_of(const ArrayRows& gradients);
  rnnc::Status load_numbers(double gradient_share);

  AdamWOptions options_;
  int64_t steps_ = 0;
  rnnc::Program step_, squares_;
  ArrayRows mean_, variance_;
  rnnc::DeviceArray numbers_, sums_, workspace_;
  size_t workspace_bytes_ = 0;
};

}  // namespace training
