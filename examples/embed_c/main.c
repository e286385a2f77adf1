/* Embeds rnnc in a C program: learns the rates of running means from what they have given, by
 * gradient descent. Prints the loss on the way, then the rates.
 */
#include <rnnc/rnnc.h>
#include <stdio.h>
#include <stdlib.h>

enum { T = 8, H = 2 }; /* one sequence of T steps, two means side by side */

static const char text[] =
    "cell Mean[H](x: [H]) -> y {\n"
    "  state y: [H]\n"
    "  param rate: [H]\n"
    "  y[t] = y[t-1] + rate * (x[t] - y[t-1])\n"
    "}\n";

/* Ends the program with rnnc's words if a call has failed. */
static void check(rnnc_status status) {
  if (status == RNNC_OK) return;
  fprintf(stderr, "embed_c: %s: %s\n", rnnc_status_name(status), rnnc_last_error());
  exit(1);
}

static void* allocate(size_t bytes) {
  void* memory = malloc(bytes + 1); /* never of 0 bytes */
  if (memory == NULL) {
    fputs("embed_c: not enough memory\n", stderr);
    exit(1);
  }
  return memory;
}

static rnnc_program* compile(void) {
  const rnnc_dim dims[] = {{"H", H}};
  rnnc_unit* unit = NULL;
  rnnc_graph* graph = NULL;
  rnnc_program* program = NULL;
  check(rnnc_unit_parse("mean.rnn", text, &unit));
  check(rnnc_unit_lower(unit, "Mean", NULL, 0, &graph));
  check(rnnc_program_compile(graph, dims, 1, NULL, &program)); /* on the CPU, in f32 */
  rnnc_graph_free(graph);
  rnnc_unit_free(unit);
  return program;
}

int main(void) {
  rnnc_program* program = compile();
  const rnnc_shape shape = {.struct_size = sizeof shape, .batch = 1, .steps = T, .training = 1};
  rnnc_sizes sizes = {.struct_size = sizeof sizes};
  check(rnnc_program_prepare(program, &shape));
  check(rnnc_program_sizes(program, &shape, &sizes));

  /* Lists have a pointer for each array of a role; the cell has one of each. Outputs are y. */
  float x[T * H], y[T * H], dy[T * H], rate[H] = {0.5f, 0.5f}, d_rate[H];
  const void* inputs[] = {x};
  const void* params[] = {rate};
  void* outputs[] = {y};
  const void* output_gradients[] = {dy};
  void* param_gradients[] = {d_rate};
  void* forward_workspace = allocate(sizes.forward_workspace);
  void* backward_workspace = allocate(sizes.backward_workspace);
  void* reserve = allocate(sizes.reserve);
  const rnnc_forward_args forward = {.struct_size = sizeof forward,
                                     .steps = T,
                                     .batch = 1,
                                     .inputs = inputs,
                                     .params = params,
                                     .outputs = outputs,
                                     .workspace = forward_workspace,
                                     .workspace_bytes = sizes.forward_workspace,
                                     .reserve = reserve,
                                     .reserve_bytes = sizes.reserve};
  const rnnc_backward_args backward = {.struct_size = sizeof backward,
                                       .steps = T,
                                       .batch = 1,
                                       .inputs = inputs,
                                       .params = params,
                                       .output_gradients = output_gradients,
                                       .param_gradients = param_gradients,
                                       .workspace = backward_workspace,
                                       .workspace_bytes = sizes.backward_workspace,
                                       .reserve = reserve,
                                       .reserve_bytes = sizes.reserve};

  /* The means of x at these rates are what y should be. */
  const float wanted_rate[H] = {0.25f, 0.75f};
  float wanted[T * H];
  for (int i = 0; i < T * H; ++i) {
    const float last = i < H ? 0 : wanted[i - H];
    x[i] = (float)(i * 7 % 5) - 2;
    wanted[i] = last + wanted_rate[i % H] * (x[i] - last);
  }

  for (int round = 0; round <= 20; ++round) {
    check(rnnc_forward(program, &forward));
    float loss = 0;
    for (int i = 0; i < T * H; ++i) {
      dy[i] = y[i] - wanted[i];
      loss += dy[i] * dy[i] / 2;
    }
    if (round % 5 == 0) printf("round %d: loss %.4f\n", round, loss);
    check(rnnc_backward(program, &backward));
    for (int i = 0; i < H; ++i) rate[i] -= 0.015f * d_rate[i];
  }
  printf("rates: %.3f %.3f\n", rate[0], rate[1]);

  free(forward_workspace);
  free(backward_workspace);
  free(reserve);
  rnnc_program_free(program);
  return 0;
}
