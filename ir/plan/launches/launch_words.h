/// A launch in words, for people.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/plan/plan.h"

namespace rnnc {

struct LaunchWords {
  /// What a pass has done for this launch: "merged", "fused" or "hoisted", and in words.
  struct Note {
    std::string kind;
    std::string text;
  };
  /// How pictures draw it.
  enum class Looks : uint8_t { Product, Elementwise, Structure };
  std::string kind;                  // as docs/explain.md lists them: "product", "fused", "loop", …
  std::string summary;               // "4 products + 17 operations"
  std::string strategy;              // how it runs, in words
  std::string what;                  // what it computes, in words
  std::vector<std::string> writes;   // where what it touches does not name them
  std::vector<std::string> weights;  // of its products: params and values made of them
  std::vector<std::pair<std::string, int>> operations;  // of its kernel, with how many of each
  std::vector<Note> notes;
  Looks looks = Looks::Structure;
  bool copies = false;    // what is there: when that is done needs no reason
  bool arranges = false;  // weights, for others to read: not in pictures, if it is done once
};

/// Elements [begin, end) of a buffer that a launch makes of weights.
struct WeightPart {
  BufferId buffer = kNoBuffer;
  int64_t begin = 0;
  int64_t end = 0;
  std::vector<std::string> names;
};

/// The names of what a launch touches, and the rest that its words depend on.
class LaunchNames {
 public:
  const Plan& plan() const { return plan_; }
  const Stage& stage() const { return stage_; }
  /// Else on a GPU.
  bool on_cpu() const { return on_cpu_; }

  /// "h[t-1]": the buffer and the step at which the stage reads or writes `count` elements of a row.
  virtual std::string value(const Access& access, int64_t count) const = 0;
  /// Of the params, or values made of them, in `count` elements of a weight.
  virtual std::vector<std::string> weights_in(const Access& weight, int64_t count) const = 0;

  /// Of what a kernel reads, or of what it writes.
  std::vector<std::string> arguments(uint32_t kernel, const std::vector<Access>& accesses,
                                     bool written) const;
  /// All that is in a buffer of weights.
  std::string array(BufferId id) const;
  /// The rows that the launch runs over, "1024 rows".
  std::string rows(int64_t once_rows) const;

 protected:
  LaunchNames(const Plan& plan, const Stage& stage, bool on_cpu)
      : plan_(plan), stage_(stage), on_cpu_(on_cpu) {}
  ~LaunchNames() = default;

 private:
  const Plan& plan_;
  const Stage& stage_;
  bool on_cpu_;
};

/// A kernel's operations, and what is fused there.
void add_kernel(const Kernel& kernel, LaunchWords& words);
void add_operation(const std::string& name, int times, LaunchWords& words);
int operation_count(const LaunchWords& words);

/// Unless it is there.
void add_once(std::vector<std::string>& names, const std::string& name);

/// "1 step", "2 steps".
std::string plural(int64_t count, std::string_view what);

/// "LSTM.0.{W_i, W_f}": what the names have in common up to the last dot comes once, but for
/// numbered values, "add.4, add.7".
std::string join_names(const std::vector<std::string>& names);

}  // namespace rnnc
