/* rnnc's C API: compile a recurrent cell from its text once, run and train it many times.
 *
 *     rnnc_unit* unit;    rnnc_graph* graph;    rnnc_program* program;
 *     rnnc_unit_parse("lstm.rnn", text, &unit);
 *     rnnc_unit_lower(unit, "LSTM", NULL, 0, &graph);
 *     const rnnc_dim dims[] = {{"I", 80}, {"H", 512}};
 *     rnnc_program_compile(graph, dims, 2, NULL, &program);
 *     const rnnc_shape shape = {.struct_size = sizeof shape, .batch = 16, .steps = 100};
 *     rnnc_program_prepare(program, &shape);
 *     rnnc_forward(program, &arguments);
 *
 * Arrays are dense and row-major, in the memory of the program's device, and stay the caller's.
 * T steps, B sequences: inputs and outputs are [T, B, shape...], params [shape...], initial and
 * final states [B, shape...], lengths [B] of int32, resets [T, B] of bytes. `shape` is that of one
 * step and one sequence (rnnc_program_array). States are f32 where arrays are 16-bit.
 *
 * Errors. Every function that can fail returns a status; rnnc_last_error has its words. What a
 * failed call would have given is NULL or 0. NULL where something is needed, wrong counts and sizes
 * are errors, never a crash. Nothing is launched before all arguments are checked.
 *
 * Threads. Handles are independent of one another. One call at a time on one handle: one that
 * overlaps another is an error of a program, and must not happen to a unit or a graph. Forward and
 * backward calls of one program on a GPU must be in stream order (one stream, or ordered by events).
 *
 * Versions. Structs begin with their size, so that a client of an older header has what is missing
 * in it as if it were zero. Nothing is removed from this header, and no number changes its meaning.
 */
#ifndef RNNC_H
#define RNNC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define RNNC_API __attribute__((visibility("default")))
#else
#define RNNC_API
#endif

/* ---- The library and its errors ---- */

/* Of this header. The library has its own: rnnc_version. */
#define RNNC_VERSION_MAJOR 0
#define RNNC_VERSION_MINOR 1
#define RNNC_VERSION_PATCH 0

typedef enum rnnc_status {
  RNNC_OK = 0,
  RNNC_INVALID_ARGUMENT = 1, /* what was given is wrong */
  RNNC_INVALID_TEXT = 2,     /* a .rnn text has errors: rnnc_unit_diagnostics */
  RNNC_NOT_PREPARED = 3,     /* the shape has to be prepared first */
  RNNC_NOT_SUPPORTED = 4,    /* rnnc, or this build of it, cannot do that */
  RNNC_NO_DEVICE = 5,        /* there is no such device, or it cannot be used */
  RNNC_OUT_OF_MEMORY = 6,
  RNNC_DEVICE_ERROR = 7, /* a device has failed; later calls may fail, too */
  RNNC_INTERNAL = 8      /* a bug in rnnc */
} rnnc_status;

/* Major << 16 | minor << 8 | patch of the library. */
RNNC_API uint32_t rnnc_version(void);
/* Names what was built. Libraries with the same name plan the same calls on the same device alike,
 * so that sizes of workspaces and reserves are the same, too. The text is the library's. */
RNNC_API const char* rnnc_build(void);
/* "RNNC_OK"; "unknown" of a number that is no status. */
RNNC_API const char* rnnc_status_name(rnnc_status status);
/* Of the last call that failed on this thread, until the next that does; "" if none has. Never NULL.
 * May have several lines; no newline at its end. */
RNNC_API const char* rnnc_last_error(void);

/* Text that the library hands out. */
typedef struct rnnc_text rnnc_text;
/* Ends with a NUL byte, which its size does not count. NULL gives "" and 0. */
RNNC_API const char* rnnc_text_data(const rnnc_text* text);
RNNC_API size_t rnnc_text_size(const rnnc_text* text);
RNNC_API void rnnc_text_free(rnnc_text* text);

/* A line for each device: name, a tab, "usable" or why it is not, a tab, what it is. */
RNNC_API rnnc_status rnnc_devices(rnnc_text** devices);

/* A further folder where NVRTC and cuBLASLt are looked for, after the system's search path, such as
 * those of NVIDIA's Python wheels. What is loaded already stays. */
RNNC_API rnnc_status rnnc_library_folder(const char* folder);

/* ---- From text to a step graph (docs/language.md) ---- */

typedef struct rnnc_unit rnnc_unit;
typedef struct rnnc_graph rnnc_graph;

typedef struct rnnc_dim {
  const char* name;
  int64_t value;
} rnnc_dim;

/* A .rnn text. Its imports are looked for beside the file `name` would be. With RNNC_INVALID_TEXT
 * there is a unit all the same, for its diagnostics. */
RNNC_API rnnc_status rnnc_unit_parse(const char* name, const char* text, rnnc_unit** unit);
/* The same of a file. */
RNNC_API rnnc_status rnnc_unit_read(const char* path, rnnc_unit** unit);
/* The same of a cell or network that the library carries with it, those of rnnc's examples: "lstm",
 * "stacked_lstm". Its last definition is the one that it is about. */
RNNC_API rnnc_status rnnc_unit_shipped(const char* name, rnnc_unit** unit);
/* Names of these, a line each. */
RNNC_API rnnc_status rnnc_shipped(rnnc_text** names);
/* Names of the text's own cells and networks, a line each, in their order. */
RNNC_API rnnc_status rnnc_unit_definitions(const rnnc_unit* unit, rnnc_text** names);
/* Errors and warnings with their places and hints, as `rnnc check` prints them. */
RNNC_API rnnc_status rnnc_unit_diagnostics(const rnnc_unit* unit, rnnc_text** diagnostics);
RNNC_API void rnnc_unit_free(rnnc_unit* unit);

/* The step graph of a cell or network; NULL as its name: of the only one. Dims decide loop bounds
 * and lengths of arrays; those of shapes may be left to rnnc_program_compile. The graph does not
 * need the unit any more. */
RNNC_API rnnc_status rnnc_unit_lower(rnnc_unit* unit, const char* definition, const rnnc_dim* dims,
                                     size_t count, rnnc_graph** graph);
/* As `rnnc emit --as graph` prints it. */
RNNC_API rnnc_status rnnc_graph_text(const rnnc_graph* graph, rnnc_text** text);
/* The graph of such a text, which needs no other file. */
RNNC_API rnnc_status rnnc_graph_parse(const char* text, rnnc_graph** graph);
RNNC_API void rnnc_graph_free(rnnc_graph* graph);

/* ---- Programs ---- */

typedef struct rnnc_program rnnc_program;

typedef enum rnnc_dtype {
  RNNC_F32 = 0,
  RNNC_F64 = 1,
  RNNC_BF16 = 2,
  RNNC_F16 = 3,
  RNNC_I32 = 4 /* of inputs of integers alone */
} rnnc_dtype;

typedef struct rnnc_options {
  size_t struct_size; /* sizeof(rnnc_options) */
  const char* device; /* "cpu", "cuda", "cuda:1"; NULL: "cpu" */
  rnnc_dtype dtype;   /* of inputs, params and outputs. f64: CPU; 16-bit: GPU */
  int32_t f32_params; /* nonzero: params and their gradients are f32, whatever dtype is */
  int32_t tf32;       /* nonzero: products of f32 on a GPU may round to TF32 */
  int32_t threads;    /* CPU; 0: one per hardware thread */
  int32_t reverse;    /* nonzero: from each sequence's last step to its first */
  int64_t chunk;      /* steps per chunk; 0: chosen. Pieces of whole chunks of a number that
                                  is given have the bits of one call */
  const char* cache_directory; /* of compiled kernels; NULL: none */
  const char* passes;          /* as `rnnc run --passes`; NULL: all */
  int32_t tune;                /* nonzero: GPU: preparing measures what is fastest */
  /* GPU: the memory that the program keeps, weights in its own layout and the like, comes from the
   * caller; both NULL: from CUDA. `allocate` gives memory of the program's device, aligned to 256
   * bytes, or NULL; `stream` is the one that uses it first: NULL, the default one. `release` gets it
   * back when nothing on the device uses it any more. They are called while programs are compiled,
   * prepared, forgotten and freed, on the thread that does so, with the device current. With them
   * a program must not be prepared either while any thread captures a CUDA graph. */
  void* (*allocate)(void* context, size_t bytes, void* stream);
  void (*release)(void* context, void* memory);
  void* context;
  /* GPU: multiprocessors that resident kernels, whose blocks wait for one another, leave to what else
   * runs there meanwhile, such as NCCL's */
  int32_t spare_multiprocessors;
  /* CPU, nonzero: work is done by the threads of the OpenMP runtime that is among the process's global
   * symbols then (libgomp, libomp), if any, since these spin for milliseconds behind each parallel
   * region, beside a program's own threads. Where it gives fewer than `threads`, own ones work */
  int32_t openmp;
} rnnc_options;

/* `graph`'s dims must all have a value, here or as a default. NULL options: all zero. */
RNNC_API rnnc_status rnnc_program_compile(const rnnc_graph* graph, const rnnc_dim* dims,
                                          size_t count, const rnnc_options* options,
                                          rnnc_program** program);
/* Waits for its GPU: not while any thread captures a CUDA graph there. */
RNNC_API void rnnc_program_free(rnnc_program* program);

typedef enum rnnc_role {
  RNNC_INPUT = 0,
  RNNC_PARAM = 1,
  RNNC_STATE = 2, /* those that the cell implies (h@2) come behind its own */
  RNNC_OUTPUT = 3
} rnnc_role;

typedef struct rnnc_array {
  size_t struct_size; /* sizeof(rnnc_array), set by the caller */
  const char* name;   /* the program's, as long as it lives */
  rnnc_dtype dtype;
  int32_t rank;
  const int64_t* shape; /* [rank], the program's, as long as it lives */
} rnnc_array;

/* How many arrays there are, and each: lists of calls line up with them. */
RNNC_API rnnc_status rnnc_program_count(const rnnc_program* program, rnnc_role role, size_t* count);
RNNC_API rnnc_status rnnc_program_array(const rnnc_program* program, rnnc_role role, size_t index,
                                        rnnc_array* array);
/* Whether sequences can be run in pieces: 0 if a layer runs in reverse. */
RNNC_API rnnc_status rnnc_program_streams(const rnnc_program* program, int32_t* streams);

typedef enum rnnc_residuals {
  RNNC_RESIDUALS_AUTO = 0,  /* what takes the least time */
  RNNC_RESIDUALS_LEAST = 1, /* the least memory */
  RNNC_RESIDUALS_ALL = 2    /* nothing is computed anew */
} rnnc_residuals;

typedef struct rnnc_shape {
  size_t struct_size; /* sizeof(rnnc_shape) */
  int64_t batch;
  int64_t steps;    /* prepared for so many, or fewer */
  int32_t lengths;  /* nonzero: calls come with lengths */
  int32_t resets;   /* nonzero: calls come with resets */
  int32_t training; /* nonzero: forward calls fill a reserve, and there are backward calls */

  /* Of training; else not looked at. */
  rnnc_residuals residuals;
  int64_t checkpoint; /* steps between states that are kept, K >= 1; 0: all residuals are */
  int32_t accumulate; /* nonzero: gradients of params are added to what their arrays hold */
  int32_t outputs;    /* nonzero: backward calls are given the outputs, which saves memory */
  /* Whose gradients are wanted: a byte for each array of the role. NULL: all params, no input, no
   * initial state. `given_states`: those whose initial value calls give; NULL: none. */
  const uint8_t* wanted_params;
  const uint8_t* wanted_inputs;
  const uint8_t* wanted_initial_states;
  const uint8_t* given_states;
} rnnc_shape;

/* Makes calls of a shape runnable. May be slow, allocate and use the disk. What is prepared already
 * is free; for training, other options replace what was prepared. */
RNNC_API rnnc_status rnnc_program_prepare(rnnc_program* program, const rnnc_shape* shape);

typedef struct rnnc_sizes {
  size_t struct_size;       /* sizeof(rnnc_sizes), set by the caller */
  size_t forward_workspace; /* bytes, room to align them included */
  size_t backward_workspace;
  size_t zeros;   /* on top of it, where the gradient of some output is NULL */
  size_t reserve; /* at least 1 in training, else 0 */
} rnnc_sizes;

/* Of calls of exactly so many steps of a shape that is prepared, until it is prepared again. */
RNNC_API rnnc_status rnnc_program_sizes(rnnc_program* program, const rnnc_shape* shape,
                                        rnnc_sizes* sizes);
/* Frees what calls of this batch size, with these lengths and resets, need; NULL: of all shapes.
 * Waits for the GPU, so not while any thread captures a CUDA graph there. Until then graphs that
 * have captured calls may be replayed, also when their shape has been prepared anew. */
RNNC_API rnnc_status rnnc_program_forget(rnnc_program* program, const rnnc_shape* shape);

/* What no reserve of T steps and B sequences is larger than:
 * fixed + per_step * T + per_sequence * B + per_row * T * B bytes. */
typedef struct rnnc_reserve_bound {
  size_t struct_size; /* sizeof(rnnc_reserve_bound), set by the caller */
  size_t fixed;
  size_t per_step;
  size_t per_sequence;
  size_t per_row;
} rnnc_reserve_bound;

/* Before preparing; `shape`'s batch and steps are not looked at. */
RNNC_API rnnc_status rnnc_program_reserve_bound(rnnc_program* program, const rnnc_shape* shape,
                                                rnnc_reserve_bound* bound);
/* How calls of a shape run, what each launch costs, and the memory, as `rnnc explain` prints it: as
 * "text", as "json" (docs/explain.md) or as an "html" page. Prepares the shape first. */
RNNC_API rnnc_status rnnc_program_explain(rnnc_program* program, const rnnc_shape* shape,
                                          const char* format, rnnc_text** text);
/* What the compiler makes of a shape, as `rnnc emit` prints it: the step "graph", the "plan", and of
 * a program on the CPU "llvm" and "asm", on a GPU "cuda" and "ptx". Of training it is the forward
 * half's, or with "backward " in front ("backward plan") the other one's. Prepares the shape first. */
RNNC_API rnnc_status rnnc_program_emit(rnnc_program* program, const rnnc_shape* shape,
                                       const char* form, rnnc_text** text);
/* What runs otherwise than asked for, and why, and where gradients are zero: a line each. */
RNNC_API rnnc_status rnnc_program_notes(rnnc_program* program, rnnc_text** notes);

/* ---- Calls: no allocation, no waiting for a GPU; may be captured in a CUDA graph ---- */

typedef struct rnnc_forward_args {
  size_t struct_size; /* sizeof(rnnc_forward_args) */
  int64_t steps;
  int64_t batch;
  /* Integers from -2^24 to 2^24. Of a program on the CPU those of steps that a sequence has are
   * checked before anything runs; on a GPU one that names no row of its table reads zeros. */
  const void* const* inputs;
  const void* const* params;
  void* const* outputs;
  const void* const* initial_states; /* NULL, or one each; NULL: as declared */
  /* NULL, or one each; NULL: not wanted. May lie where initial states do, each in its own's place
   * or in another's; what else a call writes overlaps nothing. */
  void* const* final_states;
  /* From 0 to `steps`: others count as the nearest of these. NULL: all are `steps` long. */
  const int32_t* lengths;
  const uint8_t* reset; /* nonzero: the sequence begins anew at this step. NULL: never */
  int32_t reuse_params; /* nonzero: params have not changed since the last call */
  void* workspace;
  size_t workspace_bytes;
  void* reserve; /* NULL: inference */
  size_t reserve_bytes;
  void* stream; /* a cudaStream_t; on the CPU not looked at, and the work is done on return */
} rnnc_forward_args;

RNNC_API rnnc_status rnnc_forward(rnnc_program* program, const rnnc_forward_args* args);

typedef struct rnnc_backward_args {
  size_t struct_size; /* sizeof(rnnc_backward_args) */
  int64_t steps;      /* as the forward call's that filled the reserve */
  int64_t batch;
  const void* const* inputs;
  const void* const* params;
  const void* const* outputs;               /* of rnnc_shape::outputs; else not looked at */
  const void* const* output_gradients;      /* NULL, or one each; NULL: zero */
  const void* const* final_state_gradients; /* likewise */
  /* Written, each of its array's shape and dtype: NULL, or one each, NULL where none is wanted. */
  void* const* param_gradients;
  void* const* input_gradients;
  void* const* initial_state_gradients;
  const int32_t* lengths;
  const uint8_t* reset;
  int32_t reuse_params;
  void* workspace;
  size_t workspace_bytes;
  const void* reserve; /* stays as it is */
  size_t reserve_bytes;
  void* stream;
  /* Nonzero: the reserve is where another program, prepared alike for as many steps, has left it, or
   * a copy of that, both at multiples of 64 bytes. That a forward call has filled it is then not
   * checked. */
  int32_t foreign_reserve;
} rnnc_backward_args;

RNNC_API rnnc_status rnnc_backward(rnnc_program* program, const rnnc_backward_args* args);

/* ---- Weights under other names and in other layouts (docs/weight_maps.md) ---- */

typedef struct rnnc_weight_map rnnc_weight_map;

/* A map's text; `name` is its file's in errors. */
RNNC_API rnnc_status rnnc_weight_map_parse(const char* name, const char* text,
                                           rnnc_weight_map** map);
/* One that the library carries with it, for a module of PyTorch, Keras or Flax: "torch/lstm",
 * "torch/stacked_gru", "keras/gru", and so on (examples/torch, keras, flax). */
RNNC_API rnnc_status rnnc_weight_map_shipped(const char* name, rnnc_weight_map** map);
/* As JSON (docs/c.md): of which tensors each param of the program is made, and the tensors' shapes. */
RNNC_API rnnc_status rnnc_weight_map_resolve(const rnnc_weight_map* map,
                                             const rnnc_program* program, rnnc_text** layout);
RNNC_API void rnnc_weight_map_free(rnnc_weight_map* map);

#ifdef __cplusplus
}
#endif
#endif
