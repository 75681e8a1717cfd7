// Suballocation and barrier placement, against simple models; no GPU.
#include <map>
#include <random>

#include "check.h"
#include "hazard_tracker.h"
#include "range_allocator.h"

using namespace tvm_vision::vulkan;

TEST(RangesDoNotOverlapAndMerge) {
  constexpr uint64_t kSize = 1 << 20;
  constexpr uint64_t kAlign = 256;
  RangeAllocator ranges(kSize, kAlign);
  std::map<uint64_t, uint64_t> live;
  std::mt19937 random(7);
  for (int step = 0; step < 20000; ++step) {
    if (live.empty() || random() % 3 != 0) {
      uint64_t bytes = random() % 9000 + 1;
      uint64_t offset = ranges.Allocate(bytes);
      if (offset == RangeAllocator::kNone) continue;
      uint64_t size = (bytes + kAlign - 1) / kAlign * kAlign;
      CHECK(offset % kAlign == 0 && offset + size <= kSize);
      auto next = live.lower_bound(offset);
      CHECK(next == live.end() || offset + size <= next->first);
      CHECK(next == live.begin() || std::prev(next)->first + std::prev(next)->second <= offset);
      live[offset] = size;
    } else {
      auto victim = std::next(live.begin(), random() % live.size());
      ranges.Free(victim->first);
      live.erase(victim);
    }
  }
  for (const auto& [offset, size] : live) ranges.Free(offset);
  CHECK(ranges.empty());
  CHECK(ranges.used_bytes() == 0);
  CHECK(ranges.Allocate(kSize) == 0);
  CHECK(ranges.Allocate(1) == RangeAllocator::kNone);
}

TEST(BestFitKeepsLargeRangesWhole) {
  RangeAllocator ranges(10 * 256, 256);
  uint64_t a = ranges.Allocate(256);
  uint64_t b = ranges.Allocate(2 * 256);
  uint64_t c = ranges.Allocate(256);
  ranges.Free(b);
  CHECK(ranges.Allocate(2 * 256) == b);
  ranges.Free(a);
  ranges.Free(c);
  CHECK(ranges.Allocate(7 * 256) == c);
}

namespace {

BufferAccess Read(const void* memory, uint64_t begin = 0, uint64_t end = 100) {
  return {memory, begin, end, true, false};
}

BufferAccess Write(const void* memory, uint64_t begin = 0, uint64_t end = 100) {
  return {memory, begin, end, false, true};
}

}  // namespace

TEST(BarriersOnlyForTrueDependencies) {
  int x, y, z;
  HazardTracker tracker;
  CHECK(!tracker.Access({Read(&x), Write(&y)}));
  CHECK(!tracker.Access({Read(&x), Write(&z)}));  // reads the same, writes another
  CHECK(tracker.Access({Read(&y)}));              // read after write
  CHECK(!tracker.Access({Read(&y)}));             // read after read
  CHECK(tracker.Access({Write(&y)}));             // write after read
  CHECK(tracker.Access({Write(&y)}));             // write after write
  CHECK(!tracker.Access({Write(&x)}));            // an old read, before a barrier
}

TEST(PartsThatDoNotOverlapAreIndependent) {
  int x;
  HazardTracker tracker;
  CHECK(!tracker.Access({Write(&x, 0, 50)}));
  CHECK(!tracker.Access({Write(&x, 50, 100)}));
  CHECK(tracker.Access({Read(&x, 49, 51)}));
  CHECK(!tracker.Access({Write(&x, 0, 49)}));
  CHECK(tracker.Access({Write(&x, 50, 60)}));
}

TEST(BarrierCoversEverythingBefore) {
  int x, y;
  HazardTracker tracker;
  CHECK(!tracker.Access({Write(&x)}));
  CHECK(!tracker.Access({Write(&y)}));
  CHECK(tracker.Access({Read(&x)}));
  CHECK(!tracker.Access({Read(&y)}));
  tracker.Reset();
  CHECK(!tracker.Access({Write(&x)}));
}

TEST(OneOperationMayReadAndWriteOneBuffer) {
  int x;
  HazardTracker tracker;
  CHECK(!tracker.Access({{&x, 0, 4, true, true}}));
  CHECK(tracker.Access({{&x, 0, 4, true, true}}));
  CHECK(!tracker.Access({}));
}

int main() { return check::Run(); }
