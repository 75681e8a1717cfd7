// One thread at a time in an executor: what is refused, and what taking turns leaves alone.
#include <string>
#include <thread>

#include "check.h"
#include "one_user.h"

using namespace tvm_vision::runtime;

namespace {

TEST(WhatAnotherThreadReplaced) {
  Turns turns;
  turns.Take();
  std::thread([&] { turns.Take(); }).join();
  CHECK(turns.Replaced());
  turns.Take();
  CHECK(!turns.Replaced());
  turns.Used();
  std::thread([&] { turns.Take(); }).join();
  CHECK(!turns.Replaced());
}

TEST(AThreadForEachFrameFillsNoMemory) {
  Turns turns;
  for (int i = 0; i < 300; ++i) {
    std::thread([&] {
      turns.Take();
      CHECK(!turns.Replaced());
    }).join();
  }
}

TEST(OneCallAtATime) {
  OneCall calls;
  {
    OneCall::Scope first(&calls, "run");
    bool refused = false;
    try {
      OneCall::Scope second(&calls, "set_input");
    } catch (const tvm::ffi::Error& error) {
      refused = error.message().find("set_input was called while another thread was in run") !=
                std::string::npos;
    }
    CHECK(refused);
  }
  OneCall::Scope third(&calls, "run");
}

}  // namespace

int main() { return check::Run(); }
