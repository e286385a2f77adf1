/// The text of a side of a recurrence kernel. Its loop over steps is in emit_recurrence.cpp; what
/// names stand for, in recurrence_names.h; its products, what it loads, what blocks hand to each
/// other and its reductions are in files of their own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/cuda/persistent/emit_recurrence.h"
#include "codegen/cuda/persistent/recurrence_layout.h"
#include "codegen/cuda/persistent/traits_writer.h"
#include "ir/base/text_writer.h"

namespace rnnc {

class RecurrenceEmitter : TextWriter {
 public:
  RecurrenceEmitter(const Plan& plan, const RecurrenceTile& tile, const RecurrenceLayout& layout)
      : plan_(plan), tile_(tile), layout_(layout), phases_(layout.phases()) {}

  RecurrenceSideText emit();

 private:
  using Phase = RecurrencePhase;
  using Slice = RecurrenceExchange::Slice;

  int64_t threads() const { return 32 * tile_.warps; }
  int64_t element_bytes() const { return static_cast<int64_t>(size_of(plan_.dtype)); }
  void slice_traits();
  void phase_traits(size_t p);
  void position();
  std::string column(const Phase& phase) const;
  void open_rows(size_t p, bool inside_alone);
  void find_row(size_t p);
  void open_elements(const Phase& phase);
  void invariants(size_t p);
  size_t carry_index(const Access& access) const;
  void carry_of(std::string_view name, size_t index, int64_t shared, int64_t values);
  void unroll_laps() { line("#pragma unroll{}", layout_.are_laps_alike() ? " 1" : ""); }
  void carries();
  /// Whether what the next step needs is loaded when others no longer wait for this one. (In a
  /// cluster, LSTM 1x256 in f32: 0.80 us, so 0.71. With tensor cores, steps took longer.)
  bool loads_last() const { return layout_.laps() == 1 && tile_.clusters && layout_.is_exact(); }
  /// Whether, where all blocks exchange through memory, the warps without elementwise work wait for
  /// those that have it before they ask for the next step's. (f32 without: LSTM 1x1024 1.41 us, so
  /// 1.25; 16x1024 5.15, so 4.90. Steps in 16 bits took up to 15 % longer so.)
  bool waits_together() const {
    return plan_.dtype == DType::f32 && !plan_.tf32 && layout_.exchange().step_bytes > 0;
  }
  void phase(size_t p);
  void elementwise(size_t p, const std::vector<int>& waits, int level);
  void reductions(size_t p, const std::vector<int>& waits, int level, bool are_handed_on);
  void variables(size_t p);
  static std::vector<int> waits_of(const Phase& phase);
  void while_waiting(size_t p, const std::vector<int>& waits, int level);
  void statements(size_t p, const std::vector<int>& waits, int level);
  static std::vector<uint32_t> statements_of(const Phase& phase, const std::vector<int>& waits,
                                             int level);
  void statement(size_t p, uint32_t id);
  static std::string value(const Phase& phase, uint32_t id, std::string_view index);
  static std::string value(const Phase& phase, uint32_t id, int64_t s);
  void stores(size_t p);
  int64_t steps_read(const Access& access) const;
  void store(size_t p, const Instruction& instruction);

  // ---- Products (emit_recurrence_products.cpp). ----

  std::string_view engine() const;
  static std::string product_name(size_t p, size_t i) { return fmt::format("weights{}_{}", p, i); }
  void product_traits(size_t p, size_t i);
  void operands(size_t p);
  bool is_begun_ahead(size_t p) const;
  bool ends_in_reductions(size_t p) const;
  bool is_begun_at_end(size_t p) const;
  bool is_begun_a_step_ahead(size_t p) const;
  std::string left(size_t p, size_t i, std::string_view step, std::string_view lap) const;
  bool is_wide(const Access& left) const;
  int64_t row_bytes_of(const Access& left) const;
  std::string row_at(const Access& left, std::string_view step, std::string_view row) const;
  std::string first_words(size_t p, size_t i) const;
  void begin_next(size_t p);
  void far_ahead();
  void products(size_t p);
  void multiply(size_t p, size_t i);
  static bool has_totals(const Phase& phase, size_t product);
  static bool is_first_part(const Phase& phase, size_t product);
  /// Whether a group's last lap may have no rows. Blocks that share k hand nothing on then, and
  /// so do not wait for each other: the buffer stays as it is.
  bool may_have_no_rows() const { return layout_.laps() > 1 && !layout_.has_all_rows(); }
  void turn_buffer();
  void share_sums(size_t p);
  void sums_of_blocks(size_t p);
  void sums(size_t p);
  void own_sums(const Phase& phase, uint32_t id, uint32_t result);

  // ---- What it loads (emit_recurrence_loads.cpp). ----

  std::string array(std::string_view type, bool loaded, size_t access, std::string_view row) const;
  std::string array_at(std::string_view type, bool loaded, size_t access,
                       std::string_view step) const;
  bool has_steps(const Access& access) const;
  const Access& access_of(const Phase& phase, uint32_t argument) const;
  std::string place(size_t p, uint32_t argument, std::string_view step,
                    std::string_view row = "row") const;
  static int64_t span(const Phase& phase, uint32_t argument);
  int64_t at_once(const Phase& phase, uint32_t argument) const;
  std::vector<uint32_t> loads(const Phase& phase) const;
  void first_loads(size_t p);
  int64_t packets(const Phase& phase, uint32_t argument) const;
  void load(size_t p, std::string_view step);
  void loads_of_next_lap(size_t p);
  void loads_of_next_step(size_t p);
  void prefetch_ahead(size_t p);
  void prefetch(size_t p, std::string_view step);
  void packets(size_t p, const std::vector<uint32_t>& ids);
  bool is_packet(const Phase& phase, uint32_t id) const;
  std::string loaded(size_t p, uint32_t id) const;

  // ---- Inputs that are copied ahead (emit_recurrence_inputs.cpp). ----

  bool has_inputs(const Phase& phase) const;
  std::vector<std::vector<const RecurrenceInput*>> groups_of_inputs(const Phase& phase) const;
  int64_t steps_of_copy() const;
  void first_inputs();
  void copy_traits(size_t p, size_t index, const std::vector<const RecurrenceInput*>& group);
  static std::string begin_of(size_t p, const RecurrenceInput& input);
  void find_copies(size_t p, size_t index, const std::vector<const RecurrenceInput*>& group);
  void copy_inputs(size_t p, std::string_view step);
  std::string copies_now() const;
  void await_inputs(size_t p);
  void inputs_ahead(size_t p);
  bool input_packet(size_t p, uint32_t id);

  // ---- What blocks hand to each other (emit_recurrence_exchange.cpp). ----

  /// Where elements that a phase stores lie in a slice.
  struct InSlice {
    int64_t behind = 0;  // the slice's first element
    int64_t width = 0;
    bool all = false;  // lie in it
  };
  /// One of the thread's elements: where in the slice, and when there is one that lies in it.
  struct HandedOn {
    std::string element;
    std::string condition;
  };

  int64_t shared_place(size_t slice) const;
  std::string shared_step(size_t slice, std::string_view step) const;
  int64_t first_barrier(size_t slice) const;
  std::string barrier(size_t slice, std::string_view step) const;
  std::string await(size_t slice, std::string_view step) const;
  void begin_cluster();
  void begin_sharing();
  void expect(std::string_view step);
  void end_cluster();
  std::string step_of_exchange(std::string_view step) const;
  std::string exchange_now() const;
  bool stores_to_exchange(size_t p) const;
  void refreshes(size_t p);
  void refresh(size_t p, const Instruction& store, size_t index);
  template <typename Work>
  void for_exchanges(size_t p, int level, const Work& work) const;
  bool is_of_lanes(const Phase& phase, size_t slice) const;
  bool exchanges_by_lanes(size_t p, int level) const;
  void exchanges(size_t p, int level, bool by_lanes);
  bool stores_locally(const Phase& phase) const;
  InSlice in_slice(const Phase& phase, const Instruction& store, size_t index) const;
  HandedOn handed_on(size_t p, const Instruction& store, size_t index, int64_t s) const;
  std::string place_in_slice(size_t index, std::string_view element) const;
  void exchange(size_t p, const Instruction& store, size_t index);
  void exchange_by_lanes(size_t p, const Instruction& store, size_t index);
  void hand_on(size_t index, std::string_view element, std::string_view first,
               std::string_view both = "", std::string_view second = "");

  // ---- What kernels gather (emit_recurrence_gathers.cpp). ----

  size_t gathered_of(const Access& access) const;
  std::string place_of_gathered(size_t index, std::string_view step,
                                std::string_view element) const;
  template <typename Work>
  void for_gathered(size_t p, int level, const Work& work);
  void hand_on_gathered(size_t p, int level);
  void refresh_gathered(size_t p, int level);
  static std::vector<uint32_t> gathered_at(const Phase& phase, int level);
  int64_t first_word(const Phase& phase, uint32_t id) const;
  int64_t words(const Phase& phase, uint32_t id) const;
  void gather(size_t p, int level);
  std::string gathered(size_t p, uint32_t id) const;

  // ---- Reductions (emit_recurrence_reductions.cpp). ----

  /// A phase's reductions of one level, that blocks exchange the parts of together.
  struct Level {
    size_t first = 0;  // among the phase's partials
    size_t count = 0;
    size_t before = 0;    // parts of a row before theirs
    bool pieces = false;  // two neighbours are a piece of 16 bytes
  };

  size_t partial_count() const;
  std::string statistic(size_t index) const;
  Level level_of(const Phase& phase, int level) const;
  size_t parts_of_row() const { return partial_count() * static_cast<size_t>(tile_.blocks); }
  std::string place_of_parts(std::string_view step, const Level& level, std::string_view row,
                             std::string_view block) const;
  void refresh_parts(size_t p, const Level& level);
  void hand_on_parts(size_t p, const Level& level);
  std::string part(size_t p, size_t partial, int64_t span, std::string_view values) const;
  static int64_t span_of_sums(const Phase& phase, const Level& level);
  bool are_of_sums(const Phase& phase, const Level& level) const;
  std::vector<int64_t> columns_of(const Phase& phase, uint32_t result) const;
  void place_parts_of_sums(size_t p, const Level& level);
  void hand_on_parts_of_sums(size_t p, const Level& level);
  void join_parts(size_t p, const Level& level);
  std::string parts(size_t p, const Level& level, size_t first, size_t count);
  int64_t most_rows() const;
  int64_t first_joining_warp(const Phase& phase) const;
  static std::string_view kind(const Phase& phase, size_t partial);
  void reduced(size_t p, uint32_t id);

  TraitsWriter traits_;
  const Plan& plan_;
  const RecurrenceTile& tile_;
  const RecurrenceLayout& layout_;
  const std::vector<RecurrencePhase>& phases_;
};

}  // namespace rnnc
