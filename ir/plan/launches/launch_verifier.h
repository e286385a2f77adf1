/// What a kind of launch is checked with, in its place among the others of a plan.
#pragma once

#include <vector>

#include "ir/plan/plan.h"

namespace rnnc {

/// One read or write of a launch, with the type that it takes the elements for.
struct TypedTouch {
  Access access;
  int64_t count = 0;  // elements of a row
  DType dtype = DType::f32;
  bool write = false;
  bool turned = false;  // rows of columns
};

/// Loop, Recurrence: a Sequence stage of one such launch.
enum class Where : uint8_t { Once, Sequence, Step, Loop, Recurrence, State, Last };

class LaunchVerifier {
 public:
  const Plan& plan() const { return plan_; }
  Where where() const { return where_; }

  /// Accesses are good, what is read was written, and what is written is so from now on. All reads
  /// of a launch come before its writes.
  virtual Status check_touches(const std::vector<TypedTouch>& touches, int64_t once_rows) = 0;
  /// Whether an earlier sweep wrote it, for all steps.
  virtual bool is_complete(const TypedTouch& touch) const = 0;

  Status check_call(uint32_t kernel, const std::vector<Access>& accesses) const;
  /// Those of a kernel that lie in memory.
  std::vector<TypedTouch> arguments(uint32_t kernel, const std::vector<Access>& accesses) const;
  /// A weight's rows are those of the whole launch: none of it moves along with the rows.
  Status check_weight(const Access& weight, int64_t count);
  /// Elements move as they are, of whatever type.
  Status check_move(TypedTouch source, TypedTouch target, int64_t once_rows = 1);

 protected:
  LaunchVerifier(const Plan& plan, Where where) : plan_(plan), where_(where) {}
  ~LaunchVerifier() = default;

 private:
  const Plan& plan_;
  Where where_;
};

/// Whether it is to all that a chunk has of its buffer, and to nothing of earlier chunks.
bool is_whole_chunk(const Plan& plan, const Access& access);

}  // namespace rnnc
