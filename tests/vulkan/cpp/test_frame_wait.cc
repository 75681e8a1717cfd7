// When a waiting thread sleeps and when it polls; no GPU, no clock.
#include "check.h"
#include "frame_wait.h"

using namespace tvm_vision::vulkan;
using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST(ShortFramesArePolledFromTheStart) {
  FrameWait wait(microseconds(500));
  CHECK(wait.polls());
  CHECK(wait.sleep() == microseconds(0));
  CHECK(wait.give_up() == milliseconds(1));
  for (int i = 0; i < 100; ++i) wait.Learn(microseconds(300));
  CHECK(wait.sleep() == microseconds(0));
  CHECK(wait.give_up() > microseconds(1250));
}

TEST(LongFramesAreSleptThroughUntilShortlyBeforeTheirEnd) {
  FrameWait wait(microseconds(500));
  for (int i = 0; i < 200; ++i) wait.Learn(milliseconds(20));
  CHECK(wait.sleep() > milliseconds(19) && wait.sleep() <= microseconds(19500));
  CHECK(wait.give_up() > milliseconds(20) && wait.give_up() <= milliseconds(21));
}

TEST(FasterFramesAreLearntAtOnceSlowerOnesSlowly) {
  FrameWait wait(microseconds(500));
  for (int i = 0; i < 200; ++i) wait.Learn(milliseconds(20));
  wait.Learn(milliseconds(2));
  CHECK(wait.sleep() == microseconds(1500));
  wait.Learn(milliseconds(10));
  CHECK(wait.sleep() == microseconds(2500));
}

TEST(NoMarginMeansNoPolling) { CHECK(!FrameWait(microseconds(0)).polls()); }

int main() { return check::Run(); }
