// ---- What units of descending plans have besides (ir/plan/plan.h). ----

// Row `row` of an array without a slot, whose rows are Stride elements apart, `step` steps on from
// where the launch begins: they are Advance elements apart.
template <typename T, long long Stride, long long Advance>
static __device__ __forceinline__ T* rnnc_at_step(const rnnc_access& access, int step,
                                                  unsigned row) {
  T* const place =
      reinterpret_cast<T*>(access.address) + step * Advance + static_cast<rnnc_word>(row) * Stride;
  __builtin_assume(__isGlobal(place));
  return place;
}

// Slots [0, depth) of `units` each move to [steps, steps + depth), behind which is `end`. The two
// may overlap: what is `steps` slots apart moves one after the other, from the end on.
template <typename Unit>
static __device__ __forceinline__ void rnnc_move_history_on(Unit* end, rnnc_word units,
                                                            rnnc_word depth, rnnc_word steps) {
  const rnnc_word threads = static_cast<rnnc_word>(gridDim.x) * blockDim.x;
  const rnnc_word distance = steps * units;
  const rnnc_word first = min(depth, steps) * units;
  rnnc_word i = static_cast<rnnc_word>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; i < first; i += threads) {
    for (rnnc_word to = i; to < depth * units; to += distance)
      end[-1 - to] = end[-1 - to - distance];
  }
}

// As rnnc_end_chunk, but histories have the addresses of their last slots.
extern "C" __global__ void rnnc_end_descending_chunk(
    rnnc_word* frame, int steps, int advance, int before_ends,
    const __grid_constant__ rnnc_histories histories) {
  rnnc_begin();
  if (before_ends && frame[0] + steps >= frame[1]) return;
  const rnnc_history& history = histories.history[blockIdx.y];
  rnnc_word end = history.address + 2 * history.units;
  if (history.slot >= 0) end += frame[3 + history.slot];
  if (history.units % 8 == 0) {
    rnnc_move_history_on(reinterpret_cast<uint4*>(end), history.units / 8, history.depth, steps);
  } else {
    rnnc_move_history_on(reinterpret_cast<unsigned short*>(end), history.units, history.depth,
                         steps);
  }
  if (!advance) return;
  __syncthreads();
  const unsigned last = gridDim.x * gridDim.y - 1;
  if (threadIdx.x == 0 && atomicInc(reinterpret_cast<unsigned*>(frame + 2), last) == last) {
    frame[0] += steps;
  }
}
