#include "runtime/cpu/scan_stage.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "codegen/cpu/kernel_cost.h"
#include "ir/base/arithmetic.h"
#include "runtime/cpu/slices.h"

namespace rnnc::cpu {
namespace {

// Of each thread at a time: several, so that one that is late holds up little.
constexpr int64_t kTilesOfThread = 2;

/// Coefficients, offsets, and the greatest size on the way.
int64_t map_words(const ScanRound& round) {
  const auto m = std::ssize(round.states);
  return m * m + m + 1;
}

/// The greatest entry of a map, and the greatest state before it, for nothing on the way to come near
/// overflow, nor what the user's own order of factors makes.
template <typename T>
T most(Semiring semiring) {
  constexpr int kDigits = std::numeric_limits<T>::max_exponent;
  return std::ldexp(T{1}, semiring == Semiring::SumProduct ? 3 * kDigits / 8 : 7 * kDigits / 8);
}

template <typename T>
T joined(Semiring semiring, T sum, T a, T h) {
  switch (semiring) {
    case Semiring::SumProduct:
      return sum + a * h;
    case Semiring::MaxPlus:
      return std::max(sum, a + h);
    case Semiring::MinPlus:
      return std::min(sum, a + h);
  }
  return sum;
}

/// The semiring's zero is infinite in two of them, and does no harm.
template <typename T>
bool fits(Semiring semiring, T value) {
  const T infinity = std::numeric_limits<T>::infinity();
  if (std::isfinite(value)) return true;
  return (semiring == Semiring::MaxPlus && value == -infinity) ||
         (semiring == Semiring::MinPlus && value == infinity);
}

}  // namespace

ScanStage::ScanStage(const Plan& plan, const Stage& stage, CpuSteps steps,
                     std::vector<CpuScanRound> rounds, int64_t lanes, int threads)
    : plan_(plan),
      launch_(std::get<ScanLaunch>(stage.launches[0])),
      calls_(plan, stage),
      steps_(steps),
      rounds_(std::move(rounds)) {
  const int64_t tiles = ceil_div(plan.chunk, launch_.tile_steps());
  threads_ = static_cast<int>(std::min<int64_t>(threads, tiles * plan.batch));
  at_once_ = std::min(tiles, ceil_div(kTilesOfThread * threads_, plan.batch));
  for (const ScanRound& round : launch_.rounds) words_ = std::max(words_, map_words(round));
  row_bytes_ = calls_.kernel().length * static_cast<int64_t>(size_of(plan.dtype));
  first_.resize(calls_.arguments());
  arguments_.assign(threads, std::vector<void*>(calls_.arguments() + words_));
  const double operations =
      static_cast<double>(operations_per_vector(calls_.kernel()) * plan.batch) *
      static_cast<double>(calls_.kernel().length) * static_cast<double>(rounds_.size() + 1);
  step_alone_ = nanoseconds(operations, lanes);
  step_shared_ = step_alone_ / threads_;
}

// ---- Memory: states before tiles, states behind them, words of maps, what tiles add up ----

int64_t ScanStage::memory_bytes() const {
  const auto carries = std::ssize(launch_.carries);
  const int64_t rows =
      (2 * at_once_ + 1) * carries + at_once_ * (words_ + std::ssize(launch_.totals));
  return rows * plan_.batch * row_bytes_;
}

std::byte* ScanStage::state(int64_t tile, int64_t row, size_t carry) const {
  const auto carries = std::ssize(launch_.carries);
  return row_at((tile * plan_.batch + row) * carries + static_cast<int64_t>(carry));
}

std::byte* ScanStage::state_behind(int64_t tile, int64_t row, size_t carry) const {
  return state(at_once_ + 1 + tile, row, carry);
}

std::byte* ScanStage::word(int64_t tile, int64_t row, int64_t word) const {
  const int64_t states = (2 * at_once_ + 1) * plan_.batch * std::ssize(launch_.carries);
  return row_at(states + (tile * plan_.batch + row) * words_ + word);
}

std::byte* ScanStage::partial(int64_t tile, int64_t row, size_t total) const {
  const int64_t states = (2 * at_once_ + 1) * plan_.batch * std::ssize(launch_.carries);
  const int64_t words = at_once_ * plan_.batch * words_;
  return row_at(states + words + (tile * plan_.batch + row) * std::ssize(launch_.totals) +
                static_cast<int64_t>(total));
}

// ---- A chunk ----

void ScanStage::run(const Crew& crew, const Addresses& addresses, const ThreadScratch& /*scratch*/,
                    Position start, int64_t steps) {
  const auto share_out = [&](int64_t units, const auto& work) {
    if (crew.pool != nullptr && units > 1) {
      crew.pool->run(units, work);
    } else {
      for (int64_t unit = 0; unit < units; ++unit) work(unit, crew.thread);
    }
  };
  calls_.locate(addresses, start, first_.data());
  take_first_states();
  Wave wave = {.steps = steps, .tiles = ceil_div(steps, launch_.tile_steps())};
  for (; wave.first < wave.tiles; wave.first += wave.count) {
    wave.count = std::min(at_once_, wave.tiles - wave.first);
    for (size_t round = 0; round < rounds_.size(); ++round) {
      share_out(wave.composed() * plan_.batch,
                [&](int64_t unit, int thread) { compose(wave, round, unit, thread); });
      share_out(wave.composed() > 0 ? plan_.batch * blocks() : 0,
                [&](int64_t unit, int thread) { hand_on(wave, round, unit, thread); });
    }
    share_out(wave.count * plan_.batch,
              [&](int64_t unit, int thread) { go_through(wave, unit, thread); });
    share_out(std::ssize(launch_.totals) * blocks(),
              [&](int64_t unit, int /*thread*/) { add_totals(wave, unit); });
    keep_last_states(wave);
  }
}

int64_t ScanStage::blocks() const {
  return ceil_div(calls_.kernel().length, kColumnsAtOnce);
}

/// Of a row's blocks after another's.
ScanStage::Columns ScanStage::columns_of(int64_t unit) const {
  const int64_t begin = unit % blocks() * kColumnsAtOnce;
  return {unit / blocks(), begin, std::min(begin + kColumnsAtOnce, calls_.kernel().length)};
}

int64_t ScanStage::steps_of(const Wave& wave, int64_t tile) const {
  const int64_t begin = (wave.first + tile) * launch_.tile_steps();
  return std::min(launch_.tile_steps(), wave.steps - begin);
}

/// Of the kernel's arguments, with the states before a tile for those that it carries.
void** ScanStage::arguments_at(const Wave& wave, int64_t tile, int64_t row, int thread) {
  void** arguments = arguments_[thread].data();
  calls_.move(first_.data(), row, (wave.first + tile) * launch_.tile_steps(), arguments);
  for (size_t i = 0; i < launch_.carries.size(); ++i) {
    arguments[launch_.carries[i].load] = state(tile, row, i);
    arguments[launch_.carries[i].store] = state_behind(tile, row, i);
  }
  return arguments;
}

void ScanStage::take_first_states() {
  std::vector<void*>& arguments = arguments_[0];
  for (int64_t row = 0; row < plan_.batch; ++row) {
    calls_.move(first_.data(), row, 0, arguments.data());
    for (size_t i = 0; i < launch_.carries.size(); ++i) {
      std::memcpy(state(0, row, i), arguments[launch_.carries[i].load], row_bytes_);
    }
  }
}

void ScanStage::compose(const Wave& wave, size_t round, int64_t unit, int thread) {
  const int64_t tile = unit % wave.composed();
  const int64_t row = unit / wave.composed();
  void** arguments = arguments_at(wave, tile, row, thread);
  for (int64_t i = 0; i < map_words(launch_.rounds[round]); ++i) {
    arguments[static_cast<int64_t>(calls_.arguments()) + i] = word(tile, row, i);
  }
  rounds_[round].map(arguments, calls_.strides(), steps_of(wave, tile), 0, calls_.kernel().length);
}

/// The states of a round before each tile, from those before the first.
void ScanStage::hand_on(const Wave& wave, size_t round, int64_t unit, int thread) {
  const Columns of = columns_of(unit);
  for (int64_t tile = 0; tile < wave.composed(); ++tile) {
    if (plan_.dtype == DType::f64) {
      hand_on<double>(wave, round, tile, of, thread);
    } else {
      hand_on<float>(wave, round, tile, of, thread);
    }
  }
}

template <typename T>
void ScanStage::hand_on(const Wave& wave, size_t round, int64_t tile, const Columns& of,
                        int thread) {
  if (apply<T>(launch_.rounds[round], tile, of)) return;
  void** arguments = arguments_at(wave, tile, of.row, thread);
  rounds_[round].states(arguments, calls_.strides(), steps_of(wave, tile), of.begin, of.end);
  const auto m = std::ssize(launch_.rounds[round].states);
  const T* const counts = reinterpret_cast<const T*>(word(tile, of.row, m * m + m));
  for (const uint32_t carry : launch_.rounds[round].states) {
    T* const next = reinterpret_cast<T*>(state(tile + 1, of.row, carry));
    const T* const behind = reinterpret_cast<const T*>(state_behind(tile, of.row, carry));
    for (int64_t i = of.begin; i < of.end; ++i) {
      if (counts[i] < 0) next[i] = behind[i];
    }
  }
}

/// Applies a tile's map; where it does not count, its last word becomes -1. Whether it counts
/// everywhere.
template <typename T>
bool ScanStage::apply(const ScanRound& round, int64_t tile, const Columns& of) {
  const auto m = std::ssize(round.states);
  const auto map = [&](int64_t number) { return reinterpret_cast<T*>(word(tile, of.row, number)); };
  const auto states = [&](int64_t of_tile, int64_t number) {
    return reinterpret_cast<T*>(state(of_tile, of.row, round.states[static_cast<size_t>(number)]));
  };
  T* const greatest = map(m * m + m);
  const T limit = most<T>(round.semiring);
  bool everywhere = true;
  for (int64_t element = of.begin; element < of.end; ++element) {
    T size = 1;
    bool counts = true;
    for (int64_t i = 0; i < m; ++i) size += std::abs(states(tile, i)[element]);
    for (int64_t i = 0; i < m; ++i) {
      T next = map(m * m + i)[element];
      counts = counts && fits(round.semiring, next);
      for (int64_t j = 0; j < m; ++j) {
        const T coefficient = map(i * m + j)[element];
        counts = counts && fits(round.semiring, coefficient);
        next = joined(round.semiring, next, coefficient, states(tile, j)[element]);
      }
      states(tile + 1, i)[element] = next;
    }
    counts = counts && size <= limit && greatest[element] <= limit;
    if (!counts) greatest[element] = -1;
    everywhere = everywhere && counts;
  }
  return everywhere;
}

void ScanStage::go_through(const Wave& wave, int64_t unit, int thread) {
  const int64_t tile = unit % wave.count;
  const int64_t row = unit / wave.count;
  void** arguments = arguments_at(wave, tile, row, thread);
  for (size_t i = 0; i < launch_.totals.size(); ++i) {
    arguments[launch_.totals[i]] = partial(tile, row, i);
  }
  steps_(arguments, calls_.strides(), steps_of(wave, tile), 0, calls_.kernel().length);
}

void ScanStage::add_totals(const Wave& wave, int64_t unit) {
  const Columns of = columns_of(unit);  // of a total, in place of a row
  const auto total = static_cast<size_t>(of.row);
  if (plan_.dtype == DType::f64) {
    add_totals<double>(wave, total, of);
  } else {
    add_totals<float>(wave, total, of);
  }
}

template <typename T>
void ScanStage::add_totals(const Wave& wave, size_t total, const Columns& of) {
  T* const sums = static_cast<T*>(first_[launch_.totals[total]]);
  for (int64_t tile = 0; tile < wave.count; ++tile) {
    for (int64_t row = 0; row < plan_.batch; ++row) {
      const T* const terms = reinterpret_cast<const T*>(partial(tile, row, total));
      for (int64_t i = of.begin; i < of.end; ++i) sums[i] += terms[i];
    }
  }
}

/// For the next wave, or the next chunk.
void ScanStage::keep_last_states(const Wave& wave) {
  const bool ends = wave.first + wave.count == wave.tiles;
  std::vector<void*>& arguments = arguments_[0];
  for (int64_t row = 0; row < plan_.batch; ++row) {
    if (ends) calls_.move(first_.data(), row, 0, arguments.data());
    for (size_t i = 0; i < launch_.carries.size(); ++i) {
      if (ends) {
        std::memcpy(arguments[launch_.carries[i].store], state_behind(wave.count - 1, row, i),
                    row_bytes_);
      } else {
        std::memcpy(state(0, row, i), state(wave.count, row, i), row_bytes_);
      }
    }
  }
}

}  // namespace rnnc::cpu
