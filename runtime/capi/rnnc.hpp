/// rnnc.h for C++17: handles that free themselves, errors as exceptions, structs that know their
/// size. Errors, threads, and what functions and fields mean: rnnc.h.
///
///     auto unit = rnnc::Unit::parse("lstm.rnn", text);
///     auto program = rnnc::Program::compile(unit.lower("LSTM"), {{"I", 80}, {"H", 512}});
///     rnnc::Shape shape;
///     shape.batch = 16;
///     shape.steps = 100;
///     program.prepare(shape);
///     rnnc::ForwardArgs args;  // pointers, in the order of program.arrays(RNNC_INPUT) and so on
///     program.forward(args);
///
/// All of it is inline: a program depends on the C functions of librnnc.so.1 alone. A file includes
/// this header or those of rnnc's own sources, not both: their names are the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "rnnc.h"

namespace rnnc {
inline namespace v1 {

/// What a call threw. what() has the words: of a text, all its errors with their places and hints.
class Error : public std::runtime_error {
 public:
  Error(rnnc_status status, const char* message) : std::runtime_error(message), status_(status) {}
  rnnc_status status() const noexcept { return status_; }

 private:
  rnnc_status status_;
};

/// A struct of rnnc.h with its size, else zero.
template <typename Struct>
struct Sized : Struct {
  Sized() : Struct{} { this->struct_size = sizeof(Struct); }
};
using Options = Sized<rnnc_options>;
using Shape = Sized<rnnc_shape>;
using Sizes = Sized<rnnc_sizes>;
using ReserveBound = Sized<rnnc_reserve_bound>;
using ForwardArgs = Sized<rnnc_forward_args>;
using BackwardArgs = Sized<rnnc_backward_args>;

using Dims = std::vector<rnnc_dim>;

namespace detail {

struct Free {
  void operator()(rnnc_text* text) const noexcept { rnnc_text_free(text); }
  void operator()(rnnc_unit* unit) const noexcept { rnnc_unit_free(unit); }
  void operator()(rnnc_graph* graph) const noexcept { rnnc_graph_free(graph); }
  void operator()(rnnc_program* program) const noexcept { rnnc_program_free(program); }
  void operator()(rnnc_weight_map* map) const noexcept { rnnc_weight_map_free(map); }
};
template <typename Handle>
using Owned = std::unique_ptr<Handle, Free>;

inline void check(rnnc_status status) {
  if (status != RNNC_OK) throw Error(status, rnnc_last_error());
}

/// What `function` gives as its last argument.
template <typename Value, typename Function, typename... Arguments>
Value value_of(Function function, Arguments... arguments) {
  Value value{};
  check(function(arguments..., &value));
  return value;
}

/// Likewise, a handle, even one that comes with an error.
template <typename Handle, typename Function, typename... Arguments>
Owned<Handle> handle_of(Function function, Arguments... arguments) {
  Handle* made = nullptr;
  const rnnc_status status = function(arguments..., &made);
  Owned<Handle> handle(made);
  check(status);
  return handle;
}

template <typename Function, typename... Arguments>
std::string text_of(Function function, Arguments... arguments) {
  const auto text = handle_of<rnnc_text>(function, arguments...);
  return std::string(rnnc_text_data(text.get()), rnnc_text_size(text.get()));
}

template <typename Function, typename... Arguments>
std::vector<std::string> lines_of(Function function, Arguments... arguments) {
  std::istringstream text(text_of(function, arguments...));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

}  // namespace detail

/// Of the library, which may be newer than this header: "0.1.0".
inline std::string version() {
  const uint32_t number = rnnc_version();
  return std::to_string(number >> 16) + "." + std::to_string(number >> 8 & 255) + "." +
         std::to_string(number & 255);
}

/// As rnnc_build.
inline std::string build() {
  return rnnc_build();
}

/// As rnnc_devices gives them.
inline std::vector<std::string> devices() {
  return detail::lines_of(rnnc_devices);
}

/// As rnnc_library_folder.
inline void add_library_folder(const std::string& folder) {
  detail::check(rnnc_library_folder(folder.c_str()));
}

/// Names for Unit::shipped.
inline std::vector<std::string> shipped() {
  return detail::lines_of(rnnc_shipped);
}

/// The dataflow graph of one step.
class Graph {
 public:
  /// Of what `text` gives.
  static Graph parse(const std::string& text) {
    return Graph(detail::handle_of<rnnc_graph>(rnnc_graph_parse, text.c_str()));
  }
  rnnc_graph* get() const noexcept { return handle_.get(); }

  std::string text() const { return detail::text_of(rnnc_graph_text, get()); }

 private:
  friend class Unit;
  explicit Graph(detail::Owned<rnnc_graph> handle) : handle_(std::move(handle)) {}
  detail::Owned<rnnc_graph> handle_;
};

/// A .rnn text without errors.
class Unit {
 public:
  static Unit parse(const std::string& name, const std::string& text) {
    return Unit(detail::handle_of<rnnc_unit>(rnnc_unit_parse, name.c_str(), text.c_str()));
  }
  static Unit read(const std::string& path) {
    return Unit(detail::handle_of<rnnc_unit>(rnnc_unit_read, path.c_str()));
  }
  static Unit shipped(const std::string& name) {
    return Unit(detail::handle_of<rnnc_unit>(rnnc_unit_shipped, name.c_str()));
  }
  rnnc_unit* get() const noexcept { return handle_.get(); }

  std::vector<std::string> definitions() const {
    return detail::lines_of(rnnc_unit_definitions, get());
  }
  /// Warnings; the errors of a text are thrown.
  std::string diagnostics() const { return detail::text_of(rnnc_unit_diagnostics, get()); }
  /// An empty name: that of the only one.
  Graph lower(const std::string& definition = "", const Dims& dims = {}) {
    const char* name = definition.empty() ? nullptr : definition.c_str();
    return Graph(
        detail::handle_of<rnnc_graph>(rnnc_unit_lower, get(), name, dims.data(), dims.size()));
  }

 private:
  explicit Unit(detail::Owned<rnnc_unit> handle) : handle_(std::move(handle)) {}
  detail::Owned<rnnc_unit> handle_;
};

/// An array of a program; `shape` is that of one step and one sequence.
struct Array {
  std::string name;
  rnnc_dtype dtype;
  std::vector<int64_t> shape;

  size_t elements() const {
    size_t product = 1;
    for (const int64_t length : shape) product *= static_cast<size_t>(length);
    return product;
  }
};

class Program {
 public:
  static Program compile(const Graph& graph, const Dims& dims = {},
                         const rnnc_options& options = Options()) {
    return Program(detail::handle_of<rnnc_program>(rnnc_program_compile, graph.get(), dims.data(),
                                                   dims.size(), &options));
  }
  rnnc_program* get() const noexcept { return handle_.get(); }

  std::vector<Array> arrays(rnnc_role role) const {
    std::vector<Array> arrays(detail::value_of<size_t>(rnnc_program_count, get(), role));
    for (size_t i = 0; i < arrays.size(); ++i) {
      Sized<rnnc_array> array;
      detail::check(rnnc_program_array(get(), role, i, &array));
      arrays[i] = {array.name, array.dtype, {array.shape, array.shape + array.rank}};
    }
    return arrays;
  }
  bool streams() const { return detail::value_of<int32_t>(rnnc_program_streams, get()) != 0; }

  void prepare(const rnnc_shape& shape) { detail::check(rnnc_program_prepare(get(), &shape)); }
  Sizes sizes(const rnnc_shape& shape) {
    Sizes sizes;
    detail::check(rnnc_program_sizes(get(), &shape, &sizes));
    return sizes;
  }
  void forget(const rnnc_shape& shape) { detail::check(rnnc_program_forget(get(), &shape)); }
  /// All shapes.
  void forget() { detail::check(rnnc_program_forget(get(), nullptr)); }
  ReserveBound reserve_bound(const rnnc_shape& shape) {
    ReserveBound bound;
    detail::check(rnnc_program_reserve_bound(get(), &shape, &bound));
    return bound;
  }
  std::string explain(const rnnc_shape& shape, const std::string& format = "text") {
    return detail::text_of(rnnc_program_explain, get(), &shape, format.c_str());
  }
  std::string emit(const rnnc_shape& shape, const std::string& form) {
    return detail::text_of(rnnc_program_emit, get(), &shape, form.c_str());
  }
  std::vector<std::string> notes() { return detail::lines_of(rnnc_program_notes, get()); }

  void forward(const rnnc_forward_args& args) { detail::check(rnnc_forward(get(), &args)); }
  void backward(const rnnc_backward_args& args) { detail::check(rnnc_backward(get(), &args)); }

 private:
  explicit Program(detail::Owned<rnnc_program> handle) : handle_(std::move(handle)) {}
  detail::Owned<rnnc_program> handle_;
};

/// Of which tensors params are made.
class WeightMap {
 public:
  static WeightMap parse(const std::string& name, const std::string& text) {
    return WeightMap(
        detail::handle_of<rnnc_weight_map>(rnnc_weight_map_parse, name.c_str(), text.c_str()));
  }
  static WeightMap shipped(const std::string& name) {
    return WeightMap(detail::handle_of<rnnc_weight_map>(rnnc_weight_map_shipped, name.c_str()));
  }
  rnnc_weight_map* get() const noexcept { return handle_.get(); }

  /// JSON.
  std::string resolve(const Program& program) const {
    return detail::text_of(rnnc_weight_map_resolve, get(), program.get());
  }

 private:
  explicit WeightMap(detail::Owned<rnnc_weight_map> handle) : handle_(std::move(handle)) {}
  detail::Owned<rnnc_weight_map> handle_;
};

}  // namespace v1
}  // namespace rnnc
