/// Which arrays a program takes and gives.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/base/dtype.h"

namespace rnnc {

/// One array of a program. `shape` is that of one step and one sequence.
struct ArrayInfo {
  std::string name;
  std::vector<int64_t> shape;
  DType dtype = DType::f32;
  /// Of i32: the table with the fewest rows of which it names one, and how many these are; "" and 0
  /// if there is none.
  std::string table = {};
  int64_t table_rows = 0;
  int64_t elements() const;  // product of `shape`; 0 if it is none of an array
};

/// What a program takes and gives, in order of declaration. Arrays are dense and row-major:
/// inputs and outputs [T, B, shape...], params [shape...], initial and final states
/// [B, shape...]. States have the compute type (f32 where storage is 16-bit).
///
/// Behind the declared states come the implied ones, which hold earlier values: `h@2` is what
/// `h[t-2]` reads at the next step, `x@1` what `x[t-1]` does. All states together are what a later
/// call needs to go on exactly where this one ended.
struct Signature {
  std::string name;
  std::vector<ArrayInfo> inputs, params, states, outputs;
  /// Whether a sequence may be run in pieces: false if a layer runs in reverse, whose first step is
  /// the sequence's last.
  bool streams = true;
  std::string in_reverse = {};  // what runs in reverse, for errors: "layer `GRU.1`"
};

/// Of one that does not stream, the end of a sentence: "`Net` cannot be run in pieces: …".
std::string why_not_in_pieces(const Signature& signature);

}  // namespace rnnc
