#include "examples/training/model.h"

#include <algorithm>

#include "runtime/arrays/infer_dims.h"
#include "runtime/base/describe.h"
#include "runtime/program/read_unit.h"

namespace training {
namespace {

using rnnc::ArrayInfo;
using rnnc::fail;
using rnnc::quote;
using rnnc::Result;
using rnnc::Status;

tl::unexpected<rnnc::Error> lacks(const std::string& program, const char* kind,
                                  const NeededVector& vector) {
  return fail("{} needs an {} {} of [{}], {}{}", quote(program), kind, quote(vector.name),
              vector.size, vector.what, vector.or_number ? ", or `int []`, its number" : "");
}

Status check_vectors(const std::string& program, const char* kind,
                     const std::vector<ArrayInfo>& arrays,
                     const std::vector<NeededVector>& needed) {
  for (const NeededVector& vector : needed) {
    const auto found = std::ranges::find(arrays, vector.name, &ArrayInfo::name);
    const bool is_found = found != arrays.end();
    if (is_found && vector.or_number && found->dtype == rnnc::DType::i32) {
      if (found->table_rows == 0 || found->table_rows >= vector.size) continue;
      return fail("{} takes {} below {}, but {} are needed", quote(program), quote(vector.name),
                  found->table_rows, vector.size);
    }
    if (!is_found || found->shape != std::vector<int64_t>{vector.size}) {
      return lacks(program, kind, vector);
    }
  }
  return {};
}

/// The inputs' shapes of one step and sequence, if the graph has just the needed ones.
Result<rnnc::RunArgs> shapes_of(const rnnc::Graph& graph, const std::vector<NeededVector>& needed) {
  rnnc::RunArgs shapes;
  for (const NeededVector& vector : needed) {
    const auto found = std::ranges::find(graph.inputs, vector.name, &rnnc::InputDecl::name);
    if (found == graph.inputs.end()) return lacks(graph.name, "input", vector);
    std::vector<int64_t> shape = {1, 1};
    if (!(found->integer && vector.or_number)) shape.push_back(vector.size);
    shapes.inputs.push_back({vector.name, {.shape = std::move(shape), .data = {}}});
  }
  for (const rnnc::InputDecl& input : graph.inputs) {
    if (std::ranges::find(needed, input.name, &NeededVector::name) == needed.end()) {
      return fail("{} has an input {} that there is nothing for", quote(graph.name),
                  quote(input.name));
    }
  }
  return shapes;
}

Status check_signature(const rnnc::Signature& signature, const LossSignature& needed) {
  Status status = check_vectors(signature.name, "input", signature.inputs, needed.inputs);
  if (!status) return status;
  const auto loss = std::ranges::find(signature.outputs, "loss", &ArrayInfo::name);
  if (loss == signature.outputs.end() || !loss->shape.empty()) {
    return fail("{} needs an output `loss`, a scalar", quote(signature.name));
  }
  status = check_vectors(signature.name, "output", signature.outputs, needed.outputs);
  if (!status) return status;
  if (needed.in_pieces && !signature.streams) {
    return fail("{}", rnnc::why_not_in_pieces(signature));
  }
  return {};
}

}  // namespace

Result<rnnc::Program> compile_loss(const std::filesystem::path& file, std::string name,
                                   const LossSignature& needed, rnnc::CompileOptions options) {
  Result<rnnc::Unit> unit = rnnc::read_unit(file);
  if (!unit) return tl::unexpected(unit.error());
  if (name.empty() && !unit->definitions().empty()) name = unit->definitions().back();
  const std::optional<rnnc::Graph> graph = unit->lower(name, options.dims);
  if (!graph) return fail("the model does not compile\n{}", unit->render());
  const Result<rnnc::RunArgs> shapes = shapes_of(*graph, needed.inputs);
  if (!shapes) return tl::unexpected(shapes.error());
  for (const auto& [dim, value] : needed.dims) {
    if (std::ranges::find(graph->dims, dim, &rnnc::DimDecl::name) == graph->dims.end()) continue;
    const int64_t given = options.dims.insert({dim, value}).first->second;
    if (given != value) {
      return fail("{} is {}, but the data have {}: leave it out", quote(dim), given, value);
    }
  }
  const Result<rnnc::DimBindings> dims = rnnc::infer_dims(*graph, options.dims, *shapes);
  if (!dims) return tl::unexpected(dims.error());
  options.dims = *dims;
  Result<rnnc::Program> program = rnnc::Program::compile(*graph, options);
  if (!program) return program;
  const Status status = check_signature(program->signature(), needed);
  if (!status) return tl::unexpected(status.error());
  return program;
}

}  // namespace training
