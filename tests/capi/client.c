/* A program in C99 that uses every part of the API: the words of the header are right for C. It is
 * compiled with today's header and with the first one, and returns 0 if results are right. */
#include <rnnc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char kText[] =
    "cell Scale[H](x: [H]) -> h {\n"
    "  state h: [H]\n"
    "  param w: [H]\n"
    "  h[t] = w * x[t] + 0.5 * h[t-1]\n"
    "}\n";

enum { kSteps = 3, kBatch = 2, kSize = 2, kStates = kBatch * kSize, kRows = kSteps * kStates };

static void expect(int right, const char* what) {
  if (right) return;
  fprintf(stderr, "not so: %s\nlast error: %s\n", what, rnnc_last_error());
  exit(1);
}
#define EXPECT(condition) expect(condition, #condition)
#define CHECK(call) expect((call) == RNNC_OK, #call)

static void expect_text(rnnc_text* text, const char* wanted) {
  EXPECT(rnnc_text_size(text) == strlen(rnnc_text_data(text)));
  expect(strstr(rnnc_text_data(text), wanted) != NULL, wanted);
  rnnc_text_free(text);
}

static rnnc_program* compile(void) {
  rnnc_unit* unit = NULL;
  rnnc_graph* graph = NULL;
  rnnc_program* program = NULL;
  rnnc_text* words = NULL;
  const rnnc_dim dim = {"H", kSize};
  rnnc_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.device = "cpu";
  options.dtype = RNNC_F64;
  options.threads = 1;
  options.passes = "-fuse";
  EXPECT(rnnc_unit_read("no/such/file.rnn", &unit) == RNNC_INVALID_ARGUMENT && unit == NULL);
  CHECK(rnnc_unit_parse("scale.rnn", kText, &unit));
  CHECK(rnnc_unit_definitions(unit, &words));
  expect_text(words, "Scale\n");
  CHECK(rnnc_unit_diagnostics(unit, &words));
  expect_text(words, "");
  CHECK(rnnc_unit_lower(unit, NULL, NULL, 0, &graph));
  CHECK(rnnc_graph_text(graph, &words));
  expect_text(words, "graph Scale(H)");
  CHECK(rnnc_program_compile(graph, &dim, 1, &options, &program));
  rnnc_graph_free(graph);
  rnnc_unit_free(unit);
  return program;
}

static void look_at(rnnc_program* program) {
  size_t count = 0;
  int32_t streams = 0;
  rnnc_text* notes = NULL;
  rnnc_array array;
  memset(&array, 0, sizeof array);
  array.struct_size = sizeof array;
  CHECK(rnnc_program_count(program, RNNC_PARAM, &count));
  EXPECT(count == 1);
  CHECK(rnnc_program_array(program, RNNC_PARAM, 0, &array));
  EXPECT(strcmp(array.name, "w") == 0 && array.dtype == RNNC_F64);
  EXPECT(array.rank == 1 && array.shape[0] == kSize);
  CHECK(rnnc_program_streams(program, &streams));
  EXPECT(streams == 1);
  CHECK(rnnc_program_notes(program, &notes));
  expect_text(notes, "");
}

/* h = w x + h / 2 over T 3, B 2, H 2, from h = 1; the second sequence is 2 steps long. All gradients,
 * where that of each output is 1. */
static void train(rnnc_program* program) {
  double x[kRows], y[kRows], dy[kRows], dw[kSize], dx[kRows], dh0[kStates];
  double h0[kStates] = {1, 1, 1, 1}, last[kStates];
  const double w[kSize] = {2, -1};
  const int32_t lengths[kBatch] = {3, 2};
  const uint8_t one[] = {1};
  const void* inputs[] = {x};
  const void* params[] = {w};
  const void* initial[] = {h0};
  void* final[] = {last};
  void* outputs[] = {y};
  const void* read_outputs[] = {y};
  const void* output_gradients[] = {dy};
  void* param_gradients[] = {dw};
  void* input_gradients[] = {dx};
  void* initial_gradients[] = {dh0};
  double wanted_dw[kSize] = {0, 0};
  void* workspace = NULL;
  void* reserve = NULL;
  size_t most = 0;
  int t, i;
  rnnc_shape shape;
  rnnc_sizes sizes;
  rnnc_forward_args forward;
  rnnc_backward_args backward;
  memset(&shape, 0, sizeof shape);
  memset(&sizes, 0, sizeof sizes);
  memset(&forward, 0, sizeof forward);
  memset(&backward, 0, sizeof backward);
  for (i = 0; i < kRows; ++i) {
    x[i] = i + 1;
    dy[i] = 1;
  }

  shape.struct_size = sizeof shape;
  shape.batch = kBatch;
  shape.steps = kSteps;
  shape.lengths = 1;
  shape.training = 1;
  shape.residuals = RNNC_RESIDUALS_LEAST;
  shape.outputs = 1;
  shape.wanted_params = one;
  shape.wanted_inputs = one;
  shape.wanted_initial_states = one;
  shape.given_states = one;
  sizes.struct_size = sizeof sizes;
  EXPECT(rnnc_program_sizes(program, &shape, &sizes) == RNNC_NOT_PREPARED);
  CHECK(rnnc_program_prepare(program, &shape));
  CHECK(rnnc_program_sizes(program, &shape, &sizes));
  EXPECT(sizes.reserve > 0);
  most = sizes.forward_workspace > sizes.backward_workspace ? sizes.forward_workspace
                                                            : sizes.backward_workspace;
  workspace = malloc(most + 1);
  reserve = malloc(sizes.reserve);

  forward.struct_size = sizeof forward;
  forward.steps = kSteps;
  forward.batch = kBatch;
  forward.inputs = inputs;
  forward.params = params;
  forward.outputs = outputs;
  forward.initial_states = initial;
  forward.final_states = final;
  forward.lengths = lengths;
  forward.workspace = workspace;
  forward.workspace_bytes = most;
  forward.reserve = reserve;
  forward.reserve_bytes = sizes.reserve;
  CHECK(rnnc_forward(program, &forward));

  backward.struct_size = sizeof backward;
  backward.steps = kSteps;
  backward.batch = kBatch;
  backward.inputs = inputs;
  backward.params = params;
  backward.outputs = read_outputs;
  backward.output_gradients = output_gradients;
  backward.param_gradients = param_gradients;
  backward.input_gradients = input_gradients;
  backward.initial_state_gradients = initial_gradients;
  backward.lengths = lengths;
  backward.workspace = workspace;
  backward.workspace_bytes = most;
  backward.reserve = reserve;
  backward.reserve_bytes = sizes.reserve;
  CHECK(rnnc_backward(program, &backward));

  /* All numbers are sums of a few halves: exact. */
  for (i = 0; i < kStates; ++i) {
    const int length = lengths[i / kSize];
    double h = h0[i], dh_by_w = 0, dh_by_h0 = 1, wanted_dh0 = 0, after = 0;
    for (t = 0; t < length; ++t) {
      h = w[i % kSize] * x[t * kStates + i] + 0.5 * h;
      dh_by_w = x[t * kStates + i] + 0.5 * dh_by_w;
      dh_by_h0 *= 0.5;
      wanted_dw[i % kSize] += dh_by_w;
      wanted_dh0 += dh_by_h0;
      EXPECT(y[t * kStates + i] == h);
    }
    EXPECT(last[i] == h);
    EXPECT(dh0[i] == wanted_dh0);
    for (t = length; t < kSteps; ++t) EXPECT(y[t * kStates + i] == 0 && dx[t * kStates + i] == 0);
    for (t = length - 1; t >= 0; --t) {
      after = 1 + 0.5 * after;
      EXPECT(dx[t * kStates + i] == w[i % kSize] * after);
    }
  }
  EXPECT(dw[0] == wanted_dw[0] && dw[1] == wanted_dw[1]);
  free(workspace);
  free(reserve);
}

#ifdef RNNC_LATER
/* What the first header does not have. */
static void use_later(rnnc_program* program) {
  rnnc_unit* unit = NULL;
  rnnc_graph* graph = NULL;
  rnnc_weight_map* map = NULL;
  rnnc_text* words = NULL;
  rnnc_shape shape;
  rnnc_reserve_bound bound;
  memset(&shape, 0, sizeof shape);
  memset(&bound, 0, sizeof bound);
  shape.struct_size = sizeof shape;
  shape.training = 1;
  bound.struct_size = sizeof bound;
  CHECK(rnnc_program_reserve_bound(program, &shape, &bound));
  EXPECT(bound.fixed > 0);
  shape.batch = kBatch;
  shape.steps = kSteps;
  CHECK(rnnc_program_explain(program, &shape, "text", &words));
  expect_text(words, "Scale: training, f64, batch 2, 3 steps");
  CHECK(rnnc_program_emit(program, &shape, "backward plan", &words));
  expect_text(words, "plan Scale: f64, descending, batch 2");
  CHECK(rnnc_program_forget(program, NULL));
  CHECK(rnnc_weight_map_shipped("torch/lstm", &map));
  rnnc_weight_map_free(map);
  CHECK(rnnc_weight_map_parse("scale.map", "w = scale", &map));
  CHECK(rnnc_weight_map_resolve(map, program, &words));
  expect_text(words, "\"tensor\": \"scale\"");
  rnnc_weight_map_free(map);
  EXPECT(strlen(rnnc_build()) > 0);
  CHECK(rnnc_library_folder("."));
  CHECK(rnnc_shipped(&words));
  expect_text(words, "stacked_lstm\n");
  CHECK(rnnc_unit_shipped("lstm", &unit));
  rnnc_unit_free(unit);
  CHECK(rnnc_graph_parse("graph Same {\n  input x: [2]\n  %0 = input x : [2]\n  output y = %0\n}\n",
                         &graph));
  rnnc_graph_free(graph);
}
#endif

int main(void) {
  rnnc_program* program = compile();
  rnnc_text* devices = NULL;
  CHECK(rnnc_devices(&devices));
  expect_text(devices, "cpu\tusable\t");
  EXPECT(rnnc_version() >=
         (RNNC_VERSION_MAJOR << 16 | RNNC_VERSION_MINOR << 8 | RNNC_VERSION_PATCH));
  EXPECT(strcmp(rnnc_status_name(RNNC_NOT_PREPARED), "RNNC_NOT_PREPARED") == 0);
  look_at(program);
  train(program);
#ifdef RNNC_LATER
  use_later(program);
#endif
  rnnc_program_free(program);
  return 0;
}
