// The C API as the library has it: nothing else of rnnc is linked in.
#include <cstring>
#include <thread>

#include "tests/capi/handles.h"

namespace rnnc::test {
namespace {

constexpr const char* kElman = R"(cell Elman[I, H](x: [I]) -> h {
  state h: [H]
  param W: [H, I]
  param R: [H, H]
  h[t] = tanh(W @ x[t] + R @ h[t-1])
}
)";

Owned<rnnc_program> elman(rnnc_dtype dtype = RNNC_F64) {
  const Owned<rnnc_unit> unit = parse(kElman);
  const Owned<rnnc_graph> graph = lower(unit.get());
  const rnnc_dim dims[] = {{"I", 3}, {"H", 4}};
  const rnnc_options options = options_of(dtype);
  rnnc_program* program = nullptr;
  EXPECT_EQ(rnnc_program_compile(graph.get(), dims, 2, &options, &program), RNNC_OK)
      << rnnc_last_error();
  return Owned<rnnc_program>(program);
}

TEST(CApi, TheLibrary) {
  EXPECT_EQ(rnnc_version(),
            RNNC_VERSION_MAJOR << 16 | RNNC_VERSION_MINOR << 8 | RNNC_VERSION_PATCH);
  EXPECT_GE(std::strlen(rnnc_build()), 16u);  // a hash
  EXPECT_EQ(rnnc_build(), rnnc_build());
  EXPECT_STREQ(rnnc_status_name(RNNC_OK), "RNNC_OK");
  EXPECT_STREQ(rnnc_status_name(RNNC_INTERNAL), "RNNC_INTERNAL");
  EXPECT_STREQ(rnnc_status_name(static_cast<rnnc_status>(99)), "unknown");
  EXPECT_STREQ(rnnc_text_data(nullptr), "");
  EXPECT_EQ(rnnc_text_size(nullptr), 0u);
  rnnc_text_free(nullptr);
  rnnc_text* text = nullptr;
  ASSERT_EQ(rnnc_devices(&text), RNNC_OK);
  EXPECT_TRUE(take(text).starts_with("cpu\tusable\t"));
}

TEST(CApi, LibraryFoldersAreFolders) {
  EXPECT_EQ(rnnc_library_folder(nullptr), RNNC_INVALID_ARGUMENT);
  EXPECT_EQ(rnnc_library_folder("no/such/folder"), RNNC_INVALID_ARGUMENT);
  EXPECT_STREQ(rnnc_last_error(),
               "cannot look for libraries in `no/such/folder`: it is not a directory");
  EXPECT_EQ(rnnc_library_folder("."), RNNC_OK) << rnnc_last_error();
}

TEST(CApi, ErrorsAreTheThreadsOwn) {
  EXPECT_EQ(rnnc_devices(nullptr), RNNC_INVALID_ARGUMENT);
  EXPECT_STREQ(rnnc_last_error(), "`devices` is NULL");
  std::thread([] { EXPECT_STREQ(rnnc_last_error(), ""); }).join();
  EXPECT_STREQ(rnnc_last_error(), "`devices` is NULL");
}

TEST(CApi, Units) {
  const Owned<rnnc_unit> unit = parse(kElman);
  ASSERT_NE(unit, nullptr);
  rnnc_text* text = nullptr;
  ASSERT_EQ(rnnc_unit_definitions(unit.get(), &text), RNNC_OK);
  EXPECT_EQ(take(text), "Elman\n");
  ASSERT_EQ(rnnc_unit_diagnostics(unit.get(), &text), RNNC_OK);
  EXPECT_EQ(take(text), "");
  const Owned<rnnc_graph> graph = lower(unit.get(), "Elman");
  ASSERT_EQ(rnnc_graph_text(graph.get(), &text), RNNC_OK);
  EXPECT_TRUE(take(text).starts_with("graph Elman(I, H) {\n  input x: [I]\n"));
}

TEST(CApi, TextsWithErrorsGiveTheirDiagnostics) {
  rnnc_unit* made = nullptr;
  EXPECT_EQ(rnnc_unit_parse("bad.rnn", "cell A[H](x: [H]) -> y {\n  y = z\n}\n", &made),
            RNNC_INVALID_TEXT);
  const Owned<rnnc_unit> unit(made);
  ASSERT_NE(unit, nullptr);
  rnnc_text* text = nullptr;
  ASSERT_EQ(rnnc_unit_diagnostics(unit.get(), &text), RNNC_OK);
  const std::string diagnostics = take(text);
  EXPECT_TRUE(diagnostics.starts_with("bad.rnn:2:7: error: ")) << diagnostics;
  EXPECT_EQ(diagnostics.find(rnnc_last_error()), 0u);
  rnnc_graph* graph = nullptr;
  EXPECT_EQ(rnnc_unit_lower(unit.get(), "A", nullptr, 0, &graph), RNNC_INVALID_TEXT);
  EXPECT_EQ(graph, nullptr);
  EXPECT_EQ(rnnc_unit_read("no/such/file.rnn", &made), RNNC_INVALID_ARGUMENT);
  EXPECT_EQ(made, nullptr);
}

TEST(CApi, DefinitionsAndDims) {
  const Owned<rnnc_unit> two =
      parse("cell A(x: [2]) -> y {\n  y = x[t]\n}\ncell B(x: [2]) -> y {\n  y = x[t]\n}\n");
  rnnc_graph* graph = nullptr;
  EXPECT_EQ(rnnc_unit_lower(two.get(), nullptr, nullptr, 0, &graph), RNNC_INVALID_ARGUMENT);
  EXPECT_STREQ(rnnc_last_error(), "the text defines A, B; name the one that is meant");
  EXPECT_EQ(rnnc_unit_lower(two.get(), "A", nullptr, 1, &graph), RNNC_INVALID_ARGUMENT);
  EXPECT_STREQ(rnnc_last_error(), "`dims` is NULL, and there are 1");
  const rnnc_dim twice[] = {{"H", 1}, {"H", 2}};
  EXPECT_EQ(rnnc_unit_lower(two.get(), "A", twice, 2, &graph), RNNC_INVALID_ARGUMENT);
  EXPECT_STREQ(rnnc_last_error(), "dim `H` is given twice");
  const rnnc_dim nameless = {nullptr, 1};
  EXPECT_EQ(rnnc_unit_lower(two.get(), "A", &nameless, 1, &graph), RNNC_INVALID_ARGUMENT);
  EXPECT_STREQ(rnnc_last_error(), "the name of dim 0 is NULL");
}

TEST(CApi, ProgramsTellTheirArrays) {
  const Owned<rnnc_program> program = elman();
  size_t count = 0;
  ASSERT_EQ(rnnc_program_count(program.get(), RNNC_PARAM, &count), RNNC_OK);
  ASSERT_EQ(count, 2u);
  rnnc_array array = {};
  array.struct_size = sizeof array;
  ASSERT_EQ(rnnc_program_array(program.get(), RNNC_PARAM, 0, &array), RNNC_OK);
  EXPECT_STREQ(array.name, "W");
  EXPECT_EQ(array.dtype, RNNC_F64);
  ASSERT_EQ(array.rank, 2);
  EXPECT_EQ(array.shape[0], 4);
  EXPECT_EQ(array.shape[1], 3);
  EXPECT_EQ(rnnc_program_array(program.get(), RNNC_PARAM, 2, &array), RNNC_INVALID_ARGUMENT);
  EXPECT_STREQ(rnnc_last_error(), "there is no array 2: the program has 2 of this role");
  EXPECT_EQ(rnnc_program_count(program.get(), static_cast<rnnc_role>(9), &count),
            RNNC_INVALID_ARGUMENT);
  EXPECT_STREQ(rnnc_last_error(), "there is no role 9");
  int32_t streams = 0;
  ASSERT_EQ(rnnc_program_streams(program.get(), &streams), RNNC_OK);
  EXPECT_EQ(streams, 1);
  rnnc_text* notes = nullptr;
  ASSERT_EQ(rnnc_program_notes(program.get(), &notes), RNNC_OK);
  EXPECT_EQ(take(notes), "");
}

/// A struct of an older header ends earlier; one of a newer one is not understood.
TEST(CApi, StructsOfOtherHeaders) {
  const Owned<rnnc_program> program = elman();
  rnnc_shape shape = shape_of(2, 3);
  shape.struct_size = offsetof(rnnc_shape, training);
  shape.training = 77;
  EXPECT_EQ(rnnc_program_prepare(program.get(), &shape), RNNC_OK) << rnnc_last_error();
  rnnc_sizes sizes;
  std::memset(&sizes, 0x55, sizeof sizes);
  sizes.struct_size = offsetof(rnnc_sizes, backward_workspace);
  ASSERT_EQ(rnnc_program_sizes(program.get(), &shape, &sizes), RNNC_OK) << rnnc_last_error();
  EXPECT_GT(sizes.forward_workspace, 0u);
  EXPECT_EQ(sizes.reserve, 0x5555555555555555u);
  for (const size_t bytes : {size_t{0}, sizeof(size_t), sizeof shape + 1, SIZE_MAX}) {
    shape.struct_size = bytes;
    EXPECT_EQ(rnnc_program_prepare(program.get(), &shape), RNNC_INVALID_ARGUMENT);
    EXPECT_TRUE(std::string(rnnc_last_error()).starts_with("`shape` says that its struct_size is"));
  }
}

TEST(CApi, KindsOfErrors) {
  const Owned<rnnc_program> program = elman();
  const rnnc_shape shape = shape_of(2, 3);
  rnnc_sizes sizes = {};
  sizes.struct_size = sizeof sizes;
  EXPECT_EQ(rnnc_program_sizes(program.get(), &shape, &sizes), RNNC_NOT_PREPARED);
  rnnc_forward_args args = {};
  args.struct_size = sizeof args;
  args.steps = 3;
  args.batch = 2;
  EXPECT_EQ(rnnc_forward(program.get(), &args), RNNC_NOT_PREPARED);
  ASSERT_EQ(rnnc_program_prepare(program.get(), &shape), RNNC_OK);
  EXPECT_EQ(rnnc_forward(program.get(), &args), RNNC_INVALID_ARGUMENT);
  EXPECT_STREQ(rnnc_last_error(), "1 input pointers expected, got 0");
  const Owned<rnnc_unit> unit = parse(kElman);
  const Owned<rnnc_graph> graph = lower(unit.get());
  rnnc_program* made = nullptr;
  rnnc_options options = options_of(RNNC_F32);
  const rnnc_dim dims[] = {{"I", 3}, {"H", 4}};
  options.device = "cuda:77";
  EXPECT_EQ(rnnc_program_compile(graph.get(), dims, 2, &options, &made), RNNC_NO_DEVICE)
      << rnnc_last_error();
  EXPECT_EQ(made, nullptr);
  options.device = "gpu";
  EXPECT_EQ(rnnc_program_compile(graph.get(), dims, 2, &options, &made), RNNC_INVALID_ARGUMENT);
  options.device = nullptr;
  options.dtype = static_cast<rnnc_dtype>(12);
  EXPECT_EQ(rnnc_program_compile(graph.get(), dims, 2, &options, &made), RNNC_INVALID_ARGUMENT);
  EXPECT_STREQ(rnnc_last_error(), "there is no dtype 12");
  EXPECT_EQ(rnnc_program_compile(graph.get(), dims, 1, nullptr, &made), RNNC_INVALID_ARGUMENT);
  options = options_of(RNNC_F32);
  options.release = [](void*, void*) {};
  EXPECT_EQ(rnnc_program_compile(graph.get(), dims, 2, &options, &made), RNNC_INVALID_ARGUMENT);
  EXPECT_STREQ(rnnc_last_error(), "an allocator needs both allocate and release");
  rnnc_shape training = shape_of(2, 3, true);
  training.residuals = static_cast<rnnc_residuals>(5);
  EXPECT_EQ(rnnc_program_prepare(program.get(), &training), RNNC_INVALID_ARGUMENT);
  EXPECT_STREQ(rnnc_last_error(), "there is no choice 5 of residuals");
}

TEST(CApi, NullIsAnError) {
  const Owned<rnnc_program> program = elman();
  rnnc_unit* unit = nullptr;
  rnnc_text* text = nullptr;
  rnnc_graph* graph = nullptr;
  rnnc_program* made = nullptr;
  rnnc_weight_map* map = nullptr;
  const rnnc_shape shape = shape_of(2, 3, true);
  size_t count = 0;
  const rnnc_status all[] = {
      rnnc_unit_parse(nullptr, "", &unit),
      rnnc_unit_parse("a", nullptr, &unit),
      rnnc_unit_parse("a", "", nullptr),
      rnnc_unit_read(nullptr, &unit),
      rnnc_unit_read("a", nullptr),
      rnnc_unit_shipped(nullptr, &unit),
      rnnc_unit_shipped("lstm", nullptr),
      rnnc_shipped(nullptr),
      rnnc_unit_definitions(nullptr, &text),
      rnnc_unit_diagnostics(nullptr, &text),
      rnnc_unit_lower(nullptr, nullptr, nullptr, 0, &graph),
      rnnc_graph_text(nullptr, &text),
      rnnc_graph_parse(nullptr, &graph),
      rnnc_graph_parse("graph G {}", nullptr),
      rnnc_program_compile(nullptr, nullptr, 0, nullptr, &made),
      rnnc_program_count(nullptr, RNNC_INPUT, &count),
      rnnc_program_count(program.get(), RNNC_INPUT, nullptr),
      rnnc_program_array(nullptr, RNNC_INPUT, 0, nullptr),
      rnnc_program_array(program.get(), RNNC_INPUT, 0, nullptr),
      rnnc_program_streams(program.get(), nullptr),
      rnnc_program_prepare(nullptr, nullptr),
      rnnc_program_prepare(program.get(), nullptr),
      rnnc_program_sizes(program.get(), nullptr, nullptr),
      rnnc_program_forget(nullptr, nullptr),
      rnnc_program_reserve_bound(program.get(), nullptr, nullptr),
      rnnc_program_reserve_bound(program.get(), &shape, nullptr),
      rnnc_program_explain(nullptr, &shape, "text", &text),
      rnnc_program_explain(program.get(), nullptr, "text", &text),
      rnnc_program_explain(program.get(), &shape, nullptr, &text),
      rnnc_program_explain(program.get(), &shape, "text", nullptr),
      rnnc_program_emit(program.get(), &shape, nullptr, &text),
      rnnc_program_emit(program.get(), &shape, "plan", nullptr),
      rnnc_program_notes(program.get(), nullptr),
      rnnc_forward(nullptr, nullptr),
      rnnc_forward(program.get(), nullptr),
      rnnc_backward(program.get(), nullptr),
      rnnc_weight_map_parse(nullptr, "a = b", &map),
      rnnc_weight_map_parse("a.map", nullptr, &map),
      rnnc_weight_map_parse("a.map", "a = b", nullptr),
      rnnc_weight_map_shipped(nullptr, &map),
      rnnc_weight_map_resolve(nullptr, program.get(), &text),
  };
  for (size_t i = 0; i < std::size(all); ++i) EXPECT_EQ(all[i], RNNC_INVALID_ARGUMENT) << i;
  rnnc_unit_shipped("lstm", nullptr);
  EXPECT_STREQ(rnnc_last_error(), "`unit` is NULL");
  rnnc_unit_free(nullptr);
  rnnc_graph_free(nullptr);
  rnnc_program_free(nullptr);
  rnnc_weight_map_free(nullptr);
}

}  // namespace
}  // namespace rnnc::test
