/* A program in C99 that uses every part of the API: the words of the header are right for C. */
#include "tests/capi/client.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/capi/rnnc.h"

static const char kText[] =
    "cell Scale[H](x: [H]) -> h {\n"
    "  state h: [H]\n"
    "  param w: [H]\n"
    "  h[t] = w * x[t] + 0.5 * h[t-1]\n"
    "}\n";

enum { kSteps = 3, kBatch = 2, kSize = 2, kRows = kSteps * kBatch * kSize };

static rnnc_program* compile(void) {
  rnnc_unit* unit = NULL;
  rnnc_graph* graph = NULL;
  rnnc_program* program = NULL;
  const rnnc_dim dim = {"H", kSize};
  rnnc_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.dtype = RNNC_F64;
  options.threads = 1;
  if (rnnc_unit_parse("scale.rnn", kText, &unit) == RNNC_OK &&
      rnnc_unit_lower(unit, NULL, NULL, 0, &graph) == RNNC_OK) {
    rnnc_program_compile(graph, &dim, 1, &options, &program);
  }
  rnnc_graph_free(graph);
  rnnc_unit_free(unit);
  return program;
}

int run_client(double* outputs, double* weight_gradients) {
  double x[kRows], dy[kRows];
  const double w[kSize] = {2, -1};
  const void* inputs[] = {x};
  const void* params[] = {w};
  void* results[] = {outputs};
  const void* read_outputs[] = {outputs};
  const void* output_gradients[] = {dy};
  void* param_gradients[] = {weight_gradients};
  rnnc_program* program = compile();
  rnnc_shape shape;
  rnnc_sizes sizes;
  rnnc_forward_args forward;
  rnnc_backward_args backward;
  char* workspace = NULL;
  char* reserve = NULL;
  rnnc_status status = RNNC_INTERNAL;
  int i;
  for (i = 0; i < kRows; ++i) {
    x[i] = i + 1;
    dy[i] = 1;
  }
  memset(&shape, 0, sizeof shape);
  memset(&sizes, 0, sizeof sizes);
  memset(&forward, 0, sizeof forward);
  memset(&backward, 0, sizeof backward);
  shape.struct_size = sizeof shape;
  sizes.struct_size = sizeof sizes;
  shape.batch = kBatch;
  shape.steps = kSteps;
  shape.training = 1;
  shape.outputs = 1;
  status = rnnc_program_prepare(program, &shape);
  if (status == RNNC_OK) status = rnnc_program_sizes(program, &shape, &sizes);
  if (status == RNNC_OK) {
    const size_t most = sizes.forward_workspace > sizes.backward_workspace
                            ? sizes.forward_workspace
                            : sizes.backward_workspace;
    workspace = malloc(most + 1);
    reserve = malloc(sizes.reserve);
    forward.struct_size = sizeof forward;
    forward.steps = kSteps;
    forward.batch = kBatch;
    forward.inputs = inputs;
    forward.params = params;
    forward.outputs = results;
    forward.workspace = workspace;
    forward.workspace_bytes = most;
    forward.reserve = reserve;
    forward.reserve_bytes = sizes.reserve;
    status = rnnc_forward(program, &forward);
    backward.struct_size = sizeof backward;
    backward.steps = kSteps;
    backward.batch = kBatch;
    backward.inputs = inputs;
    backward.params = params;
    backward.outputs = read_outputs;
    backward.output_gradients = output_gradients;
    backward.param_gradients = param_gradients;
    backward.workspace = workspace;
    backward.workspace_bytes = most;
    backward.reserve = reserve;
    backward.reserve_bytes = sizes.reserve;
    if (status == RNNC_OK) status = rnnc_backward(program, &backward);
  }
  free(workspace);
  free(reserve);
  rnnc_program_free(program);
  return (int)status;
}
