#include "tests/emulator/queue.h"

#include <algorithm>
#include <utility>

#include "tests/emulator/emulator.h"

namespace rnnc::emulator {
namespace {

/// More does not wait at a time.
constexpr size_t kMostWaiting = 2048;

void append(Tasks& tasks, const Tasks& more) {
  tasks.insert(tasks.end(), more.begin(), more.end());
}

int64_t& launches() {
  static int64_t the_launches = 0;
  return the_launches;
}

}  // namespace

int64_t take_launches() {
  return std::exchange(launches(), 0);
}

cudaStreamCaptureMode& capture_mode() {
  thread_local cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  return mode;
}

// ---- Streams ----

CUstream_st& Queue::stream(cudaStream_t handle) {
  if (handle == nullptr || handle == cudaStreamLegacy) return legacy_;
  return handle == cudaStreamPerThread ? per_thread_ : *handle;
}

cudaStream_t Queue::create_stream(bool blocking) {
  const auto [place, is_new] =
      streams_.insert(std::make_unique<CUstream_st>(CUstream_st{.blocking = blocking}));
  return place->get();
}

void Queue::destroy_stream(cudaStream_t stream) {
  std::erase_if(streams_, [stream](const auto& own) { return own.get() == stream; });
}

/// What comes next on a stream waits for these.
Tasks Queue::before_next(const CUstream_st& stream) const {
  Tasks before = stream.last;
  if (&stream != &legacy_) {
    if (stream.blocking) append(before, legacy_.last);
    return before;
  }
  append(before, per_thread_.last);
  for (const auto& other : streams_) {
    if (other->blocking) append(before, other->last);
  }
  return before;
}

void Queue::add(CUstream_st& stream, Work work, const Tasks& before) {
  auto task = std::make_shared<Task>(Task{.work = std::move(work)});
  for (const std::shared_ptr<Task>& other : before) {
    if (!other->done) task->before.push_back(other);
  }
  stream.last = {task};
  waiting_.push_back(std::move(task));
}

cudaError_t Queue::submit(CUstream_st& stream, Work work) {
  if (broken_ != cudaSuccess) return broken_;
  if (stream.capture != nullptr) {
    if (stream.capture->invalid) return cudaErrorStreamCaptureInvalidated;
    stream.capture->nodes.push_back({std::move(work), stream.last_nodes});
    stream.last_nodes = {stream.capture->nodes.size() - 1};
    return cudaSuccess;
  }
  // The default streams are not told what they wait for in a graph.
  if (&stream == &legacy_ && !may_be_unsafe()) return cudaErrorStreamCaptureImplicit;
  ++launches();
  add(stream, std::move(work), before_next(stream));
  while (waiting_.size() > kMostWaiting && broken_ == cudaSuccess) run_one();
  return broken_;
}

cudaError_t Queue::launch_graph(const CUgraphExec_st& graph, CUstream_st& stream) {
  if (broken_ != cudaSuccess) return broken_;
  if (stream.capture != nullptr) return cudaErrorStreamCaptureUnsupported;
  ++launches();
  const Tasks before = before_next(stream);
  Tasks tasks;
  for (const CUgraph_st::Node& node : graph.nodes) {
    Tasks own;
    for (const size_t index : node.before) own.push_back(tasks[index]);
    add(stream, node.work, own.empty() ? before : own);
    tasks.push_back(stream.last[0]);
  }
  append(tasks, before);
  stream.last = std::move(tasks);
  while (waiting_.size() > kMostWaiting && broken_ == cudaSuccess) run_one();
  return broken_;
}

// ---- Running ----

bool Queue::is_ready(const Task& task) const {
  return std::ranges::all_of(task.before, &Task::done,
                             [](const auto& other) -> const Task& { return *other; });
}

void Queue::run_one() {
  std::vector<size_t> ready;
  for (size_t i = 0; i < waiting_.size(); ++i) {
    if (is_ready(*waiting_[i])) ready.push_back(i);
  }
  const size_t index = ready[random_.below(ready.size())];
  const std::shared_ptr<Task> task = waiting_[index];
  waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(index));
  begin_next_early(task);
  run(*task);
}

/// A kernel that may begin before this one ends does so before it begins: that is the earliest.
void Queue::begin_next_early(const std::shared_ptr<Task>& task) {
  if (!std::holds_alternative<KernelCall>(task->work)) return;
  for (const std::shared_ptr<Task>& next : waiting_) {
    const auto* call = std::get_if<KernelCall>(&next->work);
    if (call == nullptr || !call->overlaps || next->before != Tasks{task}) continue;
    if (random_.toss()) return;
    next->begun = std::make_unique<Launch>(*call, random_());
    if (const auto fault = next->begun->begin_early()) add_fault(*fault);
    return;
  }
}

void Queue::run(Task& task) {
  if (const auto* call = std::get_if<KernelCall>(&task.work)) {
    if (task.begun == nullptr) task.begun = std::make_unique<Launch>(*call, random_());
    if (const auto fault = task.begun->run()) add_fault(*fault);
    task.begun.reset();
  } else {
    std::get<std::function<void()>>(task.work)();
  }
  task.done = true;
  task.before.clear();
}

void Queue::break_down() {
  broken_ = cudaErrorLaunchFailure;
  for (const std::shared_ptr<Task>& task : waiting_) {
    task->done = true;
    task->before.clear();
  }
  waiting_.clear();
}

cudaError_t Queue::complete(const Tasks& tasks) {
  for (const std::shared_ptr<Task>& task : tasks) {
    while (!task->done && broken_ == cudaSuccess) run_one();
  }
  return broken_;
}

cudaError_t Queue::complete(const CUstream_st& stream) {
  if (stream.capture != nullptr) {
    stream.capture->invalid = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  return complete(before_next(stream));
}

cudaError_t Queue::complete(const CUevent_st& event) {
  return complete(Tasks(event.after));
}

cudaError_t Queue::complete_all() {
  while (!waiting_.empty() && broken_ == cudaSuccess) run_one();
  return broken_;
}

// ---- Events ----

cudaError_t Queue::record(CUevent_st& event, CUstream_st& stream) {
  event.capture = stream.capture;
  event.nodes = stream.last_nodes;
  if (stream.capture != nullptr) return cudaSuccess;
  event.time = std::make_shared<std::chrono::steady_clock::time_point>();
  const cudaError_t error =
      submit(stream, [time = event.time] { *time = std::chrono::steady_clock::now(); });
  event.after = stream.last;
  return error;
}

cudaError_t Queue::wait(CUstream_st& stream, const CUevent_st& event) {
  if (event.capture != nullptr) {
    if (!captures_.contains(event.capture)) return cudaErrorCapturedEvent;
    if (stream.capture == nullptr) {
      stream.capture = event.capture;
      stream.last_nodes.clear();
    }
    if (stream.capture != event.capture) return cudaErrorStreamCaptureMerge;
    stream.last_nodes.insert(stream.last_nodes.end(), event.nodes.begin(), event.nodes.end());
    return cudaSuccess;
  }
  if (stream.capture != nullptr) return cudaErrorStreamCaptureIsolation;
  append(stream.last, event.after);
  return cudaSuccess;
}

// ---- Captures ----

cudaError_t Queue::begin_capture(CUstream_st& stream, cudaStreamCaptureMode mode) {
  if (&stream == &legacy_) return cudaErrorStreamCaptureUnsupported;
  if (stream.capture != nullptr) return cudaErrorIllegalState;
  stream.capture = new CUgraph_st;
  stream.capture->origin = &stream;
  stream.capture->mode = mode;
  stream.capture->thread = std::this_thread::get_id();
  stream.last_nodes.clear();
  captures_.insert(stream.capture);
  return cudaSuccess;
}

cudaError_t Queue::end_capture(CUstream_st& stream, CUgraph_st** graph) {
  *graph = nullptr;
  CUgraph_st* const capture = stream.capture;
  if (capture == nullptr || capture->origin != &stream) return cudaErrorStreamCaptureUnmatched;
  // Everything has to come before the origin's end.
  std::vector<bool> joined(capture->nodes.size());
  for (const size_t node : stream.last_nodes) joined[node] = true;
  for (size_t i = joined.size(); i-- > 0;) {
    for (const size_t before : capture->nodes[i].before)
      joined[before] = joined[before] || joined[i];
  }
  captures_.erase(capture);
  per_thread_.capture = per_thread_.capture == capture ? nullptr : per_thread_.capture;
  for (const auto& other : streams_) {
    if (other->capture == capture) other->capture = nullptr;
  }
  const bool all_joined = std::ranges::find(joined, false) == joined.end();
  if (all_joined && !capture->invalid) {
    *graph = capture;
    return cudaSuccess;
  }
  const bool invalid = capture->invalid;
  delete capture;
  return invalid ? cudaErrorStreamCaptureInvalidated : cudaErrorStreamCaptureUnjoined;
}

bool Queue::may_be_unsafe() {
  if (capture_mode() == cudaStreamCaptureModeRelaxed) return true;
  for (CUgraph_st* capture : captures_) {
    const bool own = capture->thread == std::this_thread::get_id();
    const bool forbids = own ? capture->mode != cudaStreamCaptureModeRelaxed
                             : capture->mode == cudaStreamCaptureModeGlobal &&
                                   capture_mode() == cudaStreamCaptureModeGlobal;
    if (!forbids) continue;
    capture->invalid = true;
    return false;
  }
  return true;
}

}  // namespace rnnc::emulator
