// Records spans in tight loops with the C++ library, as `producer.rs` does with the others.
//
//   producer THREADS SPANS drop|wait|default

#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "perfetto.h"

PERFETTO_DEFINE_CATEGORIES(perfetto::Category("test"));
PERFETTO_TRACK_EVENT_STATIC_STORAGE();

int main(int argc, char** argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: producer THREADS SPANS drop|wait|default\n");
    return 2;
  }
  const int threads = atoi(argv[1]);
  const uint64_t spans = strtoull(argv[2], nullptr, 10);
  const std::string policy = argv[3];

  perfetto::TracingInitArgs args;
  args.backends = perfetto::kSystemBackend;
  // The policy of the configuration has no effect on track events of this library.
  if (policy == "drop") {
    args.track_event_buffer_exhausted_policy = perfetto::BufferExhaustedPolicy::kDrop;
  } else if (policy == "wait") {
    args.track_event_buffer_exhausted_policy = perfetto::BufferExhaustedPolicy::kStallThenDrop;
  }
  perfetto::Tracing::Initialize(args);
  perfetto::TrackEvent::Register();

  while (!TRACE_EVENT_CATEGORY_ENABLED("test"))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  printf("started\n");
  fflush(stdout);

  const auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> workers;
  for (int number = 0; number < threads; number++) {
    workers.emplace_back([spans] {
      for (uint64_t index = 0; index < spans; index++) {
        TRACE_EVENT_BEGIN("test", "work", "index", index);
        TRACE_EVENT_END("test");
      }
    });
  }
  for (std::thread& worker : workers)
    worker.join();
  const auto took = std::chrono::steady_clock::now() - start;
  const int64_t ns = std::chrono::duration_cast<std::chrono::nanoseconds>(took).count();
  printf("done %" PRId64 "\n", ns);
  fflush(stdout);
  getchar();
  return 0;
}
