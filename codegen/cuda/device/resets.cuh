// ---- Mask launches that look back at resets (ir/plan/plan.h), behind sequence.cuh. ----

static __device__ __forceinline__ bool rnnc_is_reset(const unsigned char* resets, int reversed,
                                                     rnnc_word t, rnnc_word length, unsigned batch,
                                                     unsigned b) {
  const rnnc_word at = reversed ? length - t : t;
  const bool inside = !reversed || (t > 0 && at > 0);
  return resets != nullptr && inside && resets[at * batch + b] != 0;
}

// A thread takes `span` steps of a sequence, and first looks for the last reset before them.
extern "C" __global__ void rnnc_resets_back(float* target, int reversed, const int* lengths,
                                            const unsigned char* resets, rnnc_word steps,
                                            rnnc_word start, unsigned batch, rnnc_word rows,
                                            rnnc_word back, rnnc_word span) {
  rnnc_begin();
  const rnnc_word thread = static_cast<rnnc_word>(blockIdx.x) * blockDim.x + threadIdx.x;
  const auto b = static_cast<unsigned>(thread % batch);
  const rnnc_word count = rows / batch;
  const rnnc_word first = thread / batch * span;
  if (first >= count) return;
  const rnnc_word length = rnnc_length(lengths, steps, b);
  rnnc_word newest = start + first - 1;
  const rnnc_word earliest = max(newest - back, rnnc_word(-1));  // no reset that counts
#pragma unroll 4
  while (newest > earliest && !rnnc_is_reset(resets, reversed, newest, length, batch, b)) --newest;
  if (newest == earliest) newest = -1;
  const rnnc_word end = min(first + span, count);
#pragma unroll 1
  for (rnnc_word i = first; i < end; ++i) {
    const rnnc_word t = start + i;
    if (rnnc_is_reset(resets, reversed, t, length, batch, b)) newest = t;
    target[i * batch + b] = newest >= 0 && t - newest <= back ? 1.0f : 0.0f;
  }
}
