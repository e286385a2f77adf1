#include "examples/train_charlm/model.h"

#include <algorithm>

#include "runtime/arrays/infer_dims.h"
#include "runtime/base/describe.h"
#include "runtime/program/read_unit.h"

namespace train_charlm {
namespace {

using rnnc::ArrayInfo;
using rnnc::fail;
using rnnc::Result;
using rnnc::Status;

const ArrayInfo* find(const std::vector<ArrayInfo>& arrays, const std::string& name) {
  const auto found = std::ranges::find(arrays, name, &ArrayInfo::name);
  return found == arrays.end() ? nullptr : &*found;
}

Status check_signature(const rnnc::Signature& signature, int64_t vocabulary) {
  const std::string name = rnnc::quote(signature.name);
  for (const char* input : {"x", "target"}) {
    const ArrayInfo* info = find(signature.inputs, input);
    if (info == nullptr || info->shape != std::vector<int64_t>{vocabulary}) {
      return fail("{} needs an input `{}` of [{}], a one-hot character", name, input, vocabulary);
    }
  }
  if (signature.inputs.size() != 2) return fail("{} has inputs besides `x` and `target`", name);
  const ArrayInfo* loss = find(signature.outputs, "loss");
  if (loss == nullptr || !loss->shape.empty()) {
    return fail("{} needs an output `loss`, a scalar", name);
  }
  if (!signature.streams) {
    return fail("{} cannot read a text piece by piece: {} runs in reverse", name,
                signature.in_reverse);
  }
  return {};
}

}  // namespace

Result<rnnc::Program> compile_loss(const std::filesystem::path& file, std::string name,
                                   int64_t vocabulary, rnnc::CompileOptions options) {
  Result<rnnc::Unit> unit = rnnc::read_unit(file);
  if (!unit) return tl::unexpected(unit.error());
  if (name.empty() && !unit->definitions().empty()) name = unit->definitions().back();
  const std::optional<rnnc::Graph> graph = unit->lower(name, options.dims);
  if (!graph) return fail("the model does not compile\n{}", unit->render());
  // The size of the vocabulary is a dim, by whatever name.
  rnnc::RunArgs shapes;
  for (const auto& input : graph->inputs) {
    shapes.inputs.push_back({input.name, {.shape = {1, 1, vocabulary}, .data = {}}});
  }
  const Result<rnnc::DimBindings> dims = rnnc::infer_dims(*graph, options.dims, shapes);
  if (!dims) return tl::unexpected(dims.error());
  options.dims = *dims;
  Result<rnnc::Program> program = rnnc::Program::compile(*graph, options);
  if (!program) return program;
  const Status status = check_signature(program->signature(), vocabulary);
  if (!status) return tl::unexpected(status.error());
  return program;
}

}  // namespace train_charlm
