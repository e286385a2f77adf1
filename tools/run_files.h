/// The files of `rnnc run`: arrays in, results out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/arrays/array_file.h"
#include "runtime/program/run.h"
#include "tools/command.h"
#include "tools/weight_files.h"

namespace rnnc::tools {

struct RunFiles {
  std::string source;  // the .rnn file
  WeightFiles weights;
  std::vector<NamedFile> inputs, initial_states, outputs, final_states;
  std::vector<NamedFile> output_gradients, final_gradients;  // of a loss
  std::string gradients;  // where its gradients go; empty: none are computed
  std::string lengths, reset, carry_in, carry_out;  // empty: not given
  bool batch_first = false;  // of inputs, outputs, reset and their gradients: [B, T, ...] in files
};

/// What is read before anything is compiled.
struct RunData {
  RunArgs args;  // without params
  LossGradients loss;
  std::optional<ArrayFile> carried;  // whose data are not read yet
};

std::vector<std::filesystem::path> files_read(const RunFiles& files);
std::vector<std::filesystem::path> files_written(const RunFiles& files);

/// Outputs must be writable, different from each other, and not what is read. Only carried states
/// may be written over: they are read long before.
Status check_outputs(const RunFiles& files);

/// Whether the graph has the outputs and states that are to be written.
Status check_result_names(const RunFiles& files, const Graph& graph);

/// `integer_inputs`: whose files hold integers.
Result<RunData> read_run_data(const RunFiles& files,
                              const std::vector<std::string>& integer_inputs);

/// The definition's step Graph, bound to the dims that the files decide, and the params. The
/// weights' data are read only if the shapes fit. Nothing if there is an error, which is then
/// already printed.
std::optional<Graph> load_run_graph(const RunFiles& files, const DimBindings& dims,
                                    Definition& definition, RunData& data);

/// Why the inputs' first two axes are likely not as they are taken, or "". Where lengths, states or
/// a single step leave little doubt, and never where the two axes are alike.
std::string doubt_leading_axes(const RunFiles& files, const RunData& data);

/// The carried states as the initial states of a run, of which the first input says the batch size.
/// An error lists every state that is missing, unknown or of a wrong shape.
Result<std::vector<NamedArray>> take_carried(const RunFiles& files, const Signature& signature,
                                             const ArrayFile& carried,
                                             const std::vector<NamedArray>& inputs);

/// All of them or none. `gradients`: where they are wanted.
Status write_results(const RunFiles& files, const RunResult& result,
                     const RunGradients* gradients = nullptr);

/// With its first two axes exchanged: [B, T, ...] as [T, B, ...], or back.
Array exchange_leading_axes(Array array);

}  // namespace rnnc::tools
