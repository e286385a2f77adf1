/// Training runs: updates, reports, checkpoints, and going on from one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "examples/training/adamw.h"
#include "examples/training/model.h"
#include "examples/training/trainer.h"

namespace training {

struct RunOptions {
  std::string model;  // a .rnn file
  std::string cell;   // of it; empty: the last one
  std::map<std::string, int64_t> dims;
  std::string device = "cpu", dtype = "f32";
  int threads = 0;      // on the CPU; 0: all
  int64_t steps = 0;    // updates, those before the checkpoint included
  int64_t report = 50;  // steps between lines and checkpoints
  uint64_t seed = 1;    // of the first params
  AdamWOptions adamw;
  std::string checkpoint;  // a file that is kept up to date; empty: none
  bool resume = false;     // from the checkpoint
  bool quiet = false;      // only the last line is printed
};

/// What is learned, from which data.
struct Task {
  LossSignature signature;
  PieceShape pieces;
  /// The piece at a position in the data, which moves on to the next one's. Any position >= 0 has
  /// one; the first is at 0.
  std::function<Piece(int64_t& position)> read;
  uint32_t data_hash = 0;
  std::string data_text;  // "25528 characters to train on": behind the model's size
  // What lines say of losses, which are in nats, and of speed.
  std::string unit = "nats";
  double units_per_nat = 1;
  std::string item = "tokens";
  int64_t items = 0;  // in a piece
  /// What the last line says of the data that are held out.
  std::function<rnnc::Result<std::string>(rnnc::Program&, const std::vector<rnnc::NamedArray>&)>
      held_out;
};

/// FNV-1a, for `data_hash`.
uint32_t hash(std::string_view bytes);

/// Prints what it does on standard output. The same options and data give the same bits, however
/// often the run was stopped and resumed.
rnnc::Status train(const RunOptions& options, const Task& task);

}  // namespace training
